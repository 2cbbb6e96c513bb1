package keyspace

import (
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
	"spindle/internal/slots"
)

// Random returns a random key, each equally likely, or the zero Value if the database is empty. The key may be past its
// deadline; call Lookup to find out.
func (db *DB) Random() value.Value { db.k.assertHeld(); return value.At(db.d.t.Random(&db.k.rng)) }

// Scan yields about count keys, starting at cursor, and returns the next cursor. Cursor 0 begins a scan, and 0 returned
// ends it. Any cursor is safe. A key present from the first call to the last is yielded at least once. yield must not
// write to the database.
func (db *DB) Scan(cursor uint64, count int, yield func(value.Value)) uint64 {
	db.k.assertHeld()
	return db.d.t.Scan(cursor, count, db.shown(yield))
}

// ScanPresent returns a function that is Scan of the keys that are in the database now. Any goroutine may call it while
// a view of this moment is open.
func (db *DB) ScanPresent() func(cursor uint64, count int, yield func(value.Value)) uint64 {
	db.k.assertHeld()
	root, hidden := db.d.t.Root(), db.k.hidden.Copy()
	return func(cursor uint64, count int, yield func(value.Value)) uint64 {
		return table.ScanIn(root, cursor, count, shownOf(hidden, yield))
	}
}

// ScanPresentInSlot is ScanPresent for the keys of one slot, as ScanSlot.
func (db *DB) ScanPresentInSlot(slot uint16) func(cursor uint64, count int, yield func(value.Value)) uint64 {
	db.k.assertHeld()
	root, hidden := db.d.t.Root(), db.k.hidden.Copy()
	return func(cursor uint64, count int, yield func(value.Value)) uint64 {
		return table.ScanOfIn(root, slot, cursor, count, shownOf(hidden, yield))
	}
}

// shownOf returns a function that passes to yield the keys that are not of the hidden slots.
func shownOf(hidden *table.Hidden, yield func(value.Value)) func(memory.Ref) {
	return func(ref memory.Ref) {
		if v := value.At(ref); hidden == nil || !hidden.Has(slots.Of(v.Key())) {
			yield(v)
		}
	}
}

// Present returns a function that yields the keys that are in the database now, as All does. It may be called several
// times, and by any goroutine while a view of this moment is open.
func (db *DB) Present() func(yield func(value.Value) bool) {
	db.k.assertHeld()
	root, hidden := db.d.t.Root(), db.k.hidden.Copy()
	return func(yield func(value.Value) bool) {
		table.Walk(root, 0, ^uint64(0), nil, func(ref memory.Ref) bool {
			v := value.At(ref)
			return hidden != nil && hidden.Has(slots.Of(v.Key())) || yield(v)
		})
	}
}

// PresentAt returns a function that finds keys as they are now, without those past their deadline. Any goroutine may
// call it while a view of this moment is open. It changes and counts nothing.
func (db *DB) PresentAt() func(key []byte) value.Value {
	db.k.assertHeld()
	root, bySlot, now := db.d.t.Root(), db.k.bySlot, db.k.now
	return func(key []byte) value.Value {
		v := value.At(table.FindIn(root, table.Entry, table.HashOf(key, bySlot), key))
		if v.Exists() && v.Volatile() && v.Deadline() < now {
			return value.Value{}
		}
		return v
	}
}

// All yields every key, even past its deadline, until yield returns false. yield must not write to the database.
func (db *DB) All(yield func(value.Value) bool) {
	db.k.assertHeld()
	if db.k.hidden.Any() {
		db.d.t.All(func(ref memory.Ref) bool { return db.d.t.Conceals(ref) || yield(value.At(ref)) })
		return
	}
	db.d.t.All(func(ref memory.Ref) bool { return yield(value.At(ref)) })
}
