package table

import (
	"math/bits"

	"spindle/engine/data/memory"
	"spindle/internal/invariant"
)

// grow makes room in the full segment of hash. It rebuilds the segment at the next size, or splits it in two at the
// largest size.
// Cost: at most 378 keys moved and one node of 4 KB copied. A split also reads each key (prefetched).
func (t *Table) grow(hash uint64) {
	var tr trail
	e := t.descend(hash, &tr)
	nb := int(e & entryBuckets)
	switch {
	case segmentAt(refOf(e)).depth < t.aim.depth:
		t.split(&tr, refOf(e))
	case nb < t.aim.buckets:
		t.resize(&tr, refOf(e), t.aim.buckets)
	case nb < maxBuckets:
		t.resize(&tr, refOf(e), larger(nb))
	default:
		t.split(&tr, refOf(e))
	}
}

// An aim is the shape that segments will have when all announced keys have been added.
type aim struct {
	depth   uint8
	buckets int
}

// Reserve announces that the table will hold about n keys. Segments then reach their final shape early, by splits while
// they hold a key or two and one resize. Without Reserve they take ten steps and a split each. Nothing is allocated
// before the keys come. If n is too large, segments have too much room until they are next rebuilt. Reserve(0) ends the
// announcement.
func (t *Table) Reserve(n int) {
	t.aim = aim{}
	const most = maxBuckets * perBucket * 4 / 5 // a mean that leaves room for the variance of hashes
	if n <= most {
		return
	}
	for n > most {
		n = (n + 1) / 2
		t.aim.depth++
	}
	t.aim.buckets = fit(n) // a segment that gets more keys grows once more
}

// resize rebuilds the segment at old with nb buckets. It does not read keys, because each slot's tag gives the new home
// bucket.
func (t *Table) resize(tr *trail, old memory.Ref, nb int) {
	s := segmentAt(old)
	e := t.newSegment(nb, s.prefix, s.depth)
	into := segmentAt(refOf(e))
	var w rebuild
	w.move(t, s, into)
	w.end(t, into)
	t.link(tr, s.prefix, s.depth, e)
	t.retireSegment(old)
}

// split rebuilds the segment at old as two segments, by the next bit of the hash.
func (t *Table) split(tr *trail, old memory.Ref) {
	s := segmentAt(old)
	invariant.That(s.depth < maxDepth, "table: %d keys share %d bits of hash", s.count, s.depth)
	if tr.n == 0 || tr.last().depth+tr.last().bits == s.depth {
		t.deepen(tr, s)
	}
	bit := uint64(1) << (63 - s.depth)

	// First get the hashes. Each key's block is prefetched two buckets before it is read.
	var hashes [maxBuckets * slots]uint64
	n, high := 0, 0
	for i := range int(s.nb) + walkAhead {
		if i < int(s.nb) {
			s.bucket(i).prefetch()
		}
		if i < walkAhead {
			continue
		}
		b := s.bucket(i - walkAhead)
		for m := b.meta & metaKeys; m != 0; m &= m - 1 {
			h := t.HashOf(t.key(memory.Ref(b.slot[bits.TrailingZeros64(m)>>3] & slotRef)))
			hashes[n] = h
			n++
			if h&bit != 0 {
				high++
			}
		}
	}

	var half [2]uint64
	half[0] = t.newSegment(fit(n-high), s.prefix, s.depth+1)
	half[1] = t.newSegment(fit(high), s.prefix|bit, s.depth+1)
	into := [2]*segment{segmentAt(refOf(half[0])), segmentAt(refOf(half[1]))}
	into[0].count, into[1].count = uint16(n-high), uint16(high)
	var w rebuild
	w.from(t, s)
	n = 0
	for i := range int(s.nb) {
		b := s.bucket(i)
		for m := b.meta & metaKeys; m != 0; m &= m - 1 {
			j := bits.TrailingZeros64(m) >> 3
			side := hashes[n] >> (63 - s.depth) & 1
			n++
			tick := uint32(Never)
			if b.slot[j]&slotVolatile != 0 {
				tick = t.Tick(t.deadline(memory.Ref(b.slot[j] & slotRef)))
				into[side].volatile++
			}
			w.slot(b, j, into[side], side, tick)
		}
	}
	w.end(t, into[:]...)
	t.link(tr, s.prefix, s.depth+1, half[0])
	t.link(tr, s.prefix|bit, s.depth+1, half[1])
	t.retireSegment(old)
}

// deepen makes room in the directory for two segments in place of s. The node that leads to s doubles, up to 9 bits.
// Beyond that, a new node is put between them. tr leads to s before and after.
func (t *Table) deepen(tr *trail, s *segment) {
	if tr.n > 0 && tr.last().bits < maxBits {
		at := tr.last()
		old := nodeAt(at.ref)
		ref := t.newNode(at.bits+1, at.depth)
		n := nodeAt(ref)
		for i := range uint64(1) << at.bits {
			*n.entry(2 * i) = *old.entry(i)
			*n.entry(2*i + 1) = *old.entry(i)
		}
		t.linkNode(tr, tr.n-1, s.prefix, nodeEntry(ref, at.bits+1))
		t.retireNode(at.ref, s.prefix)
		at.ref, at.bits = ref, at.bits+1
		return
	}
	e := segmentFor(t.root, s.prefix)
	ref := t.newNode(1, s.depth)
	n := nodeAt(ref)
	*n.entry(0), *n.entry(1) = e, e
	t.linkNode(tr, tr.n, s.prefix, nodeEntry(ref, 1))
	tr.steps[tr.n] = step{ref, 1, s.depth}
	tr.n++
}

