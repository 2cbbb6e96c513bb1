package keyspace

import "spindle/engine/data/value"

// Each entry has a clock of 24 bits, from which eviction learns how much the key is worth keeping. Under an LFU policy:
//
//	23      8 7     0
//	+--------+-------+
//	| minute | count |     the minute of the last decay, modulo 2^16; count grows ever slower
//	+--------+-------+
//
// Under all other policies it is the second of the last use, modulo 2^24. Under an LRM policy, only a change is a use.
const (
	clockMask  = 1<<24 - 1
	clockMs    = 1000
	lfuInitial = 5
)

func (k *Keyspace) second() uint32 { k.assertHeld(); return uint32(k.now/clockMs) & clockMask }

func (k *Keyspace) minute() uint32 { k.assertHeld(); return uint32(k.now/60000) & 0xFFFF }

// newClock returns the clock of a new key.
func (k *Keyspace) newClock() uint32 {
	if k.Policy.LFU() {
		return k.minute()<<8 | lfuInitial
	}
	return k.second()
}

// touch records a use of v in its clock.
func (k *Keyspace) touch(v value.Value) {
	if k.Policy.in(countUses|timeChanges) || k.NoTouch {
		k.touchSlow(v)
		return
	}
	v.SetClock(k.second())
}

func (k *Keyspace) touchSlow(v value.Value) {
	if k.NoTouch || k.Policy.LRM() {
		return
	}
	v.SetClock(k.minute()<<8 | k.grown(k.decayed(v.Clock())))
}

// decayed returns the count of an LFU clock, less one for each LFUDecayTime minutes since its last decay.
func (k *Keyspace) decayed(clock uint32) uint32 {
	count := clock & 255
	if k.LFUDecayTime <= 0 {
		return count
	}
	periods := (k.minute() - clock>>8) & 0xFFFF / uint32(k.LFUDecayTime)
	return count - min(periods, count)
}

// grown returns a count after one more use. The count grows with a probability of 1 in (count - lfuInitial) *
// LFULogFactor + 1.
func (k *Keyspace) grown(count uint32) uint32 {
	if count == 255 {
		return count
	}
	base := uint64(0)
	if count > lfuInitial {
		base = uint64(count - lfuInitial)
	}
	if k.rng.Uint64()>>32*(base*uint64(max(k.LFULogFactor, 0))+1)>>32 == 0 {
		count++
	}
	return count
}

// Renew gives v the clock of a new key. It is for a value that replaced another value as if the key had been deleted
// first.
func (k *Keyspace) Renew(v value.Value) { v.SetClock(k.newClock()) }

// modified records a change of key under an LRM policy, also for a client under CLIENT NO-TOUCH.
func (db *DB) modified(key []byte) {
	if v := db.find(key); v.Exists() {
		v.SetClock(db.k.second())
	}
}

// IdleMs returns the time since v was last used, in ms (OBJECT IDLETIME). It is meaningful only if the policy is not
// LFU.
func (k *Keyspace) IdleMs(v value.Value) int64 {
	return int64((k.second()-v.Clock())&clockMask) * clockMs
}

// Frequency returns v's logarithmic use counter after decay (OBJECT FREQ). It is meaningful only if the policy is LFU.
func (k *Keyspace) Frequency(v value.Value) int { k.assertHeld(); return int(k.decayed(v.Clock())) }

// SetIdle gives v the clock of a key that was last used idleMs ago (RESTORE IDLETIME, RDB). Longer times are limited to
// what the clock can express (saved.go). Under an LFU policy it does nothing.
func (k *Keyspace) SetIdle(v value.Value, idleMs int64) {
	k.assertHeld()
	if !k.Policy.LFU() {
		v.SetClock((k.second() - uint32(min(idleMs/clockMs, clockMask-aheadSeconds))) & clockMask)
	}
}

// SetFrequency gives v the clock of a key with this use counter (RESTORE FREQ, RDB). Under other policies it does
// nothing.
func (k *Keyspace) SetFrequency(v value.Value, freq int) {
	k.assertHeld()
	if k.Policy.LFU() {
		v.SetClock(k.minute()<<8 | uint32(freq)&255)
	}
}
