package keyspace

import (
	"sync/atomic"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
	"spindle/internal/slots"
)

// In cluster mode, the keys of a hash slot lie together in the table of each database. See table.Slots.

// While a slot is being moved to this node, it is hidden. The move itself finds the slot's keys by name. Counts, walks,
// samples, views, expiry and eviction leave them out.

// InSlot returns the number of keys in a slot of all databases. It includes keys past their deadline and not yet
// removed. It is 0 for a hidden slot. Any goroutine may call it, but only in cluster mode.
func (k *Keyspace) InSlot(slot uint16) (n int) {
	if k.hidden.Has(slot) {
		return 0
	}
	return k.StoredInSlot(slot)
}

// StoredInSlot is InSlot, but also counts the keys of a hidden slot.
func (k *Keyspace) StoredInSlot(slot uint16) (n int) {
	for i := range k.slots {
		n += k.slots[i].Load().Count(slot)
	}
	return n
}

// Mark marks a slot, if it has keys. Any goroutine may call it, but only in cluster mode.
func (k *Keyspace) Mark(slot uint16) {
	for i := range k.slots {
		k.slots[i].Load().Mark(slot)
	}
}

// Marked reports whether some database has had keys in a slot at each moment since the latest Mark. Any goroutine may
// call it, but only in cluster mode.
func (k *Keyspace) Marked(slot uint16) (is bool) {
	for i := range k.slots {
		is = is || k.slots[i].Load().Marked(slot)
	}
	return is
}

// InSlot returns the number of the database's keys in a slot. It is 0 for a hidden slot. Only in cluster mode.
func (db *DB) InSlot(slot uint16) int {
	db.k.assertHeld()
	if db.k.hidden.Has(slot) {
		return 0
	}
	return db.d.t.Slots().Count(slot)
}

// EachInSlot yields up to limit keys of a slot, even past their deadline. It yields no key of a hidden slot. yield must
// not write to a database. Only in cluster mode. Cost: the keys yielded, and up to some 400 keys in the same segment.
func (db *DB) EachInSlot(slot uint16, limit int, yield func(value.Value)) {
	if db.k.hidden.Has(slot) {
		return
	}
	db.EachStoredInSlot(slot, limit, yield)
}

// EachStoredInSlot is EachInSlot, but also yields the keys of a hidden slot.
func (db *DB) EachStoredInSlot(slot uint16, limit int, yield func(value.Value)) {
	db.k.assertHeld()
	db.d.t.EachOf(slot, limit, func(ref memory.Ref) { yield(value.At(ref)) })
}

// PresentInSlot is Present for the keys of one slot.
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

// ScanSlot is Scan for the keys of one slot. It may yield keys of other slots, too. Only in cluster mode.
func (db *DB) ScanSlot(slot uint16, cursor uint64, count int, yield func(value.Value)) uint64 {
	db.k.assertHeld()
	return db.d.t.ScanOf(slot, cursor, count, db.shown(yield))
}

// shown returns a function that passes to yield the keys that are not hidden.
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

// Hide hides the slots of list in all databases, or shows them again. Only in cluster mode.
// Cost: proportional to the number of slots, and of the keys in those to be hidden.
func (k *Keyspace) Hide(list []uint16, hidden bool) {
	k.assertHeld()
	for _, slot := range list {
		if k.hidden.Has(slot) == hidden {
			continue
		}
		k.hidden.Set(slot, hidden)
		for i := range k.all {
			if d := k.all[i].d; d != nil {
				d.t.Shift(slot, hidden)
			}
		}
	}
}

// Hides reports whether slot is hidden. Any goroutine may call it.
func (k *Keyspace) Hides(slot uint16) bool { return k.hidden.Has(slot) }

// HidesAny reports whether any slot is hidden.
func (k *Keyspace) HidesAny() bool { k.assertHeld(); return k.hidden.Any() }

// conceals reports whether key lies in a hidden slot.
func (k *Keyspace) conceals(key []byte) bool { return k.hidden.Any() && k.hidden.Has(slots.Of(key)) }

// hiddenFor is the time after which a hidden key past its deadline is checked again, in ms.
const hiddenFor = 1000

// BySlot reports whether the keyspace is in cluster mode.
func (k *Keyspace) BySlot() bool { return k.bySlot }

// slotCounts points to the slot counts of a database, which Keyspace.InSlot reads.
type slotCounts = atomic.Pointer[table.Slots]

// noteSlots makes Keyspace.InSlot read the counts of the present content of database i.
func (k *Keyspace) noteSlots(i int) {
	if k.bySlot && i < len(k.slots) {
		k.slots[i].Store(k.all[i].d.t.Slots())
	}
}
