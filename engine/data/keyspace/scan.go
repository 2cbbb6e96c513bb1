package keyspace

import (
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
)

// Random is some key, each about as likely as another; the zero Value when the database is empty. It may be past its
// deadline: Lookup it.
func (db *DB) Random() value.Value { db.k.assertHeld(); return value.At(db.d.t.Random(&db.k.rng)) }

// Scan yields about count keys from cursor on and returns the cursor to go on from; 0 begins and ends. Any cursor is
// safe.
// Guarantee: a key present from the first call to the last is yielded at least once. yield must not write to the
// database.
func (db *DB) Scan(cursor uint64, count int, yield func(value.Value)) uint64 {
	db.k.assertHeld()
	return db.d.t.Scan(cursor, count, func(ref memory.Ref) { yield(value.At(ref)) })
}

// All yields every key, past its deadline or not, until yield returns false. yield must not write to the database.
func (db *DB) All(yield func(value.Value) bool) {
	db.k.assertHeld()
	db.d.t.All(func(ref memory.Ref) bool { return yield(value.At(ref)) })
}
