package command

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"spindle/internal/ascii"
)

// An index finds a row by its name in any case, without allocating. A map of names in lower case takes about three
// times as long (BenchmarkLookup), for each command.
//
//	name "GeoAdd"  ──▶  word 'g' 'e' 'o' 'a' 'd' 'd' 0 0   (8 bytes, little endian, ASCII lower case)
//	                    last  the 8 bytes that end the name; equal to word for names of 8 bytes or less
//	                    hash  = (word ^ rotate(last, 29) ^ length) * odd constant, its top bits
//	slots  [ · | row | · | · | row | row | · ]            open addressing, linear probing, at most half full
//
// command.I1. A slot's word, last and size are those of its name in lower case.
// command.I2. A row is reachable from its home slot without crossing an empty slot.
// command.I3. Names of 16 bytes or less are equal exactly if word, last and size are equal. For names of up to 32
// bytes, second and before must be equal, too. Longer names are compared whole.
// command.I4. A copy of an index shares its slots, so a name is removed from the copy before one is added to it.
type index struct {
	slots []indexSlot
	shift uint
	size  int
}

type indexSlot struct {
	word, last     uint64
	second, before uint64 // of names of 16..32 bytes: the words after the first and before the last
	size           int
	row            *Spec
	name           string // lower case; may differ from row.Full after a rename
}

var _ [64]byte = [unsafe.Sizeof(indexSlot{})]byte{} // a cache line

const indexHash = 0x9E3779B97F4A7C15

// lower returns w with the ASCII capitals among its eight bytes in lower case.
func lower(w uint64) uint64 {
	const ones = 0x0101010101010101
	low := w &^ (0x80 * ones)
	fromA := low + (0x80-'A')*ones
	pastZ := low + (0x80-'Z'-1)*ones
	capital := fromA &^ pastZ &^ w & (0x80 * ones)
	return w | capital>>2
}

// words returns a name's first and last eight bytes in lower case.
func words(name []byte) (word, last uint64) {
	switch n := len(name); {
	case n >= 8:
		return lower(binary.LittleEndian.Uint64(name)), lower(binary.LittleEndian.Uint64(name[n-8:]))
	case n >= 4:
		w := uint64(binary.LittleEndian.Uint32(name)) |
			uint64(binary.LittleEndian.Uint32(name[n-4:]))<<(8*uint(n-4)&63)
		w = lower(w)
		return w, w
	case n > 0:
		w := uint64(name[0]) | uint64(name[n/2])<<(8*uint(n/2)&63) | uint64(name[n-1])<<(8*uint(n-1)&63)
		w = lower(w)
		return w, w
	}
	return 0, 0
}

// home returns the slot where the search for a name begins.
func (x *index) home(word, last uint64, size int) uint64 {
	return (word ^ bits.RotateLeft64(last, 29) ^ uint64(size)) * indexHash >> (x.shift & 63)
}

// find returns the row called name, in any case; nil if there is none.
func (x *index) find(name []byte) *Spec {
	if len(x.slots) == 0 {
		return nil
	}
	word, last := words(name)
	mask := uint64(len(x.slots) - 1)
	for i := x.home(word, last, len(name)); ; i++ {
		s := &x.slots[i&mask]
		if s.row == nil {
			return nil
		}
		if s.word == word && s.last == last && s.size == len(name) && (s.size <= 16 || s.sameMiddle(name)) {
			return s.row
		}
	}
}

// middle returns the two words of a name that words leaves out. The name has more than 16 bytes.
func middle(name []byte) (second, before uint64) {
	return lower(binary.LittleEndian.Uint64(name[8:])), lower(binary.LittleEndian.Uint64(name[len(name)-16:]))
}

// sameMiddle compares what command.I3 requires beyond word, last and size.
func (s *indexSlot) sameMiddle(name []byte) bool {
	if second, before := middle(name); second != s.second || before != s.before {
		return false
	}
	return len(name) <= 32 || ascii.EqualFold(name, s.name)
}

// add enters row under name. It returns false if the name is taken.
func (x *index) add(name string, row *Spec) bool {
	if x.find([]byte(name)) != nil {
		return false
	}
	x.reserve(x.size + 1)
	folded := make([]byte, len(name))
	for i := range folded {
		folded[i] = ascii.Lower(name[i])
	}
	word, last := words(folded)
	s := indexSlot{word: word, last: last, size: len(folded), row: row, name: string(folded)}
	if len(folded) > 16 {
		s.second, s.before = middle(folded)
	}
	x.insert(s)
	x.size++
	return true
}

// reserve makes room for n names in all.
func (x *index) reserve(n int) {
	if 2*n <= len(x.slots) {
		return
	}
	old := x.slots
	size := 8
	for size < 2*n {
		size *= 2
	}
	x.slots, x.shift = make([]indexSlot, size), uint(64-bits.Len(uint(size-1)))
	for _, s := range old {
		if s.row != nil {
			x.insert(s)
		}
	}
}

func (x *index) insert(s indexSlot) {
	mask := uint64(len(x.slots) - 1)
	for i := x.home(s.word, s.last, s.size); ; i++ {
		if x.slots[i&mask].row == nil {
			x.slots[i&mask] = s
			return
		}
	}
}

// remove removes name. It returns false if name was not in the index. It is rare (rename-command), so it rebuilds the
// whole index.
func (x *index) remove(name string) bool {
	if x.find([]byte(name)) == nil {
		return false
	}
	old := x.slots // command.I4
	*x = index{}
	for _, s := range old {
		if s.row != nil && !ascii.EqualFold([]byte(name), s.name) {
			x.add(s.name, s.row)
		}
	}
	return true
}
