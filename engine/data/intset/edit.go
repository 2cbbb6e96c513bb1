package intset

import (
	"encoding/binary"

	"spindle/internal/invariant"
)

// A Splice is a planned edit: Ins bytes replace Del bytes at offset Off. After the edit, the set has Width and Len.
// This package plans it. The owner of the bytes makes the gap, in place or in a new block. Put writes the integer.
//
// With Widen, all bytes are rewritten instead of shifted. Upgrade does that, into a block of Bytes()+Grow() bytes.
type Splice struct {
	Off, Del, Ins int
	Width, Len    int
	Widen         bool
}

func AppendEmpty(dst []byte) []byte { return append(dst, 2, 0, 0, 0, 0, 0, 0, 0) }

// Insert plans the insertion of n. ok is false if the set already contains n.
func Insert(set []byte, n int64) (s Splice, ok bool) {
	width, length := Width(set), Len(set)
	if need := widthOf(n); need > width {
		// n is beyond one end, because every other integer fits the old width.
		s = Splice{Off: HeaderLen, Del: width * length, Ins: need * (length + 1), Width: need, Len: length + 1, Widen: true}
		return s, true
	}
	index, found := Find(set, n)
	if found {
		return Splice{}, false
	}
	return Splice{Off: HeaderLen + index*width, Ins: width, Width: width, Len: length + 1}, true
}

// RemoveAt plans the removal of count integers, the first at index.
func RemoveAt(set []byte, index, count int) Splice {
	width := Width(set)
	return Splice{Off: HeaderLen + index*width, Del: count * width, Width: width, Len: Len(set) - count}
}

// Grow returns the number of bytes by which the intset becomes longer. It is negative if the intset becomes shorter.
func (s Splice) Grow() int { return s.Ins - s.Del }

// Open makes the gap in place and sets the header. It is not for Widen. set must have room for the longer of the old
// and the new intset.
func (s Splice) Open(set []byte) {
	copy(set[s.Off+s.Ins:], set[s.Off+s.Del:Bytes(set)])
	s.Finish(set)
}

// Finish sets the header, for an owner that has moved the bytes itself. It is not for Widen.
func (s Splice) Finish(set []byte) {
	invariant.That(!s.Widen, "intset: a wider set is made by Upgrade")
	setHeader(set, s.Width, s.Len)
}

// Put writes the planned integer n into the gap. It is not for Widen.
func (s Splice) Put(set []byte, n int64) { put(set, s.Width, (s.Off-HeaderLen)/s.Width, n) }

// Upgrade writes to dst all integers of set and n, in the width of s, a Splice with Widen. dst must not overlap set,
// unless both begin at the same byte. In that case the integers are widened in place, from the last to the first.
func (s Splice) Upgrade(dst, set []byte, n int64) {
	old, length := Width(set), Len(set)
	front := 0 // 1 if n comes first: it is less than all others, or greater
	if n < 0 {
		front = 1
	}
	for i := length - 1; i >= 0; i-- {
		put(dst, s.Width, front+i, get(set, old, i))
	}
	if n < 0 {
		put(dst, s.Width, 0, n)
	} else {
		put(dst, s.Width, length, n)
	}
	setHeader(dst, s.Width, s.Len)
}

func setHeader(set []byte, width, length int) {
	invariant.That(length >= 0 && (width == 2 || width == 4 || width == 8),
		"intset.I1, intset.I3: %d integers of %d bytes", length, width)
	binary.LittleEndian.PutUint32(set, uint32(width))
	binary.LittleEndian.PutUint32(set[4:], uint32(length))
}

// Add inserts n into set and grows it as append does. set must end where the intset ends.
func Add(set []byte, n int64) (longer []byte, added bool) {
	s, ok := Insert(set, n)
	if !ok {
		return set, false
	}
	size := Bytes(set) + s.Grow()
	if grow := size - len(set); grow > 0 {
		set = append(set, make([]byte, grow)...)
	}
	if s.Widen {
		s.Upgrade(set, set, n)
	} else {
		s.Open(set)
		s.Put(set, n)
	}
	return set[:size], true
}
