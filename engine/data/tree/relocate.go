package tree

import (
	"spindle/engine/data/memory"
	"spindle/internal/invariant"
)

// Relocate moves nodes and leaves that lie in slabs being emptied (memory.Heap.Leaves). It continues at the leaf that
// has the rank in at, until the end or until stop returns true. It calls stop after each leaf. No key may point to
// memory (tree.T3).
//
// It may only run while no hold is live, because then nothing else reaches these blocks.
func (s *State) Relocate(h *memory.Heap, at *uint64, stop func() bool) (done bool) {
	invariant.That(h.Frozen() == 0, "tree.E1: blocks move under freeze %d", h.Frozen())
	t := tree{State: *s, heap: h}
	var p Path
	_, ok := t.LeafAt(&p, *at)
	for ok {
		for i := range p.height + 1 {
			link := t.linkOf(&p, i)
			if h.Leaves(*link) {
				t.relocate(link)
			}
			if i < p.height {
				p.steps[i].ref = *link
			} else {
				p.leaf = *link
			}
		}
		*at += t.CountOf(&p)
		if ok = p.Next(); ok && stop() {
			break
		}
	}
	*s = t.State
	return !ok
}

// relocate moves the block in link, a node or a leaf.
func (t *tree) relocate(link *memory.Ref) {
	old := *link
	n := memory.UsableSize(old)
	ref := t.heap.Alloc(n, memory.Values)
	copy(memory.Bytes(ref, n), memory.Bytes(old, n))
	*link = ref
	t.heap.Free(old, memory.Values)
}
