package keyspace

import (
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
)

// Reach makes the string at key raw and at least n bytes long, and pads it with zeros at its end. The deadline stays. v
// is what LookupWrite has just returned for key: a string, or the zero Value. For the zero Value, Reach creates the
// key. It calls no hook; the caller calls Touch.
func (db *DB) Reach(key []byte, v value.Value, n int) value.Value {
	switch {
	case !v.Exists():
		return db.setZeros(key, n)
	case v.Encoding() == value.Raw && v.Len() >= n:
		return v
	}
	e := db.at(key)
	e.Patch(max(n, v.Len()), nil)
	db.resize(e.Value())
	return e.Value()
}

// Patch writes data at byte off of the string at key, which LookupWrite or Reach has just found. The string becomes
// raw, and longer if needed. Patch calls no hook; the caller calls Touch.
//
// Cost: the entry, or the one or two chunks that data falls into. They are copied first if a view reads them.
func (db *DB) Patch(key []byte, off int, data []byte) {
	e := db.at(key)
	e.Patch(off, data)
	db.resize(e.Value())
}

// Touch calls the hook for a changed key, after Reach or Patch.
func (db *DB) Touch(key []byte) { db.Touched(key) }

// SetFilled makes a raw string of n bytes the value at key, without a deadline. It replaces any previous value. It
// calls fill with one chunk after the other; fill writes to dst the bytes that begin at off. fill may read any value
// but must not write. SetFilled returns whether the key is new.
func (db *DB) SetFilled(key []byte, n int, fill func(dst []byte, off int)) (created bool) {
	db.k.assertHeld()
	var f value.Form
	f.OfString(len(key), n, false)
	if f.Rooted {
		return db.setValue(key, &f, db.k.store.NewFilled(n, fill), nil, 0)
	}
	held := db.k.heap.Alloc(max(n, 1), memory.Values) // placing the entry may free what fill reads
	dst := memory.Bytes(held, n)
	fill(dst, 0)
	created = db.SetRaw(key, dst, 0)
	db.k.heap.Free(held, memory.Values)
	return created
}
