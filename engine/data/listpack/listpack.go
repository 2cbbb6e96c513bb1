package listpack

import "encoding/binary"

// A listpack is a short list of strings and integers in one run of bytes, walkable both ways.
//
//	0         4        6                                bytes-1
//	+---------+--------+---------+---------+-- ~ --+------+
//	| bytes   | count  | entry 0 | entry 1 |       | 0xFF |   entry   = encoding, payload, backlen
//	+---------+--------+---------+---------+-- ~ --+------+   backlen = 1..5 bytes: the length of
//	  u32 LE    u16 LE                                        encoding+payload, read backwards
//
// The first byte of an entry is its encoding (x: payload, l: length; integers are little endian, two's complement):
//
//	0xxxxxxx  integer 0..127                     11110001 16 bits   integer of 16 bits
//	10llllll  string of 0..63 bytes              11110010 24 bits   integer of 24 bits
//	110xxxxx xxxxxxxx  integer of 13 bits        11110011 32 bits   integer of 32 bits
//	1110llll llllllll  string of 0..4095 bytes   11110100 64 bits   integer of 64 bits
//	11110000 u32 LE    string of any length      11111111           the end
//
// listpack.I1. bytes is the length of the whole listpack, including the header and 0xFF.
// listpack.I2. count is the number of entries, or 0xFFFF if only a walk can find it out.
// listpack.I3. Stepping over an entry and reading its backlen leads back to the same entry.
// listpack.I4. A text that is the canonical decimal of an int64 is written as an integer, and each element in its
// shortest encoding. So equal lists are equal bytes. Only our writes promise this: listpacks from outside may differ,
// and are still read correctly.
//
// Validate checks listpack.I1..listpack.I3. RDB and DUMP store these bytes unchanged, so a change here is a change of
// file format.
// Source: the listpack specification.
//
// An element is named by the offset of its entry. Offset 0 is in the header, so it means no element. Every function
// takes a slice that begins with the listpack and may be longer.
const (
	HeaderLen = 6
	EmptyLen  = HeaderLen + 1 // the header and the end

	// MaxBytes limits the size to which we let a listpack grow. The format's own limit is 2^32-1, because the field
	// bytes of the header has 32 bits.
	MaxBytes = 1 << 30

	// MaxOverhead is the greatest number of bytes that an entry needs in addition to its text.
	MaxOverhead = 5 + 5

	countUnknown = 0xFFFF
	end          = 0xFF
)

// AppendEmpty appends an empty listpack to dst.
func AppendEmpty(dst []byte) []byte { return append(dst, EmptyLen, 0, 0, 0, 0, 0, end) }

// Bytes returns the length of the whole listpack.
func Bytes(lp []byte) int { return int(binary.LittleEndian.Uint32(lp)) }

// End returns the offset after the last entry, where an append inserts.
func End(lp []byte) int { return Bytes(lp) - 1 }

// Entries returns the bytes of all entries, without header and end.
func Entries(lp []byte) []byte { return lp[HeaderLen:End(lp)] }

// Count returns the number of elements. Cost: a walk of the listpack if it has ever had 65535 elements or more.
func Count(lp []byte) int {
	if n := headerCount(lp); n != countUnknown {
		return n
	}
	return CountRange(lp, HeaderLen, End(lp))
}

// KnownCount returns Count of the listpack with this header. known is false if only a walk can find it out.
func KnownCount(header *[HeaderLen]byte) (n int, known bool) {
	n = headerCount(header[:])
	return n, n != countUnknown
}

// CountRange returns the number of elements from offset from up to offset to.
func CountRange(lp []byte, from, to int) (n int) {
	for ; from < to; from = skip(lp, from) {
		n++
	}
	return n
}

func headerCount(lp []byte) int { return int(binary.LittleEndian.Uint16(lp[4:])) }

// First returns the offset of the first element, or 0 if there is none.
func First(lp []byte) int {
	if lp[HeaderLen] == end {
		return 0
	}
	return HeaderLen
}

// Last returns the offset of the last element, or 0 if there is none.
func Last(lp []byte) int { return Prev(lp, End(lp)) }

// Next returns the offset of the element after the one at at, or 0 at the end.
func Next(lp []byte, at int) int {
	at = skip(lp, at)
	if lp[at] == end {
		return 0
	}
	return at
}

// Prev returns the offset of the element before the one at at (or before End), or 0 at the beginning.
func Prev(lp []byte, at int) int {
	if at <= HeaderLen {
		return 0
	}
	body := int(lp[at-1])
	if body < 0x80 {
		return at - 1 - body
	}
	body &= 0x7F
	for shift, i := 7, at-2; ; shift, i = shift+7, i-1 {
		body |= int(lp[i]&0x7F) << shift
		if lp[i] < 0x80 || shift >= 28 {
			break
		}
	}
	return at - backlenLen(body) - body
}

// Seek returns the offset of the element at index, or 0 if there is none. A negative index counts from the end. Cost: a
// walk from the nearer end.
func Seek(lp []byte, index int) int {
	n := headerCount(lp)
	if n == countUnknown {
		// Without a count, the sign of index decides from which end to walk.
		if index < 0 {
			return stepBack(lp, Last(lp), -1-index)
		}
		return stepOn(lp, First(lp), index)
	}
	if index < 0 {
		index += n
	}
	switch {
	case index < 0 || index >= n:
		return 0
	case index > n/2:
		return stepBack(lp, Last(lp), n-1-index)
	}
	return stepOn(lp, First(lp), index)
}

func stepOn(lp []byte, at, steps int) int {
	for ; steps > 0 && at != 0; steps-- {
		at = Next(lp, at)
	}
	return at
}

func stepBack(lp []byte, at, steps int) int {
	for ; steps > 0 && at != 0; steps-- {
		at = Prev(lp, at)
	}
	return at
}

// skip returns the offset after the entry at at.
func skip(lp []byte, at int) int {
	if b := lp[at]; b < enc13Int {
		return at + shortLen(b)
	}
	return skipLong(lp, at)
}

// shortLen returns the length of an entry, backlen included, whose first byte b is below enc13Int: a small integer or a
// short string. It branches instead of computing with b's top bit. The processor predicts the branch, while arithmetic
// would delay each step of a walk (BenchmarkFind/fields: a quarter slower).
func shortLen(b byte) int {
	if b < enc6Str {
		return 2
	}
	return 2 + int(b&0x3F)
}

// skipLong is skip for entries of any length.
func skipLong(lp []byte, at int) int {
	body := bodyLen(lp, at)
	return at + body + backlenLen(body)
}

// bodyLen returns the length of the encoding and payload of the entry at at.
func bodyLen(lp []byte, at int) int {
	switch b := lp[at]; {
	case b < 0x80:
		return 1
	case b < 0xC0:
		return 1 + int(b&0x3F)
	case b < 0xE0:
		return 2
	case b < 0xF0:
		return 2 + (int(b&0x0F)<<8 | int(lp[at+1]))
	case b == enc32Str:
		return 5 + int(binary.LittleEndian.Uint32(lp[at+1:]))
	case b <= enc64Int:
		return 1 + intWidth(b)
	}
	panic("listpack: I3 is broken: a byte that opens no entry")
}

// backlenLen returns the length of the backlen of an entry whose encoding and payload take body bytes. The limits are
// one less than the bits could hold, as in the first implementation of the format.
func backlenLen(body int) int {
	switch {
	case body <= 127:
		return 1
	case body < 16383:
		return 2
	case body < 2097151:
		return 3
	case body < 268435455:
		return 4
	}
	return 5
}
