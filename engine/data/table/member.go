package table

import (
	"encoding/binary"
	"math"
	"unsafe"

	"spindle/engine/data/memory"
)

// The blocks of nested tables hold one element of a collection each. They are as small as possible, without header or
// epoch.
//
//	Member  | len | member                            |     14 bytes of member: a block of 16
//	Scored  | score f64 | len | member                |     14 bytes of member: a block of 24
//	Field   | len | field | len | value               |     14 + 14 bytes: a block of 32
//	        | 0xFE | deadline i64 | len | field | len | value |
//
//	len: one byte up to 0xFD, or 0xFF and a u32; numbers are little-endian and, after a len, not aligned
//
// table.M1. A block has no epoch. It is edited in place only where Table.Edit allows it (table.S4), otherwise replaced.
// table.M2. A deadline of 0 is not stored. Both a field's block and its slot show whether the field has a deadline.
const (
	lenVolatile = 0xFE // replaces a field's len: a deadline comes first
	lenWide     = 0xFF
	maxNarrow   = 0xFD

	scoredLen = 8 // offset of a scored member's len
	fieldLen  = 9 // offset of a volatile field's len
)

// lenBytes returns how many bytes the len field for n bytes takes.
func lenBytes(n int) int {
	if n <= maxNarrow {
		return 1
	}
	return 5
}

// putBytes writes a len field and v to the beginning of b and returns the rest of b.
func putBytes(b, v []byte) []byte {
	n := 1
	if len(v) <= maxNarrow {
		b[0] = byte(len(v))
	} else {
		b[0] = lenWide
		binary.LittleEndian.PutUint32(b[1:], uint32(len(v)))
		n = 5
	}
	return b[n+copy(b[n:], v):]
}

// lenOf reads the len field at p. own is the number of bytes of the len field itself, and n the number of bytes that
// follow.
func lenOf(p unsafe.Pointer) (own, n int) {
	if n := *(*byte)(p); n <= maxNarrow {
		return 1, int(n)
	}
	return 5, int(binary.LittleEndian.Uint32(unsafe.Slice((*byte)(p), 5)[1:]))
}

// lenAt returns the bytes after the len field at p. If there are none, it forms no pointer past the block.
func lenAt(p unsafe.Pointer) []byte {
	own, n := lenOf(p)
	return unsafe.Slice((*byte)(p), own+n)[own:]
}

// nestedKey returns the key of the block at p.
func nestedKey(layout Layout, p unsafe.Pointer) []byte {
	switch layout {
	case Scored:
		p = unsafe.Add(p, scoredLen)
	case Field:
		p = fieldAt(p)
	case Tracked:
		return TrackedKey(p)
	}
	return lenAt(p)
}

// NewMember returns a new block of h for a member of a set.
func NewMember(h *memory.Heap, key []byte) memory.Ref {
	n := lenBytes(len(key)) + len(key)
	ref := h.Alloc(n, memory.Values)
	putBytes(memory.Bytes(ref, n), key)
	return ref
}

// MemberKey returns the member in a Member block, in place.
func MemberKey(ref memory.Ref) []byte { return lenAt(memory.Pointer(ref)) }

// NewScored returns a new block of h for a member of a sorted set.
func NewScored(h *memory.Heap, key []byte, score float64) memory.Ref {
	n := scoredLen + lenBytes(len(key)) + len(key)
	ref := h.Alloc(n, memory.Values)
	SetScore(ref, score)
	putBytes(memory.Bytes(ref, n)[scoredLen:], key)
	return ref
}

// ScoredKey returns the member in a Scored block, in place.
func ScoredKey(ref memory.Ref) []byte { return lenAt(unsafe.Add(memory.Pointer(ref), scoredLen)) }

// Score returns the score in a Scored block.
func Score(ref memory.Ref) float64 { return math.Float64frombits(*memory.Word(ref)) }

// SetScore changes the score in a Scored block (table.M1).
func SetScore(ref memory.Ref, score float64) { *memory.Word(ref) = math.Float64bits(score) }

// fieldSize returns the bytes that a Field block needs. The allocated block may be larger.
func fieldSize(field, val int, volatile bool) int {
	n := lenBytes(field) + field + lenBytes(val) + val
	if volatile {
		n += fieldLen
	}
	return n
}

// NewField returns a new block of h for a field of a hash. deadline is in Unix ms, 0 for none.
func NewField(h *memory.Heap, field, val []byte, deadline int64) memory.Ref {
	n := fieldSize(len(field), len(val), deadline != 0)
	ref := h.Alloc(n, memory.Values)
	b := memory.Bytes(ref, n)
	if deadline != 0 {
		b[0] = lenVolatile
		binary.LittleEndian.PutUint64(b[1:], uint64(deadline))
		b = b[fieldLen:]
	}
	putBytes(putBytes(b, field), val)
	return ref
}

// fieldAt returns the address of the len of the field's name.
func fieldAt(p unsafe.Pointer) unsafe.Pointer {
	if *(*byte)(p) == lenVolatile {
		return unsafe.Add(p, fieldLen)
	}
	return p
}

// FieldKey returns the field's name in a Field block, in place.
func FieldKey(ref memory.Ref) []byte { return lenAt(fieldAt(memory.Pointer(ref))) }

// FieldValue returns the field's value in a Field block, in place.
func FieldValue(ref memory.Ref) []byte { return lenAt(valueAt(memory.Pointer(ref))) }

// valueAt returns the address of the len of a field's value.
func valueAt(p unsafe.Pointer) unsafe.Pointer {
	p = fieldAt(p)
	own, n := lenOf(p)
	return unsafe.Add(p, own+n)
}

// FieldDeadline returns the deadline in a Field block, in Unix ms, or 0 if it has none.
func FieldDeadline(ref memory.Ref) int64 {
	p := memory.Pointer(ref)
	if *(*byte)(p) != lenVolatile {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(unsafe.Slice((*byte)(unsafe.Add(p, 1)), 8)))
}

// OverwriteValue gives the field at ref another value in place (table.M1). It returns false if a new block would have
// another size. val must not lie in the block.
func OverwriteValue(ref memory.Ref, val []byte) bool {
	p := memory.Pointer(ref)
	at := int(uintptr(valueAt(p)) - uintptr(p))
	if memory.GoodSize(at+lenBytes(len(val))+len(val)) != memory.UsableSize(ref) {
		return false
	}
	putBytes(memory.Bytes(ref, memory.UsableSize(ref))[at:], val)
	return true
}

// OverwriteDeadline gives the volatile field at ref another deadline in place (table.M1).
func OverwriteDeadline(ref memory.Ref, ms int64) {
	binary.LittleEndian.PutUint64(memory.Bytes(ref, fieldLen)[1:], uint64(ms))
}
