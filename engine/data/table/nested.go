package table

import (
	"unsafe"

	"spindle/engine/data/memory"
)

// A State is a nested table in the form in which the root of a collection stores it, off the Go heap. [Open] makes a
// Table of it.
//
// table.O1. A caller that opens a state to write saves it (Table.State) into a writable root block, in the same step.
// table.O2. An older state, in a root block that a view keeps, leads to the members that the table had then. Its index
// of deadlines may have changed since, so its readers do not use the index.
// table.O3. Nodes, segments and members are retired at the position that the owner has set, that of the collection's
// key. They are retired wide if the collection has been under another key.
type State struct {
	root     uint64
	count    uint64
	volatile uint64
	base     int64
	due      memory.Ref
	height   uint32
	ids      uint32
	free     uint32
	least    uint32
}

const StateBytes = 56

// StateLen is the offset of the number of keys in a State, a u64.
const StateLen = int(unsafe.Offsetof(State{}.count))

var _ [StateBytes]byte = [unsafe.Sizeof(State{})]byte{}

// New returns an empty nested table. base is the time of tick 0 of deadlines, in Unix ms.
func New(h *memory.Heap, layout Layout, base int64) Table {
	t := Table{heap: h, layout: layout, nested: true}
	t.due.init(h)
	t.due.base = base
	t.root = t.newSegment(1, 0, 0)
	return t
}

// Open returns the table in s. h may be nil for a table that is only read. Any goroutine may read it while s is frozen.
// moved means that the collection has been under another key (table.O3).
func Open(h *memory.Heap, layout Layout, s *State, moved bool) Table {
	return Table{
		root: s.root, heap: h, count: int(s.count), volatile: int(s.volatile), layout: layout, nested: true, moved: moved,
		due: dueIndex{heap: h, root: s.due, height: int(s.height), ids: s.ids, free: s.free, least: s.least, base: s.base},
	}
}

// State returns the State of a nested table, for the caller to store (table.O1).
func (t *Table) State() State {
	x := &t.due
	return State{
		root: t.root, count: uint64(t.count), volatile: uint64(t.volatile), base: x.base,
		due: x.root, height: uint32(x.height), ids: x.ids, free: x.free, least: x.least,
	}
}

// Len returns the number of members.
func (s *State) Len() int { return int(s.count) }

// Root returns the root for Walk.
func (s *State) Root() uint64 { return s.root }

// Volatile returns the number of fields with a deadline.
func (s *State) Volatile() int { return int(s.volatile) }

// Release frees or retires a member's block that Remove, Drop or Replace took out of a nested table. shared is the
// result of that call.
func (t *Table) Release(ref memory.Ref, shared bool) {
	switch {
	case !shared || t.heap.Frozen() == 0:
		t.heap.Free(ref, memory.Values)
	case t.moved:
		t.heap.RetireWide(ref, memory.Values)
	default:
		t.heap.Retire(ref, memory.Values)
	}
}

// Copy returns a nested table with copies of all blocks of t. O(n).
func (t *Table) Copy() Table {
	dup := New(t.heap, t.layout, t.due.base)
	t.All(func(ref memory.Ref) bool {
		n := memory.UsableSize(ref)
		to := t.heap.Alloc(n, memory.Values)
		copy(memory.Bytes(to, n), memory.Bytes(ref, n))
		dup.Insert(Hash(dup.key(to)), to, dup.Tick(dup.deadline(to)))
		return true
	})
	return dup
}

// Cost estimates the bytes of a nested table with its members. It looks at samples members, or at all of them if
// samples is 0.
func (t *Table) Cost(samples int) int {
	const perKey = 12
	n, sum := 0, 0
	if t.count == 0 {
		return memory.GoodSize(segmentBytes(1))
	}
	t.All(func(ref memory.Ref) bool {
		n++
		sum += memory.UsableSize(ref)
		return n != samples
	})
	return int(float64(sum)/float64(n)*float64(t.count)) + t.count*perKey + t.volatile
}

// destroyMembers frees a nested table's nodes, segments and members.
var destroyMembers = Destroy(func(r *memory.Returner, ref memory.Ref, _ int) (done bool, spent int) {
	r.Free(ref, memory.Values)
	return true, 1
})

// Destroy frees the table of a retired root, about budget blocks at a time. s stores where it stopped. When it is done,
// s is empty and must not be used again.
func (s *State) Destroy(r *memory.Returner, budget int) (done bool, spent int) {
	if s.root != 0 {
		rest, n := destroyMembers(r, refOf(s.root)|memory.Ref(s.root&entryBuckets), budget)
		if spent += n; rest != 0 {
			return false, spent
		}
		s.root, s.count = 0, 0
	}
	if s.due != 0 {
		if spent >= budget {
			return false, spent
		}
		rest, n := DestroyDue(r, s.due|memory.Ref(s.height), budget-spent)
		if spent += n; rest != 0 {
			return false, spent
		}
		s.due = 0
	}
	return true, spent
}
