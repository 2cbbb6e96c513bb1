package value

import (
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/internal/invariant"
	"spindle/internal/number"
)

// A Form determines an entry's shape and size.
type Form struct {
	Type     Type
	Encoding Encoding
	Rooted   bool
	Volatile bool
	KeyLen   int
	Inline   int // length of an inline string, listpack or intset; 0 for integers and rooted values
}

// wide reports whether the lengths do not fit the shape word (table.N2).
func (f *Form) wide() bool { return f.KeyLen > table.MaxNarrowKey || f.Inline > table.MaxNarrowValue }

// Size returns the bytes of the entry.
func (f *Form) Size() int {
	n := 8 + f.KeyLen + f.Inline
	if f.Rooted || f.Encoding == Int && f.Type == String {
		n += 8
	}
	if f.Volatile {
		n += 8
	}
	if f.wide() {
		n += 8
	}
	return n
}

// Cost returns the bytes that the entry costs with its share of the index, without its root (Store.MemoryUsage).
func (f *Form) Cost() int { return memory.GoodSize(f.Size()) + indexShare }

// shape returns the entry's second word.
func (f *Form) shape() uint32 {
	s := uint32(f.Type) | uint32(f.Encoding)<<table.ShapeEncoding
	if f.Volatile {
		s |= table.ShapeVolatile
	}
	if f.Rooted {
		s |= table.ShapeRooted
	}
	if f.wide() {
		return s | table.ShapeWide
	}
	return s | uint32(f.KeyLen)<<table.ShapeKeyLen | uint32(f.Inline)<<table.ShapeValueLen
}

// FormOf returns the form of an existing entry.
func FormOf(v Value) Form {
	shape := v.shape()
	_, klen, vlen := v.lengths()
	return Form{
		Type: Type(shape & table.ShapeType), Encoding: Encoding(shape >> table.ShapeEncoding & 15),
		Rooted: shape&table.ShapeRooted != 0, Volatile: shape&table.ShapeVolatile != 0, KeyLen: klen, Inline: vlen,
	}
}

// Size returns the bytes of the entry.
func (v Value) Size() int {
	at, klen, vlen := v.lengths()
	n := at + klen + vlen
	if shape := v.shape(); shape&table.ShapeRooted != 0 || v.Encoding() == Int && v.Type() == String {
		n += 8
	}
	if invariant.Enabled {
		if f := FormOf(v); n != f.Size() { // invariant.That in the condition would allocate its arguments each time
			invariant.That(false, "an entry of %d bytes, of the form %+v", n, f)
		}
	}
	return n
}

// fitsInline reports whether n bytes of value fit in the entry.
func fitsInline(klen, n int) bool { return klen+n <= MaxInline }

// MaxInline is the most bytes of key and value that an entry can hold. A longer value gets other blocks.
const MaxInline = memory.MaxSmall - 24

// OfText is OfString for val. But if val is an integer in canonical form, it makes f the form of an integer and returns
// the integer n.
func (f *Form) OfText(klen int, val []byte, volatile bool) (n int64) {
	if n, ok := number.ParseInt(val); ok {
		*f = IntForm(klen, volatile)
		return n
	}
	f.OfString(klen, len(val), volatile)
	return 0
}

// IntForm returns the form of a string stored as an integer.
func IntForm(klen int, volatile bool) Form {
	return Form{Type: String, Encoding: Int, Volatile: volatile, KeyLen: klen}
}

// OfString makes f the form of a string of n bytes as SET stores it. It writes f in place, because a load calls it
// often. Copying a struct that was just written byte by byte would wait for all earlier stores.
func (f *Form) OfString(klen, n int, volatile bool) {
	f.Type, f.Encoding, f.Rooted, f.Volatile, f.KeyLen, f.Inline = String, Raw, false, volatile, klen, n
	if n <= MaxEmbStr {
		f.Encoding = EmbStr
	}
	if !fitsInline(klen, n) {
		f.Rooted, f.Inline = true, 0
	}
}

// header writes the words before the key of an entry at p, except its clock, and returns the offset of the key.
func (f *Form) header(p unsafe.Pointer, deadline int64) (key int) {
	*(*uint32)(unsafe.Add(p, 4)) = f.shape()
	key = 8
	if f.wide() {
		*(*uint64)(unsafe.Add(p, key)) = uint64(f.KeyLen) | uint64(f.Inline)<<32
		key += 8
	}
	if f.Volatile {
		*(*int64)(unsafe.Add(p, key)) = deadline
		key += 8
	}
	return key
}

// reshape gives an unshared entry the form f, with the same key, in place. It returns the address of the payload. If
// the key has to move, the first carry bytes of the payload move along. The block must have room.
func (v Value) reshape(f *Form, deadline int64, carry int) (payload unsafe.Pointer) {
	if f.Volatile != v.Volatile() { // done first, because the deadline is stored where the key was
		from, _, _ := v.lengths()
		to := from + 8
		if v.Volatile() {
			to = from - 8
		}
		n := f.KeyLen + carry
		copy(PayloadBytes(unsafe.Add(v.p, to), n), PayloadBytes(unsafe.Add(v.p, from), n))
	}
	return unsafe.Add(v.p, f.header(v.p, deadline)+f.KeyLen)
}

// PayloadSize returns the number of bytes after the key: the length of an inline value, or 8.
func (v Value) PayloadSize() int {
	f := FormOf(v)
	if f.Rooted || f.Encoding == Int && f.Type == String {
		return 8
	}
	return f.Inline
}

// copyPayload copies the first n bytes of the payload to dst.
func (v Value) copyPayload(dst unsafe.Pointer, n int) {
	copy(PayloadBytes(dst, n), PayloadBytes(v.payload(), n))
}

// OverwriteDeadline changes the deadline of an unshared volatile entry.
func (v Value) OverwriteDeadline(ms int64) {
	at := 8 + v.shape()>>6&8 // bit 9 (wide) as 8
	*(*int64)(unsafe.Add(v.p, at)) = ms
}

// SetRoot changes the root of an unshared rooted entry.
func (v Value) SetRoot(root memory.Ref) { *(*memory.Ref)(v.payload()) = root }

// PayloadBytes returns the n bytes at an entry's payload, for the caller to write.
func PayloadBytes(payload unsafe.Pointer, n int) []byte {
	return unsafe.Slice((*byte)(payload), n)
}

// Fill writes an entry's payload: inline if the form stores it inline, otherwise word, which is an integer or a root.
func (f *Form) Fill(payload unsafe.Pointer, word memory.Ref, inline []byte) {
	if f.Inline > 0 {
		copy(PayloadBytes(payload, len(inline)), inline)
	} else if f.Rooted || f.Encoding == Int {
		*(*memory.Ref)(payload) = word
	}
}
