package table

import (
	"math/bits"
	"math/rand/v2"
	"unsafe"

	"spindle/engine/data/memory"
)

// A random key is drawn in two steps: first a segment with a probability in proportion to its keys, then one of its
// used slots. So each key is equally likely, wherever it lies in its bucket. That matters because a new key takes the
// lowest free slot, so slots depend on age.
//
// A segment is proposed and then accepted or rejected, so that no sums have to be stored.
//
//	keys            a random hash leads to a segment with probability 2^-depth; it is accepted in proportion to
//	                count<<depth
//	volatile keys   a random id of the index of deadlines (due.go); its segment is accepted in proportion to
//	                its volatile keys
//
// The code supposes that no weight is above some three times the mean. Hashing makes no segment heavier, because all
// segments split and join at the same sizes.

// wanted returns the bucket's slots in use, as the bits of metaKeys. With volatile it returns only those of volatile
// keys.
func (b *bucket) wanted(volatile bool) uint64 {
	m := b.meta & metaKeys
	if !volatile {
		return m
	}
	var v uint64
	for ; m != 0; m &= m - 1 {
		if b.slot[bits.TrailingZeros64(m)>>3]&slotVolatile != 0 {
			v |= m & -m
		}
	}
	return v
}

// below returns a random number from 0 to n-1. n must be below 2^32.
func below(r *rand.PCG, n uint64) uint64 { return r.Uint64() >> 32 * n >> 32 }

// fraction returns a random number that is at least 0 and below 1.
func fraction(r *rand.PCG) float64 { return float64(r.Uint64()>>11) * 0x1p-53 }

// drawSegment draws a segment with a probability in proportion to its keys. The table must not be empty.
func (t *Table) drawSegment(r *rand.PCG) *segment {
	if t.slots != nil {
		return t.drawInSlots(r)
	}
	for range 256 {
		s := segmentAt(refOf(segmentFor(t.root, r.Uint64())))
		if s.depth == 0 || fraction(r)*float64(3*t.count) < float64(uint64(s.count)<<s.depth) {
			return s
		}
	}
	return segmentAt(refOf(segmentFor(t.root, Hash(t.key(t.some(r.Uint64())))))) // does not happen in practice
}

// drawVolatile draws a segment with a probability in proportion to its volatile keys. The table must have a volatile
// key.
// Cost: some three segments' headers, up to fifteen when each has few volatile keys.
func (t *Table) drawVolatile(r *rand.PCG) *segment {
	x := &t.due
	most := 3*float64(t.volatile)/float64(x.live) + 12 // small counts deviate more from their mean
	for {
		s := segmentAt(refOf(segmentFor(t.root, x.draw(r))))
		if fraction(r)*most < float64(s.volatile) {
			return s
		}
	}
}

// draw returns the prefix of a random segment in the index, each equally likely. If most ids have been released, it
// picks a random number and counts up to that segment instead.
func (x *dueIndex) draw(r *rand.PCG) (prefix uint64) {
	for range 64 {
		id := uint32(below(r, uint64(x.ids)))
		if leaf := x.leaf(id); leaf.minima[id%dueFanout] != Never {
			return leaf.word[id%dueFanout]
		}
	}
	k := below(r, uint64(x.live))
	return x.nth(x.root, x.height, &k)
}

const found = ^uint64(0)

// nth returns the prefix of the k-th segment under the node at ref, and sets k to found. k counts from 0. If the node
// has too few segments, nth subtracts their number from k.
// Cost: O(nodes with live ids before that segment).
func (x *dueIndex) nth(ref memory.Ref, height int, k *uint64) (prefix uint64) {
	n := dueNodeAt(ref)
	for i, m := range n.minima {
		switch {
		case m == Never:
		case height > 1:
			if prefix = x.nth(memory.Ref(n.word[i]), height-1, k); *k == found {
				return prefix
			}
		case *k == 0:
			*k = found
			return n.word[i]
		default:
			*k--
		}
	}
	return 0
}

// draw returns the block of a random key of s, or of a random volatile key, each equally likely. It returns 0 if there
// is none.
func (s *segment) draw(r *rand.PCG, volatile bool) memory.Ref {
	for range 16 {
		i := below(r, uint64(s.nb)*slots)
		b := s.bucket(int(i / slots))
		if b.wanted(volatile)>>(8*(i%slots))&0x80 != 0 {
			return memory.Ref(b.slot[i%slots] & slotRef)
		}
	}
	n := s.count // there are few keys in many slots, so count up to a random one
	if volatile {
		n = s.volatile
	}
	k := int(below(r, uint64(n)))
	for i := range int(s.nb) {
		b := s.bucket(i)
		m := b.wanted(volatile)
		if have := bits.OnesCount64(m); have <= k {
			k -= have
			continue
		}
		for ; k > 0; k-- {
			m &= m - 1
		}
		return memory.Ref(b.slot[bits.TrailingZeros64(m)>>3] & slotRef)
	}
	return 0
}

