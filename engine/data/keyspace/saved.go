package keyspace

import "spindle/engine/data/value"

// Clocks reads entries' clocks as of one instant, on any goroutine: what savers write of them.
type Clocks struct {
	policy         Policy
	second, minute uint32
	decay          int
}

// Clocks is the reader for now. Turn only.
func (k *Keyspace) Clocks() Clocks {
	return Clocks{k.Policy, k.second(), k.minute(), k.LFUDecayTime}
}

// Of is a key's idle time in seconds, or its use counter, -1 for the one that the policy does not keep. Both are -1 under a
// policy that goes by neither.
func (c Clocks) Of(v value.Value) (idleSeconds int64, frequency int) {
	switch c.policy {
	case VolatileLFU, AllKeysLFU:
		count := v.Clock() & 255
		if c.decay > 0 {
			count -= min((c.minute-v.Clock()>>8)&0xFFFF/uint32(c.decay), count)
		}
		return -1, int(count)
	case VolatileLRU, AllKeysLRU:
		return int64((c.second - v.Clock()) & clockMask), -1
	}
	return -1, -1
}
