package keyspace

import (
	"spindle/engine/data/value"
	"spindle/internal/invariant"
)

// Touched reports a change of key. A command that changed a collection through Edit or Create calls it once.
func (db *DB) Touched(key []byte) {
	db.k.assertHeld()
	db.writtenEdit(key)
	db.touched(key)
}

// Signal offers key to the clients that are blocked on it, although the key existed before (XADD, RPUSH).
func (db *DB) Signal(key []byte) {
	if invariant.Enabled {
		db.k.assertHeld()
	}
	if db.k.Blocking > 0 && db.k.Hooks.Ready != nil {
		db.k.Hooks.Ready(db.index, key)
	}
}

// arrived handles that key now has a value of type t, which it did not have before.
func (db *DB) arrived(key []byte, t value.Type) {
	if t == value.List || t == value.ZSet || t == value.Stream {
		db.Signal(key)
	}
}

// leaving is called before the collection at key is removed or moved.
func (db *DB) leaving(key []byte, t value.Type) {
	if parts := db.d.partsOf(t); parts != nil {
		db.setDeadlineIn(parts, key, 0)
	}
	if t == value.Stream && db.k.Blocking > 0 && db.k.Hooks.Gone != nil {
		db.k.Hooks.Gone(db.index, key)
	}
}

// whole handles that the whole content of the database is replaced or removed.
func (db *DB) whole() {
	if db.k.Blocking > 0 && db.k.Hooks.Whole != nil {
		db.k.Hooks.Whole(db.index)
	}
}

// lapsed is touched for a key that expired, was evicted, or had fields that expired.
func (db *DB) lapsed(key []byte) {
	db.k.Lapsing = true
	db.touched(key)
	db.k.Lapsing = false
}

// touched calls Hooks.Touched if needed. Under an LRM policy it also sets the key's clock, unless the key expired or
// was evicted.
func (db *DB) touched(key []byte) {
	if db.k.Watching > 0 && db.k.Hooks.Touched != nil {
		db.k.Hooks.Touched(db.index, key)
	}
	if db.k.Policy.LRM() && !db.k.Lapsing {
		db.modified(key)
	}
}
