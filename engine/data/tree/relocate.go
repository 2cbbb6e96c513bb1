package tree

import (
	"spindle/engine/data/memory"
	"spindle/internal/invariant"
)

// Relocate moves nodes and leaves that lie in slabs which are being emptied (memory.Heap.Leaves), from the leaf of rank
// at on, until all have been passed or stop says so, which it asks behind each leaf. Leaves are the owner's: no key
// names memory (tree.T3).
//
// Only while no hold lives: nothing else reaches these blocks then.
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

// relocate moves the block in link, whatever it is.
func (t *tree) relocate(link *memory.Ref) {
	old := *link
	n := memory.UsableSize(old)
	ref := t.heap.Alloc(n, memory.Values)
	copy(memory.Bytes(ref, n), memory.Bytes(old, n))
	*link = ref
	t.heap.Free(old, memory.Values)
}
