package keyspace

import (
	"unsafe"

	"spindle/engine/data/value"
	"spindle/internal/invariant"
)

// lastEdit is the Edit of the last key asked for. Several requests in a row then search only once
// (BenchmarkBatch/RPUSH of package server).
//
// keyspace.K1. It is what a search would find as long as value.Entry.Holds is true. Moving, freeing or replacing an
// entry, and handing out another Edit, change Table.Moves.
// keyspace.K2. It is found by the slice that Again named, while that is lent; the first time by the slice's bytes.
//
// To remove this, delete this file, and the branches that call named or Again.
type lastEdit struct {
	edit  value.Edit
	name  *byte // of the slice that Again named; nil: none
	n     int   // its length
	known bool  // edit is of that key
}

// Again says that key will probably be asked for several times, as this very slice. Its bytes stay unchanged until a
// call with nil. The key is searched again only after something in the table has moved. If it was already the last key,
// it is not searched at all. All other slices are searched each time.
func (k *Keyspace) Again(key []byte) {
	k.assertHeld()
	if name := unsafe.SliceData(key); name != k.last.name || len(key) != k.last.n {
		k.last.name, k.last.n, k.last.known = name, len(key), false
	}
}

// named reports whether key is the slice that Again named.
func (l *lastEdit) named(key []byte) bool {
	return unsafe.SliceData(key) == l.name && len(key) == l.n && l.name != nil
}

// keptEdit returns the Edit of key, which Again named, whether the key exists or not.
func (db *DB) keptEdit(key []byte) *value.Edit {
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
