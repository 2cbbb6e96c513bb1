package keyspace

import (
	"sync/atomic"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// In cluster mode the keys of a hash slot lie together in the table of each database. See table.Slots.

// InSlot is the number of keys in a slot of all databases, with those past their deadline and not yet removed. Any
// goroutine; only in cluster mode.
func (k *Keyspace) InSlot(slot uint16) (n int) {
	for i := range k.slots {
		n += k.slots[i].Load().Count(slot)
	}
	return n
}

// InSlot is the number of the database's keys in a slot. Only in cluster mode.
func (db *DB) InSlot(slot uint16) int {
	db.k.assertHeld()
	return db.d.t.Slots().Count(slot)
}

// EachInSlot yields up to limit keys of a slot, past their deadline or not. yield must not write to a database. Only in
// cluster mode. Cost: the keys yielded, and up to some 400 keys in the same segment.
func (db *DB) EachInSlot(slot uint16, limit int, yield func(value.Value)) {
	db.k.assertHeld()
	db.d.t.EachOf(slot, limit, func(ref memory.Ref) { yield(value.At(ref)) })
}

// PresentInSlot is Present of a slot's keys.
func (db *DB) PresentInSlot(slot uint16) func(yield func(value.Value) bool) {
	db.k.assertHeld()
	root := db.d.t.Root()
	return func(yield func(value.Value) bool) {
		table.WalkSlot(root, table.Entry, slot, func(ref memory.Ref) bool { return yield(value.At(ref)) })
	}
}

// ScanSlot is Scan of a slot's keys. It may yield others, too. Only in cluster mode.
func (db *DB) ScanSlot(slot uint16, cursor uint64, count int, yield func(value.Value)) uint64 {
	db.k.assertHeld()
	return db.d.t.ScanOf(slot, cursor, count, func(ref memory.Ref) { yield(value.At(ref)) })
}

// BySlot reports whether the keyspace is in cluster mode.
func (k *Keyspace) BySlot() bool { return k.bySlot }

// slotCounts are the counts of a database that Keyspace.InSlot reads.
type slotCounts = atomic.Pointer[table.Slots]

// noteSlots makes Keyspace.InSlot read the counts of the present database i.
func (k *Keyspace) noteSlots(i int) {
	if k.bySlot && i < len(k.slots) {
		k.slots[i].Store(k.all[i].d.t.Slots())
	}
}
