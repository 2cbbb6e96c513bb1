package tree

import (
	"slices"
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/internal/invariant"
)

// This file finds the first or the last leaf of a tree if no node on the way must be copied. So a push or a pop needs
// no Path, and no copy of the State. side is -1 for the first leaf and 1 for the last.

// Edge returns the first or the last leaf and the number of its elements, or 0 if the tree is empty.
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

// edgeHeight is the largest number of levels of nodes that an Edge can pass. A taller tree has over a thousand
// gigabytes of leaves of the usual size.
const edgeHeight = 7

// An Edge is the first or the last leaf, writable, with all places where its elements are counted. Its owner calls
// Forget when the tree is changed by other means, or freed. Find notices by itself if the State has another address or
// heap.Frozen() has changed.
type Edge struct {
	Leaf   memory.Ref
	counts [1 + edgeHeight]*uint64 // the State's first, the leaf's last
	height int
	side   int    // 0 after Forget
	frozen uint64 // heap.Frozen() when the leaf was found
}

// Forget makes the next Find walk down from the root again.
func (e *Edge) Forget() { e.side = 0 }

// Find leads e to the first or the last leaf of s, the State as its owner stores it. It succeeds if the leaf and every
// node on the way may be written to under frozen, the present heap.Frozen() (tree.E1).
func (e *Edge) Find(s *State, frozen uint64, side int) bool {
	if e.side != side || e.frozen != frozen || e.counts[0] != &s.count {
		return e.find(s, frozen, side)
	}
	if invariant.Enabled {
		again := Edge{}
		invariant.That(again.find(s, frozen, side) && again.Leaf == e.Leaf && again.height == e.height &&
			slices.Equal(again.counts[:again.height+1], e.counts[:e.height+1]),
			"the edge at %v is kept at %v", again.Leaf, e.Leaf)
	}
	return true
}

func (e *Edge) find(s *State, frozen uint64, side int) bool {
	e.side = 0
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
	if *memory.Word(ref) <= frozen {
		return false
	}
	e.Leaf, e.side, e.frozen = ref, side, frozen
	return true
}

// Count returns the number of the leaf's elements.
func (e *Edge) Count() uint64 { return *e.counts[e.height] }

// Bump adds delta to the leaf's count and to all counts above the leaf. It returns the tree's count.
func (e *Edge) Bump(delta uint64) uint64 {
	for _, c := range e.counts[:e.height+1] {
		*c += delta
	}
	return *e.counts[0]
}

// outermost returns the index of the first child or the last one, depending on side.
func (n *node) outermost(side int) int {
	if side < 0 {
		return 0
	}
	return int(n.n) - 1
}

// count returns the address of the node's count for child i.
func (n *node) count(i int) *uint64 {
	return (*uint64)(unsafe.Add(unsafe.Pointer(n), nodeHeader+8*(3*int(n.room)+i)))
}
