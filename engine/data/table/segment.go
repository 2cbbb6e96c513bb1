package table

import (
	"math/bits"
	"unsafe"

	"spindle/engine/data/memory"
)

// A segment holds the keys whose hashes begin with the same depth bits: a header line and nb bucket lines.
//
//	0          64         128                                64*(nb+1)
//	+----------+----------+----------+-- ~ --+------------+
//	| header   | bucket 0 | bucket 1 |       | bucket nb-1 |
//	+----------+----------+----------+-- ~ --+------------+
//
// A bucket is one cache line: a word of fingerprints, and a slot for each.
//
//	0        7 8                                                  64
//	+--------+-+----------+----------+----------+-- ~ --+----------+
//	| fp 0-6 |o| slot 0   | slot 1   | slot 2   |       | slot 6   |     fp = 0x80 | 7 bits of the hash, or 0: free
//	+--------+-+----------+----------+----------+-- ~ --+----------+     o  = how many keys probed past this bucket
//
//	slot: 63..48 tag (16 bits of the hash) | 47..3 block | bit 1 volatile | bit 0 shared
//
// table.S1. A key's home bucket is tag*nb>>16. The key lies in that bucket or in a later one (wrapping round). Each
// bucket that the key passed, beginning with its home, counted it in o. o stops at 255.
// table.S2. count is the number of slots in use; volatile is the number of those with bit 1.
// table.S3. A key does not move inside its segment except when the segment is rebuilt (resize, split, merge).
// table.S4. An open view may reach the block of a shared slot. So the block is replaced, never edited (but see
// table.N1).
// table.S5. A segment never has more than 6 keys a bucket on average, so a probe ends soon.
// table.S6. sidecar, if any, holds for each bucket a lower bound of its keys' deadlines in ticks (due.go). Only the
// core uses it. It is not copied on write: a copied segment takes it over.
type segment struct {
	epoch    uint64
	sidecar  memory.Ref
	prefix   uint64 // the first depth bits of its keys' hashes, left-aligned
	dueID    uint32 // its id in the index of deadlines; valid while sidecar != 0
	count    uint16
	volatile uint16
	depth    uint8
	nb       uint8
	_        [30]byte
}

type bucket struct {
	meta uint64
	slot [slots]uint64
}

var (
	_ [64]byte = [unsafe.Sizeof(segment{})]byte{}
	_ [64]byte = [unsafe.Sizeof(bucket{})]byte{}
)

const (
	slots      = 7
	maxBuckets = 63
	perBucket  = 6 // table.S5
	maxDepth   = 40

	slotShared   = 1
	slotVolatile = 2
	slotRef      = 1<<48 - 8

	metaKeys     = 0x0080808080808080 // the top bit of each fingerprint
	metaOnes     = 0x0001010101010101
	metaOverflow = 1 << 56
	overflowMax  = 255
)

// sizes are the numbers of buckets that a segment may have. Steps of 512 bytes near the top keep the mean load at 0.75
// of the slots.
var sizes = [...]uint8{1, 3, 7, 15, 23, 31, 39, 47, 55, 63}

// fit returns the size in buckets of the smallest segment that holds n keys with some room to grow, but at most
// maxBuckets.
func fit(n int) int {
	n += n>>4 + 1
	for _, nb := range sizes {
		if n <= int(nb)*perBucket {
			return int(nb)
		}
	}
	return maxBuckets
}

// larger returns the next size above nb. nb must be below maxBuckets.
func larger(nb int) int {
	for _, s := range sizes {
		if int(s) > nb {
			return int(s)
		}
	}
	panic("table: no segment is larger")
}

func segmentBytes(nb int) int { return 64 * (nb + 1) }

func segmentAt(r memory.Ref) *segment { return (*segment)(memory.Pointer(r)) }

// bucket returns bucket i. i must be below nb.
func (s *segment) bucket(i int) *bucket {
	return (*bucket)(unsafe.Add(unsafe.Pointer(s), 64+i*64))
}

// full reports whether the segment must grow before it can take another key (table.S5).
func (s *segment) full() bool { return int(s.count) >= int(s.nb)*perBucket }

// sparse reports whether the segment should shrink or be merged with its buddy.
func (s *segment) sparse() bool { return int(s.count) < int(s.nb)*2 }

func tagOf(hash uint64) uint64 { return hash >> 8 & 0xFFFF }

// fingerprintOf returns the hash's fingerprint byte, which is never 0.
func fingerprintOf(hash uint64) uint64 { return (hash>>24 | 0x80) & 0xFF }

// home returns the home bucket of a tag (table.S1). A greater tag never has a lower home bucket; scan.go relies on
// that.
func home(tag uint64, nb int) int { return int(tag * uint64(nb) >> 16) }

// free returns a free slot of the bucket, or -1.
func (b *bucket) free() int {
	if f := ^b.meta & metaKeys; f != 0 {
		return bits.TrailingZeros64(f) >> 3
	}
	return -1
}

func (b *bucket) fingerprint(i int) uint64 { return b.meta >> (8 * uint(i)) & 0xFF }

// insert adds a slot word with its fingerprint, and returns its bucket and slot. The segment must be writable and not
// full.
func (s *segment) insert(word, fp uint64) (at, i int) {
	s.count++
	if word&slotVolatile != 0 {
		s.volatile++
	}
	return s.insertUncounted(word, fp)
}

// insertUncounted is insert, but does not count the key.
func (s *segment) insertUncounted(word, fp uint64) (at, i int) {
	nb := int(s.nb)
	at = home(word>>48, nb)
	for {
		b := s.bucket(at)
		if i = b.free(); i >= 0 {
			b.meta |= fp << (8 * uint(i))
			b.slot[i] = word
			return at, i
		}
		if b.meta>>56 != overflowMax {
			b.meta += metaOverflow
		}
		if at++; at == nb {
			at = 0
		}
	}
}

// remove frees slot i of bucket at. The segment must be writable.
func (s *segment) remove(at, i int) {
	nb := int(s.nb)
	b := s.bucket(at)
	word := b.slot[i]
	b.meta &^= 0xFF << (8 * uint(i))
	b.slot[i] = 0
	s.count--
	if word&slotVolatile != 0 {
		s.volatile--
	}
	for from := home(word>>48, nb); from != at; {
		if p := s.bucket(from); p.meta>>56 != overflowMax {
			p.meta -= metaOverflow
		}
		if from++; from == nb {
			from = 0
		}
	}
}
