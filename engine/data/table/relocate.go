package table

import (
	"math/bits"

	"spindle/engine/data/memory"
	"spindle/internal/invariant"
)

// A Spot is how far Relocate has come. The zero value is the beginning. If keys are inserted or removed between two
// calls, Relocate may skip keys or meet them twice.
type Spot struct {
	At     uint64 // the hash of a segment; a tree's owner has a rank here
	bucket int
}

// Relocate moves nodes, segments and sidecars that lie in slabs being emptied (memory.Heap.Leaves). It calls move for
// each block and stores the Ref that move returns. It begins at the spot that at holds, and ends when all is done or
// stop returns true. It calls stop after each bucket.
//
// It may only run while no hold is live, because then nothing else reaches these blocks.
func (t *Table) Relocate(at *Spot, move func(ref memory.Ref) memory.Ref, stop func() bool) (done bool) {
	invariant.That(t.heap.Frozen() == 0, "table.E1: blocks move under freeze %d", t.heap.Frozen())
	t.moves++
	for {
		s := t.relocateSegment(at.At)
		for nb := int(s.nb); at.bucket < nb; {
			s.bucket(at.bucket).relocate(move)
			at.bucket++
			if at.bucket+1 < nb {
				s.bucket(at.bucket + 1).prefetch()
			}
			if stop() && at.bucket < nb {
				return false
			}
		}
		end := s.prefix | ^uint64(0)>>s.depth
		*at = Spot{At: end + 1}
		if end == ^uint64(0) {
			return true
		}
		if stop() {
			return false
		}
	}
}

// relocate calls move for each block of the bucket and stores the new Ref.
func (b *bucket) relocate(move func(ref memory.Ref) memory.Ref) {
	for m := b.meta & metaKeys; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m) >> 3
		ref := memory.Ref(b.slot[i] & slotRef)
		if to := move(ref); to != ref {
			b.slot[i] = b.slot[i]&^slotRef | uint64(to)
		}
	}
}

// prefetch starts fetching the blocks of the bucket.
func (b *bucket) prefetch() {
	for m := b.meta & metaKeys; m != 0; m &= m - 1 {
		memory.PrefetchRef(memory.Ref(b.slot[bits.TrailingZeros64(m)>>3] & slotRef))
	}
}

// relocateSegment returns hash's segment. It first moves the segment and the nodes that lead to it, if their slabs are
// being emptied.
func (t *Table) relocateSegment(hash uint64) *segment {
	h := t.heap
	link, e := &t.root, t.root
	for depth := uint8(0); e&entryBuckets == 0; {
		n := nodeAt(refOf(e))
		if h.Leaves(refOf(e)) {
			*link = nodeEntry(t.copyNode(refOf(e)), n.bits)
			h.Free(refOf(e), memory.Index)
			e = *link
			n = nodeAt(refOf(e))
		}
		at := step{refOf(e), n.bits, depth}
		link = n.entry(at.index(hash))
		e, depth = *link, depth+n.bits
	}
	old := refOf(e)
	if h.Leaves(old) {
		var tr trail
		t.descend(hash, &tr)
		nb := int(e & entryBuckets)
		ref := h.Alloc(segmentBytes(nb), memory.Index)
		dup := segmentAt(ref)
		copy(lines(dup, nb), lines(segmentAt(old), nb))
		dup.epoch = h.Epoch()
		t.link(&tr, dup.prefix, dup.depth, segmentEntry(ref, nb))
		h.Free(old, memory.Index)
		old = ref
	}
	s := segmentAt(old)
	if s.sidecar != 0 && h.Leaves(s.sidecar) {
		n := memory.UsableSize(s.sidecar)
		ref := h.Alloc(n, memory.Index)
		copy(memory.Bytes(ref, n), memory.Bytes(s.sidecar, n))
		h.Free(s.sidecar, memory.Index)
		s.sidecar = ref
	}
	return s
}

// Relocate is Table.Relocate for the nested table in s. It also moves the members' blocks. s must lie in a writable
// root block.
func (s *State) Relocate(h *memory.Heap, layout Layout, at *Spot, stop func() bool) (done bool) {
	t := Open(h, layout, s, false)
	done = t.Relocate(at, func(ref memory.Ref) memory.Ref {
		if !h.Leaves(ref) {
			return ref
		}
		n := memory.UsableSize(ref)
		to := h.Alloc(n, memory.Values)
		copy(memory.Bytes(to, n), memory.Bytes(ref, n))
		h.Free(ref, memory.Values)
		return to
	}, stop)
	*s = t.State()
	return done
}
