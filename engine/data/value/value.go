// Package value is one value in place: its type, its encoding and where its bytes are.
//
// Owner: the core writes, under R1. A saver reads values of the View that it was given (R4).
// Never: allocates on the Go heap per value, or knows what a command is.
// Start here. form.go has the layout of the block that key and value share. Only entry.go writes that block into a
// database. long.go holds strings that do not fit such a block. packed.go and structure.go hold the bytes and roots of
// the other types, and edit.go changes those. DESIGN.md has the picture.
package value

import (
	"sync/atomic"
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/internal/number"
)

// A Type is a type of values, as TYPE shows it.
type Type uint8

const (
	None Type = iota
	String
	List
	Set
	ZSet
	Hash
	Stream
	Module
)

// String returns the type's name as TYPE shows it. For a key that does not exist it returns "none".
func (t Type) String() string { return typeNames[t&7] }

var typeNames = [8]string{"none", "string", "list", "set", "zset", "hash", "stream", "module"}

// An Encoding is an encoding of values, as OBJECT ENCODING shows it.
type Encoding uint8

const (
	Raw Encoding = iota // a string longer than 44 bytes, or changed in place
	Int
	EmbStr
	Listpack
	ListpackEx
	Quicklist
	IntSet
	HashTable
	SkipList
	StreamTree

	// StreamProducers is not an encoding of a value. It is noted in Encodings when a stream remembers producers'
	// message names, which few file formats can hold.
	StreamProducers
)

// String returns the encoding's name as OBJECT ENCODING shows it.
func (e Encoding) String() string { return encodingNames[e&15] }

var encodingNames = [16]string{"raw", "int", "embstr", "listpack", "listpackex", "quicklist", "intset", "hashtable",
	"skiplist", "stream",
	"?", "?", "?", "?", "?", "?"}

// Encodings is a set of encodings for each type.
type Encodings [8]uint16

// Note adds the encoding e of type t.
func (s *Encodings) Note(t Type, e Encoding) { s[t&7] |= 1 << e }

// Has reports whether the encoding e of type t is in the set.
func (s *Encodings) Has(t Type, e Encoding) bool { return s[t&7]&(1<<e) != 0 }

// Any reports whether any encoding of type t is in the set.
func (s *Encodings) Any(t Type) bool { return s[t&7] != 0 }

// MaxEmbStr is the length of the longest string that OBJECT ENCODING calls embstr.
const MaxEmbStr = 44

// A Value is an entry of a database in place. The zero Value means that there is no such key. table.Entry has the
// picture of an entry.
//
// Lifetime: until the next write to its database; from a View, until the View is closed.
type Value struct{ p unsafe.Pointer }

// At returns the value of the entry at ref, or the zero Value if ref is 0.
func At(ref memory.Ref) Value {
	if ref == 0 {
		return Value{}
	}
	return Value{memory.Pointer(ref)}
}

// Exists reports whether the key exists.
func (v Value) Exists() bool { return v.p != nil }

func (v Value) shape() uint32 { return *(*uint32)(unsafe.Add(v.p, 4)) }

// lengths returns the offset of the key, and the lengths of the key and of an inline value.
func (v Value) lengths() (key, klen, vlen int) {
	shape := v.shape()
	key = 8 + int(shape>>4&8) // bit 7 (volatile) as 8
	if shape&table.ShapeWide == 0 {
		return key, int(shape >> table.ShapeKeyLen & table.MaxNarrowKey), int(shape >> table.ShapeValueLen)
	}
	wide := *(*uint64)(unsafe.Add(v.p, 8))
	return key + 8, int(uint32(wide)), int(wide >> 32)
}

// payload returns the address of the bytes after the key.
func (v Value) payload() unsafe.Pointer {
	key, klen, _ := v.lengths()
	return unsafe.Add(v.p, key+klen)
}

// Key returns the key's bytes, in place.
func (v Value) Key() []byte { return table.EntryKey(v.p) }

// Type returns the value's type, or None for the zero Value.
func (v Value) Type() Type {
	if v.p == nil {
		return None
	}
	return Type(v.shape() & table.ShapeType)
}

// TypeName returns the name that TYPE shows: that of the type, or that of the module's type.
func (v Value) TypeName() string {
	t := v.Type()
	if t == Module && HeaderAt(v.Root()).Kind() == KindBloom {
		return BloomName
	}
	return t.String()
}

// BloomName is the type name of a Bloom filter in TYPE and in RDB. RedisBloom uses this name.
const BloomName = "MBbloom--"

// Encoding returns the value's encoding, in Redis's terms.
func (v Value) Encoding() Encoding { return Encoding(v.shape() >> table.ShapeEncoding & 15) }

// Deadline returns when the key expires, in Unix ms. 0 means never.
func (v Value) Deadline() int64 { return table.EntryDeadline(v.p) }

func (v Value) Volatile() bool { return v.shape()&table.ShapeVolatile != 0 }

