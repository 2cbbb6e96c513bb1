package table

import (
	"math/bits"

	"spindle/engine/data/memory"
)

// The SCAN cursor: keys are yielded in the order of (prefix of their segment, tag). A cursor records how far a scan has
// come, in hashes and not in places. So resizing, splitting and joining segments between two calls do not disturb it:
//
//	63    62..22 prefix, right-aligned     21..6 tag      5..0 depth
//	 0  | first depth bits of the hash   | all below it | of the segment when the cursor was given out
//
// table.C1. Every key in a segment before prefix was yielded. In prefix's own segment, those with a lower tag were.
// table.C2. If the segment is deeper now, table.C1 holds for the part that prefix leads to; the rest is yielded in full
// later. If the segment is less deep, it now has keys that were not yielded, and the scan of it starts over. So a key
// present from the first call to the last is yielded at least once. Any number is a safe cursor.

func cursorOf(prefix, tag uint64, depth uint8) uint64 {
	if depth == 0 {
		return tag << 6
	}
	return prefix>>(64-depth)<<22 | tag<<6 | uint64(depth)
}

// Scan yields about count blocks, starting at cursor, and returns the next cursor. Cursor 0 begins a scan, and 0
// returned ends it. yield must not write to the table. Cost: the buckets passed, and at most 10*count empty ones.
func (t *Table) Scan(cursor uint64, count int, yield func(memory.Ref)) uint64 {
	return ScanIn(t.root, cursor, count, yield)
}

// ScanIn is Scan of the table with this root. Any goroutine may scan a frozen root.
func ScanIn(root, cursor uint64, count int, yield func(memory.Ref)) uint64 {
	tag, depth := cursor>>6&0xFFFF, uint8(cursor&63)
	prefix := uint64(0)
	if depth > maxDepth {
		return 0
	}
	if depth > 0 {
		prefix = cursor >> 22 << (64 - depth)
	}
	count = min(max(count, 1), 1<<40)
	buckets := 10 * count
	for {
		s := segmentAt(refOf(segmentFor(root, prefix)))
		if s.depth < depth {
			tag = 0 // table.C2
		}
		nb := uint64(s.nb)
		for at := tag * nb >> 16; at < nb; at++ {
			count -= s.passHome(int(at), tag, yield)
			buckets--
			tag = ((at+1)<<16 + nb - 1) / nb // the first tag of the next bucket
			if (count <= 0 || buckets <= 0) && at+1 < nb {
				return cursorOf(s.prefix, tag, s.depth)
			}
		}
		next := s.prefix + 1<<(64-s.depth) // wraps to 0 after the last segment, also for depth 0
		if next == 0 || s.depth == 0 {
			return 0
		}
		prefix, tag, depth = next, 0, s.depth
		if count <= 0 || buckets <= 0 {
			return cursorOf(prefix, 0, s.depth)
		}
	}
}

// passHome yields the keys whose home is bucket at and whose tag is at least from, whichever bucket they lie in
// (table.S1). It returns their number.
func (s *segment) passHome(at int, from uint64, yield func(memory.Ref)) (n int) {
	nb := int(s.nb)
	for i, probes := at, 0; probes < nb; probes++ {
		b := s.bucket(i)
		for m := b.meta & metaKeys; m != 0; m &= m - 1 {
			word := b.slot[bits.TrailingZeros64(m)>>3]
			if tag := word >> 48; tag >= from && home(tag, nb) == at {
				yield(memory.Ref(word & slotRef))
				n++
			}
		}
		if b.meta>>56 == 0 {
			break
		}
		if i++; i == nb {
			i = 0
		}
	}
	return n
}

// walkAhead is the number of buckets by which a walk fetches blocks ahead.
const walkAhead = 2

// Walk yields the blocks of the segments that begin between the hashes from and to, until yield returns false. Any
// goroutine may walk a frozen root. If passed is not nil, it is called after each segment with the first and the last
// hash that the segment may hold.
func Walk(root, from, to uint64, passed func(first, last uint64), yield func(memory.Ref) bool) bool {
	for prefix := from; ; {
		s := segmentAt(refOf(segmentFor(root, prefix)))
		end := s.prefix | ^uint64(0)>>s.depth
		if s.prefix >= from { // otherwise it belongs to the part before
			nb := int(s.nb)
			for i := range nb + walkAhead {
				if i < nb {
					s.bucket(i).prefetch()
				}
				if i < walkAhead {
					continue
				}
				b := s.bucket(i - walkAhead)
				for m := b.meta & metaKeys; m != 0; m &= m - 1 {
					if !yield(memory.Ref(b.slot[bits.TrailingZeros64(m)>>3] & slotRef)) {
						return false
					}
				}
			}
			if passed != nil {
				passed(s.prefix, end)
			}
		}
		if end >= to {
			return true
		}
		prefix = end + 1
	}
}

// All yields every block until yield returns false. yield must not write to the table.
func (t *Table) All(yield func(memory.Ref) bool) { Walk(t.root, 0, ^uint64(0), nil, yield) }
