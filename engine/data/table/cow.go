package table

import (
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/internal/invariant"
)

// table.E1. A segment or node stamped at or below heap.Frozen() may have readers of a view, so it is not written to
// (but see table.S6).
// table.E2. A segment or node made after the freeze is stamped above it, and so is every node that leads to it.
// table.E3. In a copied segment every slot is marked as shared, because its block is in the view's segment too. The
// mark has a meaning only while a hold is live.
// table.E4. A replaced block is retired only after its replacement can be reached from the root.

// Root returns the word that a view stores to keep the present table. It leads to everything that the table holds now.
func (t *Table) Root() uint64 { return t.root }

// A step is a node on the way to a segment.
type step struct {
	ref   memory.Ref
	bits  uint8
	depth uint8
}

// A trail lists the nodes that lead to a segment, from the root down.
type trail struct {
	n     int
	steps [maxLevels]step
}

func (tr *trail) last() *step { return &tr.steps[tr.n-1] }

// index returns the index of the node's entry that hash selects.
func (s *step) index(hash uint64) uint64 { return hash << s.depth >> (64 - s.bits) }

// descend fills tr with the nodes that lead to hash's segment, makes each of them writable, and returns the segment's
// entry.
// Cost: a compare for each node. After a freeze, the first write copies each node, at most 4 KB.
func (t *Table) descend(hash uint64, tr *trail) uint64 {
	frozen := t.heap.Frozen()
	tr.n = 0
	link, e, depth := &t.root, t.root, uint8(0)
	for e&entryBuckets == 0 {
		n := nodeAt(refOf(e))
		if n.epoch <= frozen {
			e = nodeEntry(t.copyNode(refOf(e)), n.bits)
			old := refOf(*link)
			*link = e
			t.retireNode(old, hash)
			n = nodeAt(refOf(e))
		}
		at := step{refOf(e), n.bits, depth}
		tr.steps[tr.n] = at
		tr.n++
		link = n.entry(at.index(hash))
		e, depth = *link, depth+n.bits
	}
	return e
}

// own makes hash's segment writable and returns its entry.
// Cost: a compare if no view is open. After a freeze, the first write copies the segment, at most 4 KB.
func (t *Table) own(hash uint64) uint64 {
	var tr trail
	e := t.descend(hash, &tr)
	old := refOf(e)
	s := segmentAt(old)
	if s.epoch > t.heap.Frozen() {
		return e
	}
	nb := int(s.nb)
	ref := t.heap.Alloc(segmentBytes(nb), memory.Index)
	dup := segmentAt(ref)
	copy(lines(dup, nb), lines(s, nb))
	dup.epoch = t.heap.Epoch()
	for i := range nb { // table.E3; a mark on a free slot does no harm
		b := dup.bucket(i)
		for j := range b.slot {
			b.slot[j] |= slotShared
		}
	}
	invariant.That(dup.epoch > t.heap.Frozen(), "table.E2: segment stamped %d under freeze %d", dup.epoch, t.heap.Frozen())
	e = segmentEntry(ref, nb)
	t.link(&tr, dup.prefix, dup.depth, e)
	t.retireSegment(old)
	return e
}

// lines returns the segment's memory as words.
func lines(s *segment, nb int) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(s)), segmentBytes(nb)/8)
}

// link makes e the entry of all hashes that begin with the first depth bits of prefix. tr leads to that entry and is
// writable.
func (t *Table) link(tr *trail, prefix uint64, depth uint8, e uint64) {
	t.moves++
	if tr.n == 0 {
		t.root = e
		return
	}
	at := tr.last()
	n := nodeAt(at.ref)
	from := at.index(prefix)
	for i := range uint64(1) << (at.depth + at.bits - depth) {
		*n.entry(from + i) = e
	}
}

// linkNode makes e the entry that leads to the node at level i of tr.
func (t *Table) linkNode(tr *trail, i int, hash uint64, e uint64) {
	if i == 0 {
		t.root = e
		return
	}
	at := &tr.steps[i-1]
	*nodeAt(at.ref).entry(at.index(hash)) = e
}

func (t *Table) copyNode(old memory.Ref) memory.Ref {
	n := nodeAt(old)
	size := nodeBytes(n.bits)
	ref := t.heap.Alloc(size, memory.Index)
	copy(memory.Bytes(ref, size), memory.Bytes(old, size))
	nodeAt(ref).epoch = t.heap.Epoch()
	return ref
}

func (t *Table) newNode(bits, depth uint8) memory.Ref {
	ref := t.heap.Alloc(nodeBytes(bits), memory.Index)
	*nodeAt(ref) = node{epoch: t.heap.Epoch(), bits: bits, depth: depth}
	return ref
}

// newSegment returns the entry of an empty segment.
func (t *Table) newSegment(nb int, prefix uint64, depth uint8) uint64 {
	ref := t.heap.Alloc(segmentBytes(nb), memory.Index)
	s := segmentAt(ref)
	clear(lines(s, nb))
	s.epoch, s.prefix, s.depth, s.nb = t.heap.Epoch(), prefix, depth, uint8(nb)
	return segmentEntry(ref, nb)
}

// retireNode retires a node that the table no longer reaches (table.E4). The node's children are not retired.
func (t *Table) retireNode(ref memory.Ref, hash uint64) {
	n := nodeAt(ref)
	t.retire(ref, n.epoch, hash, n.depth)
}

// retireSegment retires a segment that the table no longer reaches (table.E4). Its sidecar is not freed (table.S6).
func (t *Table) retireSegment(ref memory.Ref) {
	s := segmentAt(ref)
	t.retire(ref, s.epoch, s.prefix, s.depth)
}

func (t *Table) retire(ref memory.Ref, epoch, hash uint64, depth uint8) {
	switch {
	case epoch > t.heap.Frozen():
		t.heap.Free(ref, memory.Index)
	case t.nested: // table.O3
		if t.moved {
			t.heap.RetireWide(ref, memory.Index)
		} else {
			t.heap.Retire(ref, memory.Index)
		}
	case depth < 8: // walkers reach it under several of the prefixes that holds follow
		t.heap.RetireWide(ref, memory.Index)
	default:
		t.heap.SetPosition(t.home, hash)
		t.heap.Retire(ref, memory.Index)
	}
}
