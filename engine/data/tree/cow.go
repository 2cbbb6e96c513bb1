package tree

import (
	"spindle/engine/data/memory"
	"spindle/internal/invariant"
)

// tree.E1. A node or leaf stamped at or below heap.Frozen() may have readers of a view, so it is not written to.
// tree.E2. A node or leaf made after the freeze is stamped above it, and so is every node that leads to it.
// tree.E3. A block belongs to the newest node that leads to it. When a node is copied, its children become the copy's.
// The old node is then retired alone, without its children.
// tree.E4. A replaced block is retired only after its replacement can be reached from the State.
//
// Everything is retired at the position that the owner has set, because a view's walker reads a whole collection at its
// key's position. Only if the key was moved may a view know the collection under another position. Then blocks are
// retired wide.

// A tree is a State that the core is changing.
type tree struct {
	State
	heap *memory.Heap
	kind memory.Kind
	wide bool
}

// own makes every node on p writable (tree.E1). Cost: a compare for each node. After a freeze, the first write copies
// each node, at most 2 KB.
func (t *tree) own(p *Path) {
	link := &t.root
	for i := range p.height {
		s := &p.steps[i]
		s.ref = *link
		n := t.nodeIn(link, 0)
		s.ref = *link
		link = n.link(s.at)
	}
}

// linkOf returns the address of the Ref to the node or leaf at level i of p. The node above must be writable.
func (t *tree) linkOf(p *Path, i int) *memory.Ref {
	if i == 0 {
		return &t.root
	}
	s := &p.steps[i-1]
	return nodeAt(s.ref).link(s.at)
}

// nodeIn returns the node in link, writable and with room for at least room children. link must be writable.
func (t *tree) nodeIn(link *memory.Ref, room int) *node {
	n := nodeAt(*link)
	if n.epoch > t.heap.Frozen() && room <= int(n.room) {
		return n
	}
	return t.moveNode(link, max(room, int(n.n)))
}

// moveNode replaces the node in link by a copy with room for room children.
func (t *tree) moveNode(link *memory.Ref, room int) *node {
	old := *link
	n := nodeAt(old)
	ref := t.newNode(n.level, room)
	dup := nodeAt(ref)
	dup.splice(0, n, 0, int(n.n))
	*link = ref
	t.release(old)
	return dup
}

// newNode returns a node without children, with room for at least room children.
func (t *tree) newNode(level uint8, room int) memory.Ref {
	size := memory.GoodSize(nodeBytes(min(room+room/8, maxFan)))
	ref := t.heap.Alloc(size, memory.Values)
	*nodeAt(ref) = node{epoch: t.heap.Epoch(), level: level, room: uint16(min((size-nodeHeader)/entryBytes, maxFan))}
	return ref
}

// release frees or retires a block that the tree no longer reaches (tree.E4). It does not free the blocks below.
func (t *tree) release(ref memory.Ref) {
	switch {
	case *memory.Word(ref) > t.heap.Frozen():
		t.heap.Free(ref, memory.Values)
	case t.wide:
		t.heap.RetireWide(ref, memory.Values)
	default:
		t.heap.Retire(ref, memory.Values)
	}
}

// releaseTree retires a node and everything under it.
func (t *tree) releaseTree(ref memory.Ref) {
	invariant.That(t.kind != 0, "a tree without a kind lets go of a subtree")
	if t.wide {
		t.heap.RetireTreeWide(ref, t.kind, 0)
	} else {
		t.heap.RetireTree(ref, t.kind, 0)
	}
}
