package table

import (
	"hash/maphash"
	"unsafe"

	"spindle/engine/data/memory"
)

// A Layout describes where a table's blocks hold their keys, so that the table can compare and rehash them.
type Layout uint8

const (
	// Entry is a key of a database and its value in one block; package value writes it.
	//
	//	0             4             8         8 or 16     8..24     +key
	//	+-------------+-------------+---------+-----------+---------+----------------+
	//	| clock  u32  | shape  u32  | wide    | deadline  | key     | payload        |
	//	+-------------+-------------+---------+-----------+---------+----------------+
	//	  24 bits of LRU or LFU,      u32 klen  i64 Unix ms           inline bytes, or
	//	  8 of size class             u32 vlen  if volatile           i64 integer, or
	//	                              if wide                         u64 Ref of a root
	//
	//	shape: bits 0-2 type, 3-6 encoding, 7 volatile, 8 rooted, 9 wide, 10-17 klen, 18-31 vlen
	//
	// table.N1. clock is the only word that is written in a frozen block. Everything else obeys the epoch rule.
	// table.N2. wide is set when klen > 255 or vlen > 16383. Then the lengths in shape are 0, and the lengths in the
	// wide word are valid.
	Entry Layout = iota
	// Member is a member of a set. Scored is a member of a sorted set with its score. Field is a hash's field with its
	// value and perhaps a deadline. member.go has their picture.
	Member
	Scored
	Field
	// Tracked is a key and the clients that have read it. Package tracked writes it, and tracked.go has its picture.
	Tracked
)

// The shape word of an Entry.
const (
	ShapeType      = 7 // mask
	ShapeEncoding  = 3 // shift, 4 bits
	ShapeVolatile  = 1 << 7
	ShapeRooted    = 1 << 8
	ShapeWide      = 1 << 9
	ShapeKeyLen    = 10 // shift, 8 bits
	ShapeValueLen  = 18 // shift, 14 bits
	MaxNarrowKey   = 1<<8 - 1
	MaxNarrowValue = 1<<14 - 1
)

// EntryKey returns the key of the entry at p.
func EntryKey(p unsafe.Pointer) []byte {
	shape := *(*uint32)(unsafe.Add(p, 4))
	off, n := 8+int(shape>>4&8), int(shape>>ShapeKeyLen&MaxNarrowKey) // bit 7 (volatile) as 8
	if shape&ShapeWide != 0 {
		off, n = off+8, int(*(*uint32)(unsafe.Add(p, 8)))
	}
	return unsafe.Slice((*byte)(unsafe.Add(p, off)), n)
}

// EntryDeadline returns the deadline of the entry at p, or 0 if it has none.
func EntryDeadline(p unsafe.Pointer) int64 {
	shape := *(*uint32)(unsafe.Add(p, 4))
	if shape&ShapeVolatile == 0 {
		return 0
	}
	return *(*int64)(unsafe.Add(p, 8+shape>>6&8)) // bit 9, wide, as 8
}

// key returns the key of the block at ref.
func (t *Table) key(ref memory.Ref) []byte {
	p := memory.Pointer(ref)
	if t.layout == Entry {
		return EntryKey(p)
	}
	return nestedKey(t.layout, p)
}

// holds reports whether the block at ref has this key.
func (t *Table) holds(ref memory.Ref, key []byte) bool {
	p := memory.Pointer(ref)
	if t.layout != Entry {
		return string(t.key(ref)) == string(key)
	}
	shape := *(*uint32)(unsafe.Add(p, 4))
	if shape&ShapeWide != 0 {
		return string(EntryKey(p)) == string(key)
	}
	return int(shape>>ShapeKeyLen&MaxNarrowKey) == len(key) &&
		unsafe.String((*byte)(unsafe.Add(p, 8+shape>>4&8)), len(key)) == unsafe.String(unsafe.SliceData(key), len(key))
}

var seed = maphash.MakeSeed()

// Hash returns a key's hash for every table of this process. The seed differs from process to process.
//
//	bits 63..24  path: chooses the segment, from the top down (at most 40 levels)
//	bits 30..24  fingerprint, overlaps the path's deepest bits
//	bits 23..8   tag: chooses the home bucket and is kept in the slot
func Hash(key []byte) uint64 { return maphash.Bytes(seed, key) }
