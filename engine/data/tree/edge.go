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

// WritableEdge is Edge if every node on the way, and the leaf, may be written to, with heap.Frozen() as given (E1); else 0.
func (s *State) WritableEdge(frozen uint64, side int) (leaf memory.Ref, count uint64) {
	leaf, count = s.root, s.count
	if leaf == 0 {
		return 0, 0
	}
	for range s.height {
		n := nodeAt(leaf)
		if n.epoch <= frozen {
			return 0, 0
		}
		at := n.outermost(side)
		leaf, count = n.child(at), *n.count(at)
	}
	if *memory.Word(leaf) <= frozen {
		return 0, 0
	}
	return leaf, count
}

// BumpEdge changes by delta how many elements the leaf of WritableEdge has, where it is counted. s is the State that the owner keeps.
func (s *State) BumpEdge(side int, delta uint64) {
	s.count += delta
	ref := s.root
	for range s.height {
		n := nodeAt(ref)
		at := n.outermost(side)
		*n.count(at) += delta
		ref = n.child(at)
	}
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
