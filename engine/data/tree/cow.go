package tree

import (
	"spindle/engine/data/memory"
	"spindle/internal/invariant"
)

// tree.E1. A node or leaf stamped at or below heap.Frozen() may be under a view's reader: nobody writes to it.
// tree.E2. One made after the freeze is stamped above it, and so is every node that leads to it.
// tree.E3. A block belongs to the newest node that leads to it. When a node is copied its children become the copy's;
// the old one is its own block alone, and is retired as such.
// tree.E4. Whatever is replaced is retired after its replacement can be reached from the State.
//
// Everything is retired at the position the owner has set: a view's walker reads a whole collection at its key's
// position. Only when the key was moved may a view know it elsewhere, and then it is retired wide.

// A tree is a State while the core changes it.
type tree struct {
	State
	heap *memory.Heap
	kind memory.Kind
	wide bool
}

// own makes every node on p writable (tree.E1). Cost: a compare each; one node of at most 2 KB copied each on the first
// write after a freeze.
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

// linkOf is where the node or leaf at level i of p is kept. What is above it is writable.
func (t *tree) linkOf(p *Path, i int) *memory.Ref {
	if i == 0 {
		return &t.root
	}
	s := &p.steps[i-1]
	return nodeAt(s.ref).link(s.at)
}

// nodeIn is the node in link, writable and with room for that many children. link is writable.
func (t *tree) nodeIn(link *memory.Ref, room int) *node {
	n := nodeAt(*link)
	if n.epoch > t.heap.Frozen() && room <= int(n.room) {
		return n
	}
	return t.moveNode(link, max(room, int(n.n)))
}

// moveNode puts a copy of the node in link in its place, with that much room.
func (t *tree) moveNode(link *memory.Ref, room int) *node {
	old := *link
	n := nodeAt(old)
	ref := t.newNode(n.level, room)
	dup := nodeAt(ref)
	dup.splice(0, n, 0, int(n.n))
	*link = ref
	t.letGo(old)
	return dup
}

// newNode is a node without children, with room for that many at least.
func (t *tree) newNode(level uint8, room int) memory.Ref {
	size := memory.GoodSize(nodeBytes(min(room+room/8, maxFan)))
	ref := t.heap.Alloc(size, memory.Values)
	*nodeAt(ref) = node{epoch: t.heap.Epoch(), level: level, room: uint16(min((size-nodeHeader)/entryBytes, maxFan))}
	return ref
}

// letGo frees or retires a block that nothing of the tree leads to any more (tree.E4). What it led to goes on.
func (t *tree) letGo(ref memory.Ref) {
	switch {
	case *memory.Word(ref) > t.heap.Frozen():
		t.heap.Free(ref, memory.Values)
	case t.wide:
		t.heap.RetireWide(ref, memory.Values)
	default:
		t.heap.Retire(ref, memory.Values)
	}
}

// letGoTree lets go of a node and everything under it.
func (t *tree) letGoTree(ref memory.Ref) {
	invariant.That(t.kind != 0, "a tree without a kind lets go of a subtree")
	if t.wide {
		t.heap.RetireTreeWide(ref, t.kind, 0)
	} else {
		t.heap.RetireTree(ref, t.kind, 0)
	}
}
