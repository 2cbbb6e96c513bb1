package tree

import (
	"unsafe"

	"spindle/engine/data/memory"
)

// A leaf of records is a sorted array of records of one width. A record begins with its key.
//
//	0       8   10     12      14  16                    16+width
//	+-------+---+------+-------+---+---------------------+-- ~ --+
//	| epoch | n | room | width | 0 | word0 | word1 | …   |       |     width = 16 or 32 bytes: two words or four
//	+-------+---+------+-------+---+---------------------+-- ~ --+
//	  u64    u16  u16    u16         record 0
//
// tree.R1. Keys ascend strictly in the order of the probe that inserted them: by word0, then by word1 or the owner's
// tie.
// tree.R2. 1 <= n <= room. The block is at most 1 KB. It grows by the allocator's size classes, so that little of it is
// empty.
type leaf struct {
	epoch uint64
	n     uint16
	room  uint16
	width uint16
	_     uint16
}

const (
	leafHeader = 16
	leafMax    = 1024
)

var _ [leafHeader]byte = [unsafe.Sizeof(leaf{})]byte{}

func leafAt(r memory.Ref) *leaf { return (*leaf)(memory.Pointer(r)) }

// mostRecords returns the largest number of records that a leaf may have.
func mostRecords(width int) int { return (leafMax - leafHeader) / width }

// stride returns the number of words of a record.
func (l *leaf) stride() int { return int(l.width) >> 3 }

// words returns the words of all records. The slice's capacity is the leaf's room.
func (l *leaf) words() []uint64 {
	first := (*uint64)(unsafe.Add(unsafe.Pointer(l), leafHeader))
	return unsafe.Slice(first, int(l.room)*l.stride())[:int(l.n)*l.stride()]
}

// record returns record i of the leaf.
func (l *leaf) record(i int) []uint64 {
	s := l.stride()
	return l.words()[i*s : (i+1)*s : (i+1)*s]
}

// splice inserts records, given as their words, at index at. The leaf must have room for them.
func (l *leaf) splice(at int, records []uint64) {
	s := l.stride()
	l.n += uint16(len(records) / s)
	w := l.words()
	copy(w[at*s+len(records):], w[at*s:])
	copy(w[at*s:], records)
}

// remove removes k records, the first at index at.
func (l *leaf) remove(at, k int) {
	s := l.stride()
	w := l.words()
	copy(w[at*s:], w[(at+k)*s:])
	l.n -= uint16(k)
}

// find returns the index of the first record that is not before the probe. With after, it returns that of the first
// record after the probe.
func (l *leaf) find(p *Probe, after bool) int {
	s, words := l.stride(), l.words()
	base, n := 0, int(l.n)
	if !p.TieOnly {
		for n > 1 {
			half := n >> 1
			if words[(base+half-1)*s] < p.Word0 {
				base += half
			}
			n -= half
		}
		if n == 1 && words[base*s] < p.Word0 {
			base++
		}
		if base == int(l.n) || words[base*s] != p.Word0 {
			return base
		}
	}
	least := 1 // a record whose compare result is at least this is before the wanted place
	if after {
		least = 0
	}
	lo, hi := base, int(l.n)
	for lo < hi {
		mid := (lo + hi) >> 1
		if p.compare(words[mid*s], words[mid*s+1]) >= least {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
