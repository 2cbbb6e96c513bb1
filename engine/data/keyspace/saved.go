package keyspace

import "spindle/engine/data/value"

// Clocks reads entries' clocks as of one moment, on any goroutine, for savers. The core keeps changing the clock of a
// frozen entry (table.Layout, table.N1). If a key was used since that moment, its clock is later than the moment. Such
// a key counts as just used.
type Clocks struct {
	policy         Policy
	second, minute uint32
	decay          int
}

// Clocks returns a reader of clocks as of now. Turn only.
func (k *Keyspace) Clocks() Clocks {
	return Clocks{k.Policy, k.second(), k.minute(), k.LFUDecayTime}
}

// Of returns a key's idle time in seconds or its use counter, whichever the policy keeps. The other is -1. Both are -1
// under a policy that keeps neither.
func (c Clocks) Of(v value.Value) (idleSeconds int64, frequency int) {
	clock := v.Clock() // read once, because the core may be writing it
	switch c.policy {
	case VolatileLFU, AllKeysLFU:
		count := clock & 255
		if c.decay > 0 {
			count -= min(since(c.minute, clock>>8, 0xFFFF, aheadMinutes)/uint32(c.decay), count)
		}
		return -1, int(count)
	case VolatileLRU, AllKeysLRU, VolatileLRM, AllKeysLRM:
		return int64(since(c.second, clock, clockMask, aheadSeconds)), -1
	}
	return -1, -1
}

// How far a clock may be later than the moment of Clocks. It is longer than any save takes, and a small part of the
// clock's range.
const (
	aheadSeconds = 12 * 60 * 60
	aheadMinutes = 12 * 60
)

// since returns the time from then to now, on a clock that wraps after mask. It returns 0 if then is later than now by
// at most ahead.
func since(now, then, mask, ahead uint32) uint32 {
	if ago := (now - then) & mask; ago <= mask-ahead {
		return ago
	}
	return 0
}
