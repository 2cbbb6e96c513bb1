package keyspace

import (
	"unsafe"

	"spindle/engine/data/value"
	"spindle/internal/invariant"
)

// lastEdit is the Edit of the key that was searched last. Several requests in a row for one key then search only once
// (BenchmarkBatch/RPUSH of package server).
//
// keyspace.K1. The Edit is what a search would find as long as value.Entry.Holds is true. Moving, freeing or replacing
// an entry, and returning another Edit, change Table.Moves.
// keyspace.K2. The key is recognized by the address of the slice passed to Again, while that slice is lent. The first
// time, it is recognized by the slice's bytes.
//
// To remove this, delete this file, and the branches that call named or Again.
type lastEdit struct {
	edit  value.Edit
	name  *byte // the address of the slice passed to Again, or nil
	n     int   // the slice's length
	known bool  // edit is that of the slice's key
}

// Again announces that key will probably be searched several times, passed as this very slice. The slice's bytes must
// stay unchanged until a call with nil. The key is then searched again only after something in the table has moved. If
// it was already the last key, it is not searched at all. A key in any other slice is searched each time.
func (k *Keyspace) Again(key []byte) {
	k.assertHeld()
	if name := unsafe.SliceData(key); name != k.last.name || len(key) != k.last.n {
		k.last.name, k.last.n, k.last.known = name, len(key), false
	}
}

// named reports whether key is the slice that was passed to Again.
func (l *lastEdit) named(key []byte) bool {
	return unsafe.SliceData(key) == l.name && len(key) == l.n && l.name != nil
}

// keptEdit returns the Edit of key, which was passed to Again, whether the key exists or not.
func (db *DB) keptEdit(key []byte) *value.Edit {
	l, keys := &db.k.last, &db.d.t
	if !l.edit.Holds(keys) || !l.known && string(l.edit.Key()) != string(key) {
		l.edit.Find(keys, key)
	} else if invariant.Enabled {
		var e value.Edit
		if e.Find(keys, key); e.Value() != l.edit.Value() { // That alone would allocate its arguments
			invariant.That(false, "keyspace.K1: %q is not where it is kept", key)
		}
	}
	l.known = true
	return &l.edit
}
