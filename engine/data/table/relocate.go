package table

import (
	"math/bits"

	"spindle/engine/data/memory"
	"spindle/internal/invariant"
)

// A Spot is how far Relocate has come. The zero value is the beginning. What is inserted or removed between two calls
// may have it leave out keys or meet them twice.
type Spot struct {
	At     uint64 // the hash of a segment; a tree's owner has a rank here
	bucket int
}

// Relocate moves what lies in slabs that are being emptied (memory.Heap.Leaves): nodes, segments and their sidecars.
// Of each block it asks move, which answers where the block is from then on. It goes on from at until all has been
// passed, or stop says so, which it asks behind each bucket.
//
// Only while no hold lives: nothing else reaches these blocks then.
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

// relocate asks of each block of a bucket.
func (b *bucket) relocate(move func(ref memory.Ref) memory.Ref) {
	for m := b.meta & metaKeys; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m) >> 3
		ref := memory.Ref(b.slot[i] & slotRef)
		if to := move(ref); to != ref {
			b.slot[i] = b.slot[i]&^slotRef | uint64(to)
		}
	}
}

// prefetch starts fetching the blocks of a bucket.
func (b *bucket) prefetch() {
	for m := b.meta & metaKeys; m != 0; m &= m - 1 {
		memory.PrefetchRef(memory.Ref(b.slot[bits.TrailingZeros64(m)>>3] & slotRef))
	}
}

// relocateSegment is hash's segment, moved if it had to be, as the nodes that lead there.
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

// Relocate is that of the nested table in s, whose members' blocks are moved too. s lies in a root block that is
// writable.
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
