package keyspace

import (
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// A Defrag is a walk of all databases that moves blocks out of slabs being emptied (memory.Heap.Evacuate). Begin with
// the zero value. After a change between two calls, the walk may skip keys; their blocks stay where they are.
type Defrag struct {
	Moved, Stayed         int64 // blocks of entries
	KeysMoved, KeysStayed int64 // keys of which at least one block has moved, and others

	db    int
	spot  table.Spot
	key   []byte // the key of the collection that is moved in steps; empty if there is none
	inner table.Spot
	then  int // of the database, its keys, its fields and its sent are done
}

// Defragment continues d until all is done, or until stop returns true. It calls stop several times per millisecond. It
// may only run while no view exists.
func (k *Keyspace) Defragment(d *Defrag, stop func() bool) (done bool) {
	k.assertHeld()
	for d.db < len(k.dbs) {
		db := &k.dbs[d.db]
		if len(d.key) > 0 && !db.defragLarge(d, stop) {
			return false
		}
		if !db.defragment(d, stop) {
			return false
		}
	}
	return true
}

// defragment continues the walk in one database.
func (db *DB) defragment(d *Defrag, stop func() bool) (done bool) {
	if d.then == 0 {
		halt := func() bool { return len(d.key) > 0 || stop() }
		if !db.d.t.Relocate(&d.spot, func(ref memory.Ref) memory.Ref { return db.relocate(d, ref) }, halt) {
			return len(d.key) > 0 // if so, the caller calls again
		}
		d.then, d.spot = 1, table.Spot{}
		if len(d.key) > 0 {
			return true
		}
	}
	for _, t := range []*table.Table{&db.d.fields, &db.d.sent}[d.then-1:] {
		if !t.Relocate(&d.spot, db.relocateIndex, stop) {
			return false
		}
		d.then++
		d.spot = table.Spot{}
	}
	d.db, d.then = d.db+1, 0
	return true
}

// relocate moves an entry and the blocks that belong to it.
func (db *DB) relocate(d *Defrag, ref memory.Ref) memory.Ref {
	store := &db.k.store
	moved := store.Relocations
	to, large := store.Relocate(ref)
	if large && len(d.key) == 0 { // if several are in one bucket, the others stay
		d.key, d.inner = append(d.key[:0], value.At(to).Key()...), table.Spot{}
	}
	if n := store.Relocations - moved; n > 0 {
		d.Moved += n
		d.KeysMoved++
	} else {
		d.Stayed++
		d.KeysStayed++
	}
	return to
}

// relocateIndex moves an entry of the table fields.
func (db *DB) relocateIndex(ref memory.Ref) memory.Ref {
	return db.k.store.RelocateBlock(ref, memory.Index)
}

// defragLarge continues with a collection that is moved in several steps.
func (db *DB) defragLarge(d *Defrag, stop func() bool) (done bool) {
	db.d.t.Moved() // value.M3
	_, ref := db.d.t.Find(db.d.t.HashOf(d.key), d.key)
	if ref == 0 || db.k.store.RelocateLarge(value.At(ref), &d.inner, stop) {
		d.key = d.key[:0]
		return true
	}
	return false
}
