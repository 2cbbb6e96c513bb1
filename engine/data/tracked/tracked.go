// Package tracked remembers which clients may have cached which keys.
//
// Owner: the core; everything here runs in a turn. No view reads it.
// Never: knows what a client is (ids are numbers here), or to which database a key belongs: clients cache by name.
// Start here. The layout of the blocks is drawn in table/tracked.go.
package tracked

import (
	"math/rand/v2"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// A Table holds keys, each with the ids of the clients that have read it.
//
// tracked.T1. items is the number of all keys' ids. Each key has at least one.
// tracked.T2. No view reads the blocks. So they are edited and freed at once, even if their slots are marked as shared.
//
// Its memory is off the Go heap and part of used_memory.
type Table struct {
	heap  *memory.Heap
	t     table.Table
	items int
}

// New returns an empty table in h. Call it once per heap.
func New(h *memory.Heap) *Table {
	t := &Table{heap: h}
	h.Register(value.KindTracked, destroy)
	t.t.Init(h, table.Tracked, 0)
	return t
}

func (t *Table) Len() int { return t.t.Len() }

// Items returns the number of ids of all keys together.
func (t *Table) Items() int { return t.items }

// Add records that the client with this id has read key. id must not be 0.
func (t *Table) Add(key []byte, id int64) {
	hash := table.Hash(key)
	p, ref := t.t.Find(hash, key)
	if ref == 0 {
		t.t.Insert(hash, table.NewTracked(t.heap, key, id), table.Never)
		t.items++
		return
	}
	to, added := table.AddTracked(t.heap, ref, id)
	if added {
		t.items++
	}
	if to != ref {
		t.t.Replace(&p, to, table.Never)
	}
}

// Pop removes key and appends the ids of the clients that have read it, in no particular order.
func (t *Table) Pop(key []byte, into []int64) []int64 {
	p, ref := t.t.Find(table.Hash(key), key)
	if ref == 0 {
		return into
	}
	t.items -= table.TrackedLen(ref)
	into = table.AppendTracked(into, ref)
	t.t.Remove(&p)
	t.heap.Free(ref, memory.Other)
	return into
}

// Random returns a random key, each equally likely, or nil if there is none.
//
// Lifetime: until the next change of the table.
func (t *Table) Random(r *rand.PCG) []byte {
	ref := t.t.Random(r)
	if ref == 0 {
		return nil
	}
	return table.TrackedKey(memory.Pointer(ref))
}

// Clear removes all keys, in O(1). Reclaimers free their blocks.
func (t *Table) Clear() {
	n := t.t.Len()
	if n == 0 {
		return
	}
	root, _ := t.t.Detach() // no key has a deadline
	t.items = 0
	t.heap.RetireTreeWide(root, value.KindTracked, n)
}

// destroy frees a cleared table's blocks.
var destroy = table.Destroy(func(r *memory.Returner, ref memory.Ref, _ int) (done bool, spent int) {
	r.Free(ref, memory.Other)
	return true, 1
})
