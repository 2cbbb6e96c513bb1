package keyspace

import (
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// Random returns a random key, each equally likely; the zero Value when the database is empty. It may be past its
// deadline: call Lookup.
func (db *DB) Random() value.Value { db.k.assertHeld(); return value.At(db.d.t.Random(&db.k.rng)) }

// Scan yields about count keys, starting at cursor, and returns the next cursor; 0 begins and ends. Any cursor is safe.
// A key present from the first call to the last is yielded at least once. yield must not write to the database.
func (db *DB) Scan(cursor uint64, count int, yield func(value.Value)) uint64 {
	db.k.assertHeld()
	return db.d.t.Scan(cursor, count, func(ref memory.Ref) { yield(value.At(ref)) })
}

// Present returns All of the keys that are there now. It may be called again, and by any goroutine while a view of this
// moment lives.
func (db *DB) Present() func(yield func(value.Value) bool) {
	db.k.assertHeld()
	root := db.d.t.Root()
	return func(yield func(value.Value) bool) {
		table.Walk(root, 0, ^uint64(0), nil, func(ref memory.Ref) bool { return yield(value.At(ref)) })
	}
}

// All yields every key, past its deadline or not, until yield returns false. yield must not write to the database.
func (db *DB) All(yield func(value.Value) bool) {
	db.k.assertHeld()
	db.d.t.All(func(ref memory.Ref) bool { return yield(value.At(ref)) })
}
