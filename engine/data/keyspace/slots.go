package keyspace

import (
	"sync/atomic"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
	"spindle/internal/slots"
)

// In cluster mode the keys of a hash slot lie together in the table of each database. See table.Slots.

// A slot of a move that is not over is hidden. Its keys are found by their names, for the move itself. No count, walk,
// draw, view, expiry or eviction has them.

// InSlot is the number of keys in a slot of all databases, with those past their deadline and not yet removed. It is 0
// for a hidden slot. Any goroutine; only in cluster mode.
func (k *Keyspace) InSlot(slot uint16) (n int) {
	if k.hidden.Has(slot) {
		return 0
	}
	return k.StoredInSlot(slot)
}

// StoredInSlot is InSlot, hidden or not.
func (k *Keyspace) StoredInSlot(slot uint16) (n int) {
	for i := range k.slots {
		n += k.slots[i].Load().Count(slot)
	}
	return n
}

// InSlot is the number of the database's keys in a slot. Only in cluster mode.
func (db *DB) InSlot(slot uint16) int {
	db.k.assertHeld()
	if db.k.hidden.Has(slot) {
		return 0
	}
	return db.d.t.Slots().Count(slot)
}

// EachInSlot yields up to limit keys of a slot, past their deadline or not; none of a hidden slot. yield must not write
// to a database. Only in cluster mode. Cost: the keys yielded, and up to some 400 keys in the same segment.
func (db *DB) EachInSlot(slot uint16, limit int, yield func(value.Value)) {
	if db.k.hidden.Has(slot) {
		return
	}
	db.EachStoredInSlot(slot, limit, yield)
}

// EachStoredInSlot is EachInSlot, hidden or not.
func (db *DB) EachStoredInSlot(slot uint16, limit int, yield func(value.Value)) {
	db.k.assertHeld()
	db.d.t.EachOf(slot, limit, func(ref memory.Ref) { yield(value.At(ref)) })
}

// PresentInSlot is Present of a slot's keys.
func (db *DB) PresentInSlot(slot uint16) func(yield func(value.Value) bool) {
	db.k.assertHeld()
	root, hidden := db.d.t.Root(), db.k.hidden.Has(slot)
	return func(yield func(value.Value) bool) {
		if hidden {
			return
		}
		table.WalkSlot(root, table.Entry, slot, func(ref memory.Ref) bool { return yield(value.At(ref)) })
	}
}

// ScanSlot is Scan of a slot's keys. It may yield others, too. Only in cluster mode.
func (db *DB) ScanSlot(slot uint16, cursor uint64, count int, yield func(value.Value)) uint64 {
	db.k.assertHeld()
	return db.d.t.ScanOf(slot, cursor, count, db.shown(yield))
}

// shown passes on blocks whose keys are not hidden.
func (db *DB) shown(yield func(value.Value)) func(memory.Ref) {
	if !db.k.hidden.Any() {
		return func(ref memory.Ref) { yield(value.At(ref)) }
	}
	return func(ref memory.Ref) {
		if !db.d.t.Conceals(ref) {
			yield(value.At(ref))
		}
	}
}

// Hide hides slots, or shows them again, in all databases. A slot that is hidden has no key with a deadline yet. Only
// in cluster mode. Cost: the slots.
func (k *Keyspace) Hide(list []uint16, hidden bool) {
	k.assertHeld()
	for _, slot := range list {
		if k.hidden.Has(slot) == hidden {
			continue
		}
		k.hidden.Set(slot, hidden)
		for i := range k.all {
			if d := k.all[i].d; d != nil {
				d.t.Slots().Shift(slot, hidden)
			}
		}
	}
}

// Hides reports whether a slot is hidden. Any goroutine.
func (k *Keyspace) Hides(slot uint16) bool { return k.hidden.Has(slot) }

// HidesAny reports whether a slot is hidden.
func (k *Keyspace) HidesAny() bool { k.assertHeld(); return k.hidden.Any() }

// conceals reports whether key lies in a hidden slot.
func (k *Keyspace) conceals(key []byte) bool { return k.hidden.Any() && k.hidden.Has(slots.Of(key)) }

// hiddenFor is when a hidden key past its deadline is looked at again, in ms.
const hiddenFor = 1000

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
