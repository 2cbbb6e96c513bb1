package listpack

import (
	"bytes"
	"encoding/binary"
	"math"
	"unsafe"

	"spindle/internal/number"
)

// The first bytes of entries with a payload after the first byte.
const (
	enc6Str  = 0x80
	enc13Int = 0xC0
	enc12Str = 0xE0
	enc32Str = 0xF0
	enc16Int = 0xF1
	enc24Int = 0xF2
	enc32Int = 0xF3
	enc64Int = 0xF4
)

// intWidth returns the length of the payload of an integer whose first byte is b, enc16Int..enc64Int.
func intWidth(b byte) int {
	if b == enc64Int {
		return 8
	}
	return int(b-enc16Int) + 2
}

// An Element is the content of an entry, read or to be written. It is a string, or an integer that stands for its
// decimal text.
//
// Lifetime: it points into the listpack (or the text it was made of) and is valid until that is edited.
//
// An Element has four words, the most that the compiler keeps in registers. With one more word, every call that takes
// or returns an Element would go through memory.
type Element struct {
	text  *byte // the string's bytes; nil for an integer
	n     int
	Int   int64
	IsInt bool
}

var _ [4 * unsafe.Sizeof(uintptr(0))]byte = [unsafe.Sizeof(Element{})]byte{}

// OfText returns text as a string element, even if text is a number.
func OfText(text []byte) Element { return Element{text: unsafe.SliceData(text), n: len(text)} }

// Bytes returns the string, without spare capacity. It returns nil for an integer.
func (e Element) Bytes() []byte { return unsafe.Slice(e.text, e.n) }

// Of returns the element that a listpack stores for text: an integer if text is one, otherwise a string (listpack.I4).
func Of(text []byte) Element {
	if n, ok := number.ParseInt(text); ok {
		return Element{Int: n, IsInt: true}
	}
	return OfText(text)
}

// OfInt returns the integer n as an element.
func OfInt(n int64) Element { return Element{Int: n, IsInt: true} }

// Get returns the element at at.
func Get(lp []byte, at int) Element {
	switch b := lp[at]; {
	case b < enc6Str:
		return OfInt(int64(b))
	case b < enc13Int:
		from, n := at+1, int(b&0x3F)
		return OfText(lp[from : from+n])
	case b < enc12Str || b > enc32Str:
		return OfInt(intAt(lp, at))
	case b < enc32Str:
		from, n := at+2, int(b&0x0F)<<8|int(lp[at+1])
		return OfText(lp[from : from+n])
	default:
		from, n := at+5, int(binary.LittleEndian.Uint32(lp[at+1:]))
		return OfText(lp[from : from+n])
	}
}

// GetNext returns the element at at and the offset of the next element, or 0 if it is the last.
func GetNext(lp []byte, at int) (e Element, next int) {
	e, next = step(lp, at)
	if lp[next] == end {
		next = 0
	}
	return e, next
}

// step returns the element at at and the offset after its entry. Most elements have one of the two short forms, so
// these are read directly.
func step(lp []byte, at int) (e Element, behind int) {
	switch b := lp[at]; {
	case b < enc6Str:
		return OfInt(int64(b)), at + 2
	case b < enc13Int:
		from, n := at+1, int(b&0x3F)
		return OfText(lp[from : from+n]), from + n + 1
	}
	return Get(lp, at), skipLong(lp, at)
}

// ShortText returns the string at at and the offset after its entry. ok is false if the entry is not a string of at
// most 63 bytes. It is for loops over many elements, most of which are short.
func ShortText(lp []byte, at int) (text []byte, behind int, ok bool) {
	b := lp[at]
	if b&^0x3F != enc6Str {
		return nil, 0, false
	}
	from := at + 1
	to := from + int(b&0x3F)
	return lp[from:to:to], to + 1, true
}

// intAt returns the integer at at. The entry's first byte must not be that of a string.
func intAt(lp []byte, at int) int64 {
	switch b := lp[at]; {
	case b < enc6Str:
		return int64(b)
	case b >= enc13Int && b < enc12Str:
		return int64(int16(uint16(b)<<11|uint16(lp[at+1])<<3) >> 3) // shifted up and down again for the sign
	case b == enc16Int:
		return int64(int16(binary.LittleEndian.Uint16(lp[at+1:])))
	case b == enc24Int:
		return int64(int32(uint32(lp[at+1])<<8|uint32(lp[at+2])<<16|uint32(lp[at+3])<<24) >> 8)
	case b == enc32Int:
		return int64(int32(binary.LittleEndian.Uint32(lp[at+1:])))
	case b == enc64Int:
		return int64(binary.LittleEndian.Uint64(lp[at+1:]))
	}
	panic("listpack: I3 is broken: a byte that opens no entry")
}

// Len returns the length of the element's text.
func (e Element) Len() int {
	if e.IsInt {
		return number.IntLen(e.Int)
	}
	return e.n
}

func (e Element) Append(dst []byte) []byte {
	if e.IsInt {
		return number.AppendInt(dst, e.Int)
	}
	return append(dst, e.Bytes()...)
}

