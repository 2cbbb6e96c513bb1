package keyspace

import (
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
)

// In cluster mode the keys of a hash slot lie together in the table of database 0, the only one. See table.Slots.

// InSlot is the number of keys in a slot, with those past their deadline and not yet removed. Any goroutine; only in
// cluster mode.
func (k *Keyspace) InSlot(slot uint16) int { return k.slots.Load().Count(slot) }

// EachInSlot yields up to limit keys of a slot, past their deadline or not. yield must not write to a database. Turn
// only; only in cluster mode. Cost: the keys yielded, and up to some 400 keys in the same segment.
func (k *Keyspace) EachInSlot(slot uint16, limit int, yield func(value.Value)) {
	k.assertHeld()
	k.dbs[0].d.t.EachOf(slot, limit, func(ref memory.Ref) { yield(value.At(ref)) })
}

// AllInSlot is DB.All of a slot's keys.
func (k *Keyspace) AllInSlot(slot uint16) func(yield func(value.Value) bool) {
	k.assertHeld()
	return func(yield func(value.Value) bool) {
		more := true
		k.EachInSlot(slot, k.InSlot(slot), func(v value.Value) { more = more && yield(v) })
	}
}

// ScanSlot is DB.Scan of a slot's keys. It may yield others, too. Only in cluster mode.
func (k *Keyspace) ScanSlot(slot uint16, cursor uint64, count int, yield func(value.Value)) uint64 {
	k.assertHeld()
	return k.dbs[0].d.t.ScanOf(slot, cursor, count, func(ref memory.Ref) { yield(value.At(ref)) })
}

// BySlot reports whether the keyspace is in cluster mode.
func (k *Keyspace) BySlot() bool { return k.bySlot }

// noteSlots makes InSlot read the counts of the present database 0.
func (k *Keyspace) noteSlots() {
	if k.bySlot && k.all[0].d != nil {
		k.slots.Store(k.all[0].d.t.Slots())
	}
}