// drawsMost is how often a draw is repeated when it hits keys of hidden slots.
const drawsMost = 256

// Random returns the block of a random key, each equally likely, or 0 if the table is empty. It leaves out keys of
// hidden slots. Cost: some three segments' headers and a bucket.
func (t *Table) Random(r *rand.PCG) (ref memory.Ref) {
	if t.Shown() == 0 {
		return 0
	}
	for range drawsMost {
		if ref = t.drawSegment(r).draw(r, false); !t.Conceals(ref) {
			return ref
		}
	}
	slot := t.slots.draw(r, t.Shown()) // a segment may have few shown keys among many hidden ones
	t.EachOf(slot, 1+int(below(r, uint64(t.slots.Count(slot)))), func(at memory.Ref) { ref = at })
	return ref
}

// RandomVolatile returns the block of a random key with a deadline, or 0 if there is none. It leaves out keys of hidden
// slots. Each key is equally likely, unless nearly all are hidden.
// Cost: that of Random. If nearly all keys are hidden, it may look at the headers of all segments with volatile keys.
func (t *Table) RandomVolatile(r *rand.PCG) memory.Ref {
	if t.ShownVolatile() == 0 {
		return 0
	}
	for range drawsMost {
		if ref := t.drawVolatile(r).draw(r, true); !t.Conceals(ref) {
			return ref
		}
	}
	return t.nextVolatile(uint32(below(r, uint64(t.due.ids))))
}

// nextVolatile returns the block of a volatile key that is not hidden, in the first segment with one. It begins with
// the segment of this id. It returns 0 if there is none.
func (t *Table) nextVolatile(id uint32) memory.Ref {
	x := &t.due
	for range x.ids {
		id = (id + 1) % x.ids
		leaf := x.leaf(id)
		if leaf.minima[id%dueFanout] == Never {
			continue
		}
		s := segmentAt(refOf(segmentFor(t.root, leaf.word[id%dueFanout])))
		if s.depth >= slotBits && t.slots.hidden.Has(slotOf(s.prefix)) {
			continue // the segment has only keys of this slot
		}
		for i := range int(s.nb) {
			b := s.bucket(i)
			for m := b.wanted(true); m != 0; m &= m - 1 {
				if ref := memory.Ref(b.slot[bits.TrailingZeros64(m)>>3] & slotRef); !t.Conceals(ref) {
					return ref
				}
			}
		}
	}
	return 0
}

const (
	sampleMost  = 64 // keys of one sample
	sampleDense = 4  // a sample comes from one segment if the segment has this many times as many keys
)

// Sample appends the blocks of n random keys, at most sampleMost, each key equally likely. With volatile it draws only
// volatile keys. A key may be drawn twice. Sample starts fetching the blocks. Some may belong to hidden slots.
//
// Most samples come from one segment, for fewer cache misses. Hashing has put keys of all ages there.
func (t *Table) Sample(r *rand.PCG, n int, volatile bool, into []memory.Ref) []memory.Ref {
	count := t.Shown()
	if volatile {
		count = t.ShownVolatile()
	}
	if count == 0 {
		return into
	}
	n = min(n, sampleMost)
	if volatile && t.volatile < sampleDense*n*int(t.due.live) {
		for range n {
			ref := t.drawVolatile(r).draw(r, true)
			memory.PrefetchRef(ref)
			into = append(into, ref)
		}
		return into
	}
	s := (*segment)(nil)
	if volatile {
		s = t.drawVolatile(r)
	} else {
		s = t.drawSegment(r)
	}
	var places [sampleMost]uint16
	for i := range n {
		at := below(r, uint64(s.nb)*slots)
		places[i] = uint16(at)
		memory.Prefetch(unsafe.Pointer(s.bucket(int(at / slots))))
	}
	for _, at := range places[:n] {
		ref := memory.Ref(0)
		if b := s.bucket(int(at / slots)); b.wanted(volatile)>>(8*(at%slots))&0x80 != 0 {
			ref = memory.Ref(b.slot[at%slots] & slotRef)
		} else {
			ref = s.draw(r, volatile)
		}
		memory.PrefetchRef(ref)
		into = append(into, ref)
	}
	return into
}

// some returns the first block at or after the hash from, wrapping round the table.
func (t *Table) some(from uint64) (found memory.Ref) {
	first := func(ref memory.Ref) bool { found = ref; return false }
	if Walk(t.root, from, ^uint64(0), nil, first) {
		Walk(t.root, 0, from, nil, first)
	}
	return found
}
