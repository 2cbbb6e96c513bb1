package tree

import (
	"unsafe"

	"spindle/engine/data/memory"
)

// The way to an outermost leaf when nothing on it has to be copied: a push or a pop then needs no Path, and no copy of the State. side
// is -1 for the first leaf and 1 for the last.

// Edge is the outermost leaf, and how many elements it has; 0 if there is none.
func (s *State) Edge(side int) (leaf memory.Ref, count uint64) {
	leaf, count = s.root, s.count
	if leaf == 0 {
		return 0, 0
	}
	for range s.height {
		n := nodeAt(leaf)
		at := n.outermost(side)
		leaf, count = n.child(at), *n.count(at)
	}
	return leaf, count
}

// edgeHeight is how many levels of nodes an Edge leads through: more than a thousand gigabytes of leaves of the usual size have.
const edgeHeight = 7

// An Edge is an outermost leaf that may be written to, and all places where its elements are counted. It is a value for the stack, and holds
// until the tree next changes by other means.
type Edge struct {
	Leaf   memory.Ref
	counts [1 + edgeHeight]*uint64 // the State's first, the leaf's own last
	height int
}

// Find leads e to the outermost leaf of s, the State that the owner keeps, if every node on the way, and the leaf, may be written to, with
// heap.Frozen() as given (E1).
func (e *Edge) Find(s *State, frozen uint64, side int) bool {
	ref := s.root
	if ref == 0 || s.height > edgeHeight {
		return false
	}
	e.counts[0], e.height = &s.count, int(s.height)
	for i := range e.height {
		n := nodeAt(ref)
		if n.epoch <= frozen {
			return false
		}
		at := n.outermost(side)
		ref, e.counts[i+1] = n.child(at), n.count(at)
	}
	e.Leaf = ref
	return *memory.Word(ref) > frozen
}

// Count is how many elements the leaf has.
func (e *Edge) Count() uint64 { return *e.counts[e.height] }

// Bump changes by delta how many elements the leaf has, wherever they are counted, and returns how many the tree has.
func (e *Edge) Bump(delta uint64) uint64 {
	for _, c := range e.counts[:e.height+1] {
		*c += delta
	}
	return *e.counts[0]
}

// outermost is the index of the child on that side.
func (n *node) outermost(side int) int {
	if side < 0 {
		return 0
	}
	return int(n.n) - 1
}

// count is where the node counts its child i, for which there is one.
func (n *node) count(i int) *uint64 {
	return (*uint64)(unsafe.Add(unsafe.Pointer(n), nodeHeader+8*(3*int(n.room)+i)))
}
