package intset

import (
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"math/bits"
)

// An intset is a set of integers, sorted and all of one width.
//
//	0         4         8         8+width
//	+---------+---------+---------+---------+-- ~ --+
//	| width   | length  | least   | next    |       |   width: 2, 4 or 8 bytes
//	+---------+---------+---------+---------+-- ~ --+   integers: little endian, two's complement
//	  u32 LE    u32 LE
//
// intset.I1. length is the number of integers. The intset has HeaderLen + width*length bytes.
// intset.I2. The integers ascend; no two are equal.
// intset.I3. width is 2, 4 or 8. It is the least width for all integers that the set has ever had: a removal does not
// shrink it.
//
// Validate checks intset.I1, intset.I2 and that width is one of the three. RDB and DUMP store these bytes unchanged, so
// a change here is a change of file format. Source: the intset in RDB files.
//
// Every function takes a slice that begins with the intset and may be longer.
const HeaderLen = 8

// The errors of Validate.
var (
	ErrWidth = errors.New("intset: the width is not 2, 4 or 8")
	ErrSize  = errors.New("intset: the length in the header is not that of the bytes")
	ErrOrder = errors.New("intset: the integers do not ascend")
)

// Width returns the length of each integer in bytes.
func Width(set []byte) int { return int(binary.LittleEndian.Uint32(set)) }

// Len returns the number of integers.
func Len(set []byte) int { return int(binary.LittleEndian.Uint32(set[4:])) }

// Bytes returns the length of the whole intset.
func Bytes(set []byte) int { return HeaderLen + Width(set)*Len(set) }

// widthOf returns the least width that holds n.
func widthOf(n int64) int {
	switch {
	case n >= math.MinInt16 && n <= math.MaxInt16:
		return 2
	case n >= math.MinInt32 && n <= math.MaxInt32:
		return 4
	}
	return 8
}

// Get returns the integer at index; index 0 is the least.
func Get(set []byte, index int) int64 { return get(set, Width(set), index) }

func get(set []byte, width, index int) int64 {
	at := HeaderLen + index*width
	switch width {
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(set[at:])))
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(set[at:])))
	default:
		return int64(binary.LittleEndian.Uint64(set[at:]))
	}
}

func put(set []byte, width, index int, n int64) {
	at := HeaderLen + index*width
	switch width {
	case 2:
		binary.LittleEndian.PutUint16(set[at:], uint16(n))
	case 4:
		binary.LittleEndian.PutUint32(set[at:], uint32(n))
	default:
		binary.LittleEndian.PutUint64(set[at:], uint64(n))
	}
}

// Min returns the least integer. The set must not be empty.
func Min(set []byte) int64 { return Get(set, 0) }

// Max returns the greatest integer. The set must not be empty.
func Max(set []byte) int64 { return Get(set, Len(set)-1) }

// Find returns the index of n. If n is not in the set, it returns the index at which n would be inserted.
func Find(set []byte, n int64) (index int, found bool) {
	width, length := Width(set), Len(set)
	// Inserts in ascending order go beyond an end, where two compares are enough.
	if length == 0 || n < get(set, width, 0) {
		return 0, false
	}
	if n > get(set, width, length-1) {
		return length, false
	}
	low, high := 0, length-1 // the wanted index is in low..high
	for low < high {
		mid := int(uint(low+high) >> 1)
		if get(set, width, mid) < n {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, get(set, width, low) == n
}

// Contains reports whether n is in the set.
func Contains(set []byte, n int64) bool {
	_, found := Find(set, n)
	return found
}

// Random returns the integer that draw, 64 random bits, selects. The set must not be empty.
func Random(set []byte, draw uint64) int64 {
	index, _ := bits.Mul64(draw, uint64(Len(set)))
	return Get(set, int(index))
}

// All yields the integers in ascending order, with their index.
func All(set []byte) iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		width := Width(set)
		for i := range Len(set) {
			if !yield(i, get(set, width, i)) {
				return
			}
		}
	}
}

// Validate checks that all of set is one intset: intset.I1 and intset.I3. With deep it also checks intset.I2. It
// accepts an empty set; the caller decides whether a key may hold one.
func Validate(set []byte, deep bool) error {
	if len(set) < HeaderLen {
		return ErrSize
	}
	width, length := uint64(binary.LittleEndian.Uint32(set)), uint64(binary.LittleEndian.Uint32(set[4:]))
	if width != 2 && width != 4 && width != 8 {
		return ErrWidth
	}
	if uint64(len(set)) != HeaderLen+width*length {
		return ErrSize
	}
	if !deep {
		return nil
	}
	for i := 1; i < int(length); i++ {
		if get(set, int(width), i-1) >= get(set, int(width), i) {
			return ErrOrder
		}
	}
	return nil
}
