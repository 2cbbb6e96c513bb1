package keyspace

import (
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
)

// Hash slots: in cluster mode the keys of a slot lie together in the table of database 0, the only one there is. See
// table.Slots.

// InSlot is how many keys a slot has, those past their deadline and not yet removed included. Any goroutine; only in
// cluster mode.
func (k *Keyspace) InSlot(slot uint16) int { return k.slots.Load().Count(slot) }

// EachInSlot yields up to limit keys of a slot, past their deadline or not. yield must not write to a database. Turn
// only; only in cluster mode. Cost: the keys yielded, and up to some 400 keys that lie beside them.
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

// BySlot says that keys lie by their slots.
func (k *Keyspace) BySlot() bool { return k.bySlot }

// noteSlots has InSlot read the counts of what is database 0 now.
func (k *Keyspace) noteSlots() {
	if k.bySlot && k.all[0].d != nil {
		k.slots.Store(k.all[0].d.t.Slots())
	}
}
