package value

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"spindle/engine/data/intset"
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
)

// A SizeClass is a range of sizes between two powers of two. Class 0 means that the key is not counted. Class 1 means
// size 0. Class n+2 means at least 2^n and below 2^(n+1).
type SizeClass uint8

// SizeClasses is the number of classes.
const SizeClasses = 64

// ClassOf returns the class of a size.
func ClassOf(size uint64) SizeClass { return SizeClass(bits.Len64(size)+1) & (SizeClasses - 1) }

// Least returns the least size in the class.
func (c SizeClass) Least() uint64 {
	if c < 2 {
		return 0
	}
	return 1 << (c - 2)
}

// Sizes counts keys by type and size class.
type Sizes [Hash + 1][SizeClasses]int64

// SizeOf returns the class of v's present size: a string's length, or the number of a collection's elements. It returns
// 0 for a type that is not counted.
func (s *Store) SizeOf(v Value) SizeClass {
	shape := v.shape()
	t, enc := Type(shape&table.ShapeType), Encoding(shape>>table.ShapeEncoding&15)
	switch {
	case t == String:
		return ClassOf(uint64(v.Len()))
	case t > Hash:
		return 0
	case shape&table.ShapeRooted == 0:
		return ClassOf(s.packedLen(v.payload(), t, enc))
	}
	root := memory.Pointer(v.Root())
	kind := (*Header)(root).Kind()
	if kind == KindPacked {
		return ClassOf(s.packedLen(unsafe.Add(root, packedHeader), t, enc))
	}
	at := s.kinds[kind].LenAt
	if at == 0 {
		return 0
	}
	return ClassOf(*(*uint64)(unsafe.Add(root, at)))
}

// packedLen returns how many elements the listpack or intset at p has.
func (s *Store) packedLen(p unsafe.Pointer, t Type, enc Encoding) uint64 {
	if enc == IntSet {
		return uint64(intset.Len(unsafe.Slice((*byte)(p), intset.HeaderLen)))
	}
	n, known := listpack.KnownCount((*[listpack.HeaderLen]byte)(p))
	if !known {
		n = s.CountMany(unsafe.Slice((*byte)(p), *(*uint32)(p)))
	}
	switch {
	case enc == ListpackEx:
		n /= 3
	case t == Hash || t == ZSet:
		n /= 2
	}
	return uint64(n)
}

// add adds n to the number of keys of a class. It does nothing for class 0.
func (s *Keys) add(t Type, c SizeClass, n int64) {
	if c == 0 {
		return
	}
	if s.sizes == nil {
		s.sizes = new(Sizes)
	}
	s.sizes[t][c] += n
}

// Sizes returns the counts, or nil if nothing has been counted yet.
func (s *Keys) Sizes() *Sizes { return s.sizes }

// Count counts a key that Add has added and whose entry has this size class.
func (s *Keys) Count(t Type, c SizeClass) { s.add(t, c, 1) }

// Resize gives v, a key of s, another size class, and counts v in the new class (value.E8).
func (s *Keys) Resize(v Value, c SizeClass) {
	t := v.Type()
	s.add(t, v.SizeClass(), -1)
	s.add(t, c, 1)
	v.SetSizeClass(c)
}

// The size class is the top byte of the clock's word.
const sizeShift = 24

// SizeClass returns the class under which the key is counted.
func (v Value) SizeClass() SizeClass { return SizeClass(v.word() >> sizeShift) }

// SetSizeClass writes the class; see Keys.Resize. Like the clock, it is also written to frozen entries, whose readers
// do not use it (table.N1).
func (v Value) SetSizeClass(c SizeClass) {
	word := (*uint32)(v.p)
	atomic.StoreUint32(word, *word&clockMask|uint32(c)<<sizeShift)
}

// word returns the word that has the clock and the size class.
func (v Value) word() uint32 { return *(*uint32)(unsafe.Pointer(v.p)) }
