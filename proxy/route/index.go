package route

import (
	"encoding/binary"
	"math/bits"

	"spindle/internal/ascii"
)

// An index finds a row by its name in any case, without allocating.
//
// route.I1. first, last and size of an index slot are computed from the name in lower case. So names of up to 16 bytes
// are equal exactly if all three are equal. Longer names are compared in full.
// route.I2. A row can be reached from its home slot without crossing an empty slot. At most half of the slots are full.
type index struct {
	slots []indexSlot
	shift uint
	count int
}

type indexSlot struct {
	first, last uint64 // the first and the last eight bytes of the name, in lower case
	size        int
	row         *Row
	name        string // lower case
}

const hashFactor = 0x9E3779B97F4A7C15

// newIndex returns an index with room for n rows.
func newIndex(n int) *index {
	size := max(4, 1<<bits.Len(uint(2*n)))
	return &index{slots: make([]indexSlot, size), shift: uint(64 - bits.TrailingZeros(uint(size)))}
}

// add adds a row under a name in lower case. It replaces a row with the same name.
func (x *index) add(name string, row *Row) {
	first, last := nameWords([]byte(name))
	at := home(first, last, len(name)) >> x.shift
	for x.slots[at].row != nil && x.slots[at].name != name {
		at = (at + 1) & uint64(len(x.slots)-1)
	}
	if x.slots[at].row == nil {
		x.count++
	}
	x.slots[at] = indexSlot{first, last, len(name), row, name}
}

// find returns the row of a name in any case, or nil if there is none.
func (x *index) find(name []byte) *Row {
	first, last := nameWords(name)
	for at := home(first, last, len(name)) >> x.shift; ; at = (at + 1) & uint64(len(x.slots)-1) {
		s := &x.slots[at]
		if s.first == first && s.last == last && s.size == len(name) &&
			(len(name) <= 16 || s.row != nil && ascii.EqualFold(name, s.name)) {
			return s.row
		}
		if s.row == nil {
			return nil
		}
	}
}

func home(first, last uint64, size int) uint64 {
	return (first ^ bits.RotateLeft64(last, 29) ^ uint64(size)) * hashFactor
}

// nameWords returns the first and the last eight bytes of a name in lower case. In short names the two overlap.
func nameWords(name []byte) (first, last uint64) {
	switch n := len(name); {
	case n >= 8:
		return lower(binary.LittleEndian.Uint64(name)), lower(binary.LittleEndian.Uint64(name[n-8:]))
	case n >= 4:
		w := lower(uint64(binary.LittleEndian.Uint32(name)) | uint64(binary.LittleEndian.Uint32(name[n-4:]))<<32)
		return w, w
	default:
		var w uint64
		for i, c := range name {
			w |= uint64(c) << (8 * i)
		}
		w = lower(w)
		return w, w
	}
}

// lower converts the ASCII capitals among w's eight bytes to lower case.
func lower(w uint64) uint64 {
	const ones = 0x0101010101010101
	low := w &^ (0x80 * ones)
	fromA := low + (0x80-'A')*ones
	pastZ := low + (0x80-'Z'-1)*ones
	return w | (fromA&^pastZ&^w&(0x80*ones))>>2
}
