package keyspace

import "spindle/engine/data/value"

// Clocks reads entries' clocks as seen from one instant, on any goroutine: what savers write of them. The clock of a
// frozen entry is what it is now (table.Layout, table.N1): of a key that was used since that instant it is ahead, and
// the key counts as used at it.
type Clocks struct {
	policy         Policy
	second, minute uint32
	decay          int
}

// Clocks is the reader for now. Turn only.
func (k *Keyspace) Clocks() Clocks {
	return Clocks{k.Policy, k.second(), k.minute(), k.LFUDecayTime}
}

// Of is a key's idle time in seconds, or its use counter, -1 for the one that the policy does not keep. Both are -1
// under a policy that goes by neither.
func (c Clocks) Of(v value.Value) (idleSeconds int64, frequency int) {
	clock := v.Clock() // once: the core may be writing it
	switch c.policy {
	case VolatileLFU, AllKeysLFU:
		count := clock & 255
		if c.decay > 0 {
			count -= min(since(c.minute, clock>>8, 0xFFFF, aheadMinutes)/uint32(c.decay), count)
		}
		return -1, int(count)
	case VolatileLRU, AllKeysLRU:
		return int64(since(c.second, clock, clockMask, aheadSeconds)), -1
	}
	return -1, -1
}

// By how much a clock may be ahead: longer than any save takes, and little of what the clock spans before it begins
// anew.
const (
	aheadSeconds = 12 * 60 * 60
	aheadMinutes = 12 * 60
)

// since is how long before now then was, on a clock that begins anew behind mask; 0 for what is up to ahead behind now.
func since(now, then, mask, ahead uint32) uint32 {
	if ago := (now - then) & mask; ago <= mask-ahead {
		return ago
	}
	return 0
}
