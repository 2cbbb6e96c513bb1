package set

import (
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

// A root is a set in the hashtable encoding: a nested table of Member blocks.
type root struct {
	value.Header
	members table.State
}

const rootBytes = int(unsafe.Sizeof(root{}))

func rootAt(ref memory.Ref) *root { return (*root)(memory.Pointer(ref)) }

// newRoot returns a root block for t.
func newRoot(s *value.Store, t *table.Table) memory.Ref {
	ref := s.NewRoot(value.KindSet, rootBytes)
	rootAt(ref).members = t.State()
	return ref
}

// fewSamples is the number of members that a quick estimate looks at.
const fewSamples = 16

// Structure is the set of functions that the keyspace uses for roots of sets.
var Structure = value.Structure{
	Count:   func(ref memory.Ref) int { return rootAt(ref).members.Len() },
	LenAt:   int(unsafe.Offsetof(root{}.members)) + table.StateLen,
	Destroy: destroy,
	Measure: func(ref memory.Ref) int64 { return int64(cost(ref, fewSamples)) },
	Cost:    cost,
	Copy: func(s *value.Store, ref memory.Ref) memory.Ref {
		t := table.Open(s.Heap, table.Member, &rootAt(ref).members, false)
		dup := t.Copy()
		return newRoot(s, &dup)
	},
	Relocate: func(s *value.Store, ref memory.Ref, at *table.Spot, stop func() bool) (done bool) {
		return rootAt(ref).members.Relocate(s.Heap, table.Member, at, stop)
	},
}

func destroy(r *memory.Returner, ref memory.Ref, budget int) (rest memory.Ref, spent int) {
	done, spent := rootAt(ref).members.Destroy(r, budget)
	if !done {
		return ref, spent
	}
	r.Free(ref, memory.Values)
	return 0, spent + 1
}

func cost(ref memory.Ref, samples int) int {
	t := table.Open(nil, table.Member, &rootAt(ref).members, false)
	return memory.UsableSize(ref) + t.Cost(samples)
}
