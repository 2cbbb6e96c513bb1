package keyspace

import (
	"unsafe"

	"spindle/engine/data/value"
	"spindle/internal/invariant"
)

// A kept Edit is that of the key which was asked for last, found once for several requests in a row
// (BenchmarkBatch/RPUSH of package server).
//
// keyspace.K1. It is what a search would find while value.Entry.Holds says so: whatever moves, frees or replaces an
// entry, and whoever hands out another Edit, changes Table.Moves.
// keyspace.K2. It is asked for by the slice that Again named, while that is lent; the first time, by the bytes.
//
// To do without it, delete this file, and the branches that call named or Again.
type kept struct {
	edit  value.Edit
	name  *byte // of the slice that Again named; nil: none
	n     int   // its length
	known bool  // edit is of that key
}

// Again says that key is likely to be asked for several times: this very slice, whose bytes stay as they are until a
// call with nil. It is then looked for only once, until something in the table has moved, and not at all if it was the
// last that was found so. All other slices are looked for each time.
func (k *Keyspace) Again(key []byte) {
	k.assertHeld()
	if name := unsafe.SliceData(key); name != k.last.name || len(key) != k.last.n {
		k.last.name, k.last.n, k.last.known = name, len(key), false
	}
}

// named says that key is the slice that Again named.
func (l *kept) named(key []byte) bool {
	return unsafe.SliceData(key) == l.name && len(key) == l.n && l.name != nil
}

// kept is the Edit of key, which Again named, whether it is there or not.
func (db *DB) kept(key []byte) *value.Edit {
	l, keys := &db.k.last, &db.d.t
	if !l.edit.Holds(keys) || !l.known && string(l.edit.Key()) != string(key) {
		l.edit.Find(keys, key)
	} else if invariant.Enabled {
		var e value.Edit
		if e.Find(keys, key); e.Value() != l.edit.Value() { // That would allocate its arguments each time
			invariant.That(false, "keyspace.K1: %q is not where it is kept", key)
		}
	}
	l.known = true
	return &l.edit
}
