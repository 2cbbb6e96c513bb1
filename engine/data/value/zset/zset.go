// Package zset is the value of a sorted set: members, each with a score, ordered by score and found by name.
//
// Owner: the core changes it, through a value.Edit. Any goroutine may read live and frozen values (R4).
// Never: knows a command, client or reply, or keeps a member that it was lent.
// Start here: the encodings. read.go, iter.go and span.go read a sorted set, add.go and remove.go change it. packed.go
// is its small form. build.go makes a sorted set that belongs to no key yet.
package zset

import (
	"bytes"
	"math"
	"unsafe"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
	"spindle/internal/setting"
)

// A sorted set is stored in one of two encodings, which have the names that OBJECT ENCODING shows:
//
//	listpack    | member | score | member | score | …            ascending
//	skiplist    root: Header, members, order
//	                           │        └─ tree.State ─▶ records (score's word, block)  ascending
//	                           └─ table.State ─▶ blocks of layout Scored  ◀─ block
//
// zset.Z1. Ascending means by score, then by the member's bytes. -0 and 0 are equal scores here, although a block keeps
// the sign. In a listpack both are 0, unless the listpack came from elsewhere.
// zset.Z2. Members are different from each other, and no score is NaN.
// zset.Z3. Each block of members has one record that leads to it. The record's word is that of the block's score. A
// record is removed before its block, because the tree compares members through blocks.
// zset.Z4. A listpack becomes a skiplist when it exceeds the limits. A skiplist never changes back; only a STORE
// command makes a new set.
type root struct {
	value.Header
	members table.State
	order   tree.State
}

const rootBytes = value.HeaderBytes + table.StateBytes + 40

var _ [rootBytes]byte = [unsafe.Sizeof(root{})]byte{}

func rootAt(ref memory.Ref) *root { return (*root)(memory.Pointer(ref)) }

// recordBytes is the width of a record in the order.
const recordBytes = 16

// Limits are the limits up to which a sorted set stays a listpack.
type Limits struct {
	Entries int // members: zset-max-listpack-entries
	Value   int // bytes of a member: zset-max-listpack-value
}

// Settings are the CONFIG settings of the limits.
type Settings struct{ entries, value setting.Int }

// Rows returns the settings, and sets them to their defaults.
func (s *Settings) Rows() []setting.Row {
	atLeast0 := setting.Between(0, math.MaxInt64)
	return []setting.Row{
		setting.NewInt("zset-max-listpack-entries", &s.entries, 128, atLeast0, setting.Also("zset-max-ziplist-entries")),
		setting.NewMemory("zset-max-listpack-value", &s.value, 64, atLeast0, setting.Also("zset-max-ziplist-value")),
	}
}

// Limits returns the present limits.
func (s *Settings) Limits() Limits { return Limits{int(s.entries.Get()), int(s.value.Get())} }

// Holds reports whether this many members, the longest of longest bytes, may be a listpack.
func (l Limits) Holds(members, longest int) bool {
	return members <= l.Entries && longest <= l.Value &&
		members*(longest+listpack.MaxOverhead+scoreMax) < listpack.MaxBytes
}

// Len returns the number of members.
func Len(v value.Value) int {
	if lp := v.Packed(); lp != nil {
		return listpack.Count(lp) / 2
	}
	return rootAt(v.Root()).members.Len()
}

// word returns a number for the score. These numbers have the same order as the scores.
func word(score float64) uint64 {
	if score == 0 {
		return 1 << 63 // zset.Z1
	}
	b := math.Float64bits(score)
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

// A handle is a skiplist that the core is changing.
type handle struct {
	root    *root
	members table.Table
	order   tree.Records
	heap    *memory.Heap
}

// open makes the skiplist of e writable.
func open(e *value.Edit) handle {
	r := rootAt(e.Root())
	h, wide := e.Heap(), e.Wide()
	return handle{r, table.Open(h, table.Scored, &r.members, wide),
		tree.OpenRecords(h, value.KindTree, r.order, recordBytes, wide), h}
}

// save stores the changed states in the root (table.O1).
func (h *handle) save() { h.root.members, h.root.order = h.members.State(), h.order.State }

// insert adds member, which the skiplist must not have. hash is its hash.
func (h *handle) insert(hash uint64, member []byte, score float64) {
	ref := table.NewScored(h.heap, member, score)
	h.members.Insert(hash, ref, table.Never)
	record := [2]uint64{word(score), uint64(ref)}
	h.order.Insert(record[:], func(w uint64) int { return compare(member, w) })
}

// find moves c to the record of the existing member in the block at ref.
func (h *handle) find(c *tree.Cursor, ref memory.Ref) { findIn(&h.order.State, c, ref) }

func findIn(order *tree.State, c *tree.Cursor, ref memory.Ref) {
	member := table.ScoredKey(ref)
	order.Find(c, tree.Probe{Word0: word(table.Score(ref)), Word1: uint64(ref), Tie: func(w uint64) int {
		if memory.Ref(w) == ref {
			return 0
		}
		return compare(member, w)
	}})
}

// compare compares member with the one in the block that w leads to.
func compare(member []byte, w uint64) int {
	return bytes.Compare(member, table.ScoredKey(memory.Ref(w)))
}