// shrink makes the sparse segment of hash smaller. It joins the segment with its buddy if both fit one segment,
// otherwise it rebuilds the segment. It costs as much as resize.
func (t *Table) shrink(hash uint64) {
	var tr trail
	e := t.descend(hash, &tr)
	s := segmentAt(refOf(e))
	if tr.n > 0 {
		bit := uint64(1) << (64 - s.depth)
		at := tr.last()
		be := *nodeAt(at.ref).entry(at.index(s.prefix ^ bit))
		if be&entryBuckets != 0 {
			if buddy := segmentAt(refOf(be)); buddy.depth == s.depth && int(s.count)+int(buddy.count) <= maxBuckets*perBucket/2 {
				t.merge(&tr, refOf(e), refOf(be))
				return
			}
		}
	}
	if nb := fit(int(s.count) + int(s.count)/3); nb < int(s.nb) {
		t.resize(&tr, refOf(e), nb)
	}
}

// merge joins two buddies.
func (t *Table) merge(tr *trail, a, b memory.Ref) {
	s, buddy := segmentAt(a), segmentAt(b)
	depth := s.depth - 1
	prefix := s.prefix &^ (1 << (63 - depth))
	n := int(s.count) + int(buddy.count)
	e := t.newSegment(fit(n+n/3), prefix, depth)
	into := segmentAt(refOf(e))
	var w rebuild
	w.move(t, s, into)
	w.move(t, buddy, into)
	w.end(t, into)
	t.link(tr, prefix, depth, e)
	t.retireSegment(a)
	t.retireSegment(b)
	t.collapse(tr, prefix)
}

// collapse halves the nodes at the end of tr while they hold every entry twice. It drops a node with only one distinct
// entry.
// Cost: half the node's entries compared, at most 256 per level.
func (t *Table) collapse(tr *trail, prefix uint64) {
	for tr.n > 0 {
		at := tr.last()
		n := nodeAt(at.ref)
		for i := uint64(0); i < 1<<at.bits; i += 2 {
			if *n.entry(i) != *n.entry(i + 1) {
				return
			}
		}
		if at.bits == 1 {
			t.linkNode(tr, tr.n-1, prefix, *n.entry(0))
			t.retireNode(at.ref, prefix)
			tr.n--
			continue
		}
		ref := t.newNode(at.bits-1, at.depth)
		half := nodeAt(ref)
		for i := range uint64(1) << (at.bits - 1) {
			*half.entry(i) = *n.entry(2 * i)
		}
		t.linkNode(tr, tr.n-1, prefix, nodeEntry(ref, at.bits-1))
		t.retireNode(at.ref, prefix)
		at.ref, at.bits = ref, at.bits-1
	}
}

// A rebuild moves the slots of one or two old segments into one or two new ones, with the bounds of their deadlines.
type rebuild struct {
	mark    uint64 // slotShared if a view may hold the old segment (table.E3)
	bounds  []uint32
	retired [2]memory.Ref // sidecars of the old segments
	ids     [2]uint32
	n       int
	minima  [2][maxBuckets + 1]uint32 // of the new segments; set up at the first old sidecar
}

// from begins to move the slots of segment s.
func (w *rebuild) from(t *Table, s *segment) {
	w.mark, w.bounds = 0, nil
	if s.epoch <= t.heap.Frozen() {
		w.mark = slotShared
	}
	if s.sidecar == 0 {
		return
	}
	if w.n == 0 {
		for i := range w.minima {
			for j := range w.minima[i] {
				w.minima[i][j] = Never
			}
		}
	}
	w.bounds = s.minima()
	w.retired[w.n], w.ids[w.n] = s.sidecar, s.dueID
	w.n++
}

// slot moves slot j of b to the new segment of that side. The caller counts the key. tick is a lower bound of the key's
// deadline.
func (w *rebuild) slot(b *bucket, j int, into *segment, side uint64, tick uint32) {
	word, fp := b.slot[j]|w.mark, b.fingerprint(j)
	at := home(word>>48, int(into.nb))
	if to := into.bucket(at); ^to.meta&metaKeys != 0 { // insertUncounted's common case, inlined
		i := bits.TrailingZeros64(^to.meta&metaKeys) >> 3 & 7
		to.meta |= fp << (8 * i)
		to.slot[i] = word
	} else {
		at, _ = into.insertUncounted(word, fp)
	}
	if tick != Never {
		w.minima[side][at] = min(w.minima[side][at], tick)
	}
}

// move moves all slots of s to into. A key keeps the bound of its old bucket, so that its block need not be read.
func (w *rebuild) move(t *Table, s, into *segment) {
	w.from(t, s)
	for i := range int(s.nb) {
		b := s.bucket(i)
		for m := b.meta & metaKeys; m != 0; m &= m - 1 {
			j := bits.TrailingZeros64(m) >> 3
			tick := uint32(Never)
			if b.slot[j]&slotVolatile != 0 {
				tick = w.bounds[i]
			}
			w.slot(b, j, into, 0, tick)
		}
	}
	into.count += s.count
	into.volatile += s.volatile
}

// end gives the new segments their sidecars and frees the old ones.
func (w *rebuild) end(t *Table, into ...*segment) {
	for i := range w.n {
		t.heap.Free(w.retired[i], memory.Index)
		t.due.release(w.ids[i])
	}
	for side, s := range into {
		if s.volatile == 0 {
			continue
		}
		t.addSidecar(s)
		minima := s.minima()
		least := uint32(Never)
		for i := range int(s.nb) {
			minima[i] = w.minima[side][i]
			least = min(least, minima[i])
		}
		minima[s.nb] = least
		t.due.set(s.dueID, least)
	}
}
