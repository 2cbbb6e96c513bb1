package keyspace

import (
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
	"spindle/internal/slots"
)

// Random returns a random key, each equally likely; the zero Value when the database is empty. It may be past its
// deadline: call Lookup.
func (db *DB) Random() value.Value { db.k.assertHeld(); return value.At(db.d.t.Random(&db.k.rng)) }

// Scan yields about count keys, starting at cursor, and returns the next cursor; 0 begins and ends. Any cursor is safe.
// A key present from the first call to the last is yielded at least once. yield must not write to the database.
func (db *DB) Scan(cursor uint64, count int, yield func(value.Value)) uint64 {
	db.k.assertHeld()
	return db.d.t.Scan(cursor, count, db.shown(yield))
}

// Present returns All of the keys that are there now. It may be called again, and by any goroutine while a view of this
// moment lives.
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
// call it while a view of this moment lives. It changes and counts nothing.
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

// All yields every key, past its deadline or not, until yield returns false. yield must not write to the database.
func (db *DB) All(yield func(value.Value) bool) {
	db.k.assertHeld()
	if db.k.hidden.Any() {
		db.d.t.All(func(ref memory.Ref) bool { return db.d.t.Conceals(ref) || yield(value.At(ref)) })
		return
	}
	db.d.t.All(func(ref memory.Ref) bool { return yield(value.At(ref)) })
}
