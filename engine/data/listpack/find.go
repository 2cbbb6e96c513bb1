package listpack

import (
	"encoding/binary"

	"spindle/internal/number"
)

// Find returns the offset of the first element at or after from whose text is text, or 0 if there is none. After each
// element that it compares, it skips skip elements. With 1 it compares only the fields of field and value pairs. from
// may be 0, as First returns it for an empty listpack; then Find returns 0.
func Find(lp []byte, from int, text []byte, skip int) int {
	if from == 0 {
		return 0
	}
	if n, ok := number.ParseInt(text); ok {
		return findInt(lp, from, n, text, skip)
	}
	return findText(lp, from, text, skip)
}

// findText searches for a text that is not an integer. Most entries differ in length. Of the others, most differ in the
// last eight bytes, because names of one pattern have the same beginning. Only if those are equal does it compare the
// bytes before them.
func findText(lp []byte, at int, text []byte, pass int) int {
	lp = lp[:Bytes(lp)]
	short := len(text) < 64
	want, shift := tail(text)
	for {
		switch b := lp[at]; {
		case b < enc6Str:
			at += 2
		case b < enc13Int:
			n := int(b & 0x3F)
			if n == len(text) && short {
				if n == 0 {
					return at // the eight bytes before might begin before the listpack
				}
				// Load the eight bytes that end with the string. If it is shorter, shift the first of them out.
				last := binary.LittleEndian.Uint64(lp[at+n-7:])
				if (last^want)>>shift == 0 && (n <= 8 || string(lp[at+1:at+1+n-8]) == string(text[:n-8])) {
					return at
				}
			}
			at += n + 2
		case b == end:
			return 0
		default:
			if e := Get(lp, at); !e.IsInt && string(e.Bytes()) == string(text) {
				return at
			}
			at = skip(lp, at)
		}
		for i := pass; i > 0; i-- {
			b := lp[at]
			if b == end {
				return 0
			}
			if b < enc13Int {
				at += shortLen(b)
			} else {
				at = skip(lp, at)
			}
		}
	}
}

// tail returns the last eight bytes of text as they would be loaded. shift is the number of bits by which a load must
// be shifted so that only text is left.
func tail(text []byte) (want uint64, shift uint) {
	if len(text) >= 8 {
		return binary.LittleEndian.Uint64(text[len(text)-8:]), 0
	}
	var last [8]byte
	copy(last[8-len(text):], text)
	return binary.LittleEndian.Uint64(last[:]), uint(64 - 8*len(text))
}

// findInt searches for an integer in any encoding. text is its decimal form, because a listpack from outside may hold
// it as a string (listpack.I4).
func findInt(lp []byte, at int, n int64, text []byte, pass int) int {
	lp = lp[:Bytes(lp)]
	for {
		switch b := lp[at]; {
		case b < enc6Str:
			if int64(b) == n {
				return at
			}
			at += 2
		case b < enc13Int:
			size := int(b & 0x3F)
			if size == len(text) && string(lp[at+1:at+1+size]) == string(text) {
				return at
			}
			at += size + 2
		case b == end:
			return 0
		default:
			if e := Get(lp, at); e.IsInt && e.Int == n || !e.IsInt && string(e.Bytes()) == string(text) {
				return at
			}
			at = skip(lp, at)
		}
		for i := pass; i > 0; i-- {
			b := lp[at]
			if b == end {
				return 0
			}
			if b < enc13Int {
				at += shortLen(b)
			} else {
				at = skip(lp, at)
			}
		}
	}
}
