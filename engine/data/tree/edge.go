package tree

import (
	"slices"
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/internal/invariant"
)

// The way to an outermost leaf when nothing on it has to be copied: a push or a pop then needs no Path, and no copy of
// the State. side is -1 for the first leaf and 1 for the last.

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

// edgeHeight is how many levels of nodes an Edge leads through: more than a thousand gigabytes of leaves of the usual
// size have.
const edgeHeight = 7

// An Edge is an outermost leaf that may be written to, and all places where its elements are counted. Who keeps it
// calls Forget when the tree changes by other means, or is let go of; that the State is elsewhere, or heap.Frozen() is
// another, it sees by itself.
type Edge struct {
	Leaf   memory.Ref
	counts [1 + edgeHeight]*uint64 // the State's first, the leaf's own last
	height int
	side   int    // 0: it has forgotten
	frozen uint64 // what heap.Frozen() was
}

// Forget makes the next Find go the way anew.
func (e *Edge) Forget() { e.side = 0 }

// Find leads e to the outermost leaf of s, the State that the owner keeps, if every node on the way, and the leaf, may
// be written to, with heap.Frozen() as given (tree.E1).
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