// Text returns the element's text, without a copy if possible: a string's own bytes, or an integer written into
// scratch.
func (e Element) Text(scratch []byte) []byte {
	if e.IsInt {
		return number.AppendInt(scratch[:0], e.Int)
	}
	return e.Bytes()
}

// Integer returns the element as an integer, if its text is one.
func (e Element) Integer() (n int64, ok bool) {
	if e.IsInt {
		return e.Int, true
	}
	return number.ParseInt(e.Bytes()) // succeeds only in listpacks from outside (listpack.I4)
}

// Equal reports whether the element's text equals text.
func (e Element) Equal(text []byte) bool {
	if !e.IsInt {
		return bytes.Equal(e.Bytes(), text)
	}
	n, ok := number.ParseInt(text)
	return ok && n == e.Int
}

// EqualElement reports whether e and o have the same text.
func (e Element) EqualElement(o Element) bool {
	switch {
	case e.IsInt && o.IsInt:
		return e.Int == o.Int
	case e.IsInt:
		return e.Equal(o.Bytes())
	}
	return o.Equal(e.Bytes())
}

// Compare compares the element's text with text, byte by byte.
func (e Element) Compare(text []byte) int {
	var scratch [number.MaxIntLen]byte
	return bytes.Compare(e.Text(scratch[:]), text)
}

// Equal reports whether the text of the element at at equals text.
func Equal(lp []byte, at int, text []byte) bool { return Get(lp, at).Equal(text) }

// EncodedLen returns the length of the element's entry, backlen included.
func (e Element) EncodedLen() int {
	if e.IsInt {
		return EncodedIntLen(e.Int)
	}
	return EncodedTextLen(e.n)
}

// EncodedTextLen returns the length of the entry of a string of n bytes, backlen included.
func EncodedTextLen(n int) int {
	body := n
	switch {
	case body < 64:
		return body + 2
	case body < 4096:
		body += 2
	default:
		body += 5
	}
	return body + backlenLen(body)
}

// EncodedLen returns the length of text's entry, backlen included.
func EncodedLen(text []byte) int { return Of(text).EncodedLen() }

// EncodedIntLen returns the length of n's entry, backlen included.
func EncodedIntLen(n int64) int {
	switch {
	case n >= 0 && n <= 127:
		return 2
	case n >= -4096 && n <= 4095:
		return 3
	case n >= math.MinInt16 && n <= math.MaxInt16:
		return 4
	case n >= -1<<23 && n < 1<<23:
		return 5
	case n >= math.MinInt32 && n <= math.MaxInt32:
		return 6
	}
	return 10
}

// Put writes the element's entry at the beginning of gap and returns its length, EncodedLen.
func (e Element) Put(gap []byte) int {
	if e.IsInt {
		return PutInt(gap, e.Int)
	}
	return PutText(gap, e.Bytes())
}

// PutText writes text as a string entry at the beginning of gap and returns its length, EncodedTextLen. text must not
// be an integer.
func PutText(gap, text []byte) int {
	n := len(text)
	head := 1
	switch {
	case n < 64:
		gap[0] = enc6Str | byte(n)
	case n < 4096:
		gap[0], gap[1] = enc12Str|byte(n>>8), byte(n)
		head = 2
	default:
		gap[0] = enc32Str
		binary.LittleEndian.PutUint32(gap[1:], uint32(n))
		head = 5
	}
	copy(gap[head:head+n], text)
	return head + n + putBacklen(gap[head+n:], head+n)
}

// Put writes text's entry at the beginning of gap and returns its length, EncodedLen(text).
func Put(gap, text []byte) int { return Of(text).Put(gap) }

// PutInt writes n's entry at the beginning of gap and returns its length, EncodedIntLen(n).
func PutInt(gap []byte, n int64) int {
	size := EncodedIntLen(n)
	gap = gap[:size]
	gap[size-1] = byte(size - 1) // the backlen
	switch size {
	case 2:
		gap[0] = byte(n)
	case 3:
		gap[0], gap[1] = enc13Int|byte(n>>8)&0x1F, byte(n)
	case 4:
		gap[0] = enc16Int
		binary.LittleEndian.PutUint16(gap[1:], uint16(n))
	case 5:
		gap[0], gap[1], gap[2], gap[3] = enc24Int, byte(n), byte(n>>8), byte(n>>16)
	case 6:
		gap[0] = enc32Int
		binary.LittleEndian.PutUint32(gap[1:], uint32(n))
	default:
		gap[0] = enc64Int
		binary.LittleEndian.PutUint64(gap[1:], uint64(n))
	}
	return size
}

// putBacklen writes the backlen of body and returns its length. The backlen has seven bits a byte, the highest first.
// All bytes but the first have the top bit set, so that reading backwards ends at the first.
func putBacklen(gap []byte, body int) int {
	n := backlenLen(body)
	for i := n - 1; i > 0; i-- {
		gap[i] = byte(body) | 0x80
		body >>= 7
	}
	gap[0] = byte(body)
	return n
}
