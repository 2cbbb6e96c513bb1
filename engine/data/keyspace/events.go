package keyspace

import (
	"spindle/engine/data/value"
	"spindle/internal/invariant"
)

// Touched tells who watches key that it has changed: once for each command that changed a collection through Edit or
// Create.
func (db *DB) Touched(key []byte) {
	db.k.assertHeld()
	db.writtenEdit(key)
	db.touched(key)
}

// Signal offers key to the clients that are blocked on it (XADD: the stream was there before).
func (db *DB) Signal(key []byte) {
	if invariant.Enabled {
		db.k.assertHeld()
	}
	if db.k.Blocking > 0 && db.k.Hooks.Ready != nil {
		db.k.Hooks.Ready(db.index, key)
	}
}

// arrived says that key has a value of type t that it did not have before.
func (db *DB) arrived(key []byte, t value.Type) {
	if t == value.List || t == value.ZSet || t == value.Stream {
		db.Signal(key)
	}
}

// leaving says that the collection at key is about to be removed or to go elsewhere.
func (db *DB) leaving(key []byte, t value.Type) {
	switch {
	case t == value.Hash && db.d.fields.Len() > 0:
		db.SetFieldsDeadline(key, 0)
	case t == value.Stream && db.k.Blocking > 0 && db.k.Hooks.Gone != nil:
		db.k.Hooks.Gone(db.index, key)
	}
}

// whole says that nothing of what was in the database is there any more.
func (db *DB) whole() {
	if db.k.Blocking > 0 && db.k.Hooks.Whole != nil {
		db.k.Hooks.Whole(db.index)
	}
}

// lapsed is touched of a key that goes, or loses fields, because its time has come or for want of room.
func (db *DB) lapsed(key []byte) {
	db.k.Lapsing = true
	db.touched(key)
	db.k.Lapsing = false
}

// touched tells who watches keys.
func (db *DB) touched(key []byte) {
	if db.k.Watching > 0 && db.k.Hooks.Touched != nil {
		db.k.Hooks.Touched(db.index, key)
	}
}