// Long reports whether the value is a string stored in chunks outside its entry. A reply may send its pieces while it
// is pinned (keyspace.DB.Pin).
func (v Value) Long() bool {
	return v.shape()&(table.ShapeRooted|table.ShapeType) == table.ShapeRooted|uint32(String)
}

// Rooted reports whether the value has a block outside its entry. That is so for a long string, a long listpack or
// intset, and a structure.
func (v Value) Rooted() bool { return v.shape()&table.ShapeRooted != 0 }

// Root returns the value's block outside its entry, or 0 if the value lies inline. All roots except a string's begin
// with a Header.
func (v Value) Root() memory.Ref {
	if !v.Rooted() {
		return 0
	}
	return *(*memory.Ref)(v.payload())
}

// Len returns a string's length in bytes. For an integer it is the length of the decimal form.
func (v Value) Len() int {
	shape := v.shape()
	if shape&table.ShapeRooted != 0 {
		return int(longAt(v.Root()).length)
	}
	if Encoding(shape>>table.ShapeEncoding&15) == Int {
		n, _ := v.Int()
		return number.IntLen(n)
	}
	_, _, vlen := v.lengths()
	return vlen
}

// Int returns the value of a string stored as an integer (Encoding Int). It returns false for any other value, even if
// its text is a number.
func (v Value) Int() (int64, bool) {
	if v.Encoding() != Int {
		return 0, false
	}
	return *(*int64)(v.payload()), true
}

// Integer returns the address of a string stored as an integer, or nil for any other value. The caller may write to it
// only while no view reads the entry.
func (v Value) Integer() *int64 {
	if v.shape()&(table.ShapeType|15<<table.ShapeEncoding) != uint32(String)|uint32(Int)<<table.ShapeEncoding {
		return nil
	}
	return (*int64)(v.payload())
}

// Contiguous returns a string's bytes in place if they are one piece. It returns false for integers and strings of
// several chunks.
func (v Value) Contiguous() ([]byte, bool) {
	shape := v.shape()
	if shape&table.ShapeRooted != 0 {
		l := longAt(v.Root())
		if l.count != 1 {
			return nil, false
		}
		return l.piece(0), true
	}
	if Encoding(shape>>table.ShapeEncoding&15) == Int {
		return nil, false
	}
	key, klen, vlen := v.lengths()
	return unsafe.Slice((*byte)(unsafe.Add(v.p, key+klen)), vlen), true
}

// Bytes returns a string's content in one piece: in place if possible, otherwise written to scratch.
//
// Lifetime: that of the Value, or until scratch is used again. The caller writes to neither.
func (v Value) Bytes(scratch []byte) []byte {
	if b, ok := v.Contiguous(); ok {
		return b
	}
	return v.AppendTo(scratch[:0])
}

// AppendTo appends a string's content to dst.
func (v Value) AppendTo(dst []byte) []byte {
	if n, ok := v.Int(); ok {
		return number.AppendInt(dst, n)
	}
	if b, ok := v.Contiguous(); ok {
		return append(dst, b...)
	}
	l := longAt(v.Root())
	for i := range int(l.count) {
		dst = append(dst, l.piece(i)...)
	}
	return dst
}

// Range is Bytes for the bytes from..to-1. It requires 0 <= from <= to <= Len.
func (v Value) Range(from, to int, scratch []byte) []byte {
	if b, ok := v.Contiguous(); ok {
		return b[from:to]
	}
	if n, ok := v.Int(); ok {
		return number.AppendInt(scratch[:0], n)[from:to]
	}
	l := longAt(v.Root())
	if from>>chunkShift == (to-1)>>chunkShift && from < to {
		return l.piece(from >> chunkShift)[from&(ChunkSize-1):][:to-from]
	}
	dst := scratch[:0]
	for from < to {
		p := l.piece(from >> chunkShift)[from&(ChunkSize-1):]
		p = p[:min(len(p), to-from)]
		dst = append(dst, p...)
		from += len(p)
	}
	return dst
}

// Chunks yields a string's content in order, in the pieces in which it is stored, until yield returns false. An integer
// is one piece, valid until yield returns.
func (v Value) Chunks(yield func([]byte) bool) {
	if b, ok := v.Contiguous(); ok {
		yield(b)
		return
	}
	if n, ok := v.Int(); ok {
		var text [20]byte
		yield(number.AppendInt(text[:0], n))
		return
	}
	l := longAt(v.Root())
	for i := range int(l.count) {
		if !yield(l.piece(i)) {
			return
		}
	}
}

// Clock returns the 24-bit LRU clock or LFU counter. A frozen entry's clock also shows the present state (table.N1).
func (v Value) Clock() uint32 { return atomic.LoadUint32((*uint32)(v.p)) & clockMask }

const clockMask = 1<<sizeShift - 1

// SetClock writes the clock, in a turn. It also writes to frozen entries, whose savers read the present clock
// (table.N1).
func (v Value) SetClock(clock uint32) {
	c := (*uint32)(v.p)
	if word := *c&^clockMask | clock; *c != word {
		atomic.StoreUint32(c, word)
	}
}

// indexShare is about how many bytes a key costs in its table.
const indexShare = 12
