package zset

import (
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// perMember is about how many bytes a member costs in a skiplist. Measure uses it.
const perMember = 60

// perRecord is about how many bytes a member costs in the order, with the unused room in leaves.
const perRecord = 20

// Structure is the set of functions that the keyspace uses for the root of a skiplist.
var Structure = value.Structure{
	Count:   func(ref memory.Ref) int { return rootAt(ref).members.Len() },
	LenAt:   int(unsafe.Offsetof(root{}.members)) + table.StateLen,
	Destroy: destroy,
	Measure: func(ref memory.Ref) int64 { return int64(rootAt(ref).members.Len()) * perMember },
	Cost: func(ref memory.Ref, samples int) int {
		t := table.Open(nil, table.Scored, &rootAt(ref).members, false)
		return memory.UsableSize(ref) + t.Cost(samples) + t.Len()*perRecord
	},
	Copy: duplicate,
	Blocks: func(ref memory.Ref, yield func(memory.Ref) bool) {
		t := table.Open(nil, table.Scored, &rootAt(ref).members, false)
		t.All(yield)
	},
}

// destroy frees the order first, and then the members. Nothing reads the order any more, so its records may lead to
// freed blocks.
func destroy(r *memory.Returner, ref memory.Ref, budget int) (rest memory.Ref, spent int) {
	x := rootAt(ref)
	done, spent := x.order.Destroy(r, budget)
	if done {
		var n int
		done, n = x.members.Destroy(r, budget-spent)
		spent += n
	}
	if !done {
		return ref, spent
	}
	r.Free(ref, memory.Values)
	return 0, spent + 1
}

// duplicate returns a skiplist with the same members in new blocks.
func duplicate(s *value.Store, ref memory.Ref) memory.Ref {
	from := rootAt(ref)
	t := table.New(s.Heap, table.Scored, s.Base)
	t.Reserve(from.members.Len())
	o := tree.OpenRecords(s.Heap, value.KindTree, tree.State{}, recordBytes, false)
	var c tree.Cursor
	from.order.First(&c)
	o.Build(from.order.Len(), func(record []uint64) {
		copy(record, c.Record())
		old := memory.Ref(record[1])
		n := memory.UsableSize(old)
		dup := s.Heap.Alloc(n, memory.Values)
		copy(memory.Bytes(dup, n), memory.Bytes(old, n))
		record[1] = uint64(dup)
		t.Insert(table.Hash(table.ScoredKey(dup)), dup, table.Never)
		c.Next()
	})
	return newRoot(s, &t, &o)
}

// newRoot returns the root block of a skiplist made of t and o.
func newRoot(s *value.Store, t *table.Table, o *tree.Records) memory.Ref {
	ref := s.NewRoot(value.KindZSet, rootBytes)
	r := rootAt(ref)
	r.members, r.order = t.State(), o.State
	return ref
}
