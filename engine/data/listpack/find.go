package listpack

import (
	"encoding/binary"

	"spindle/internal/number"
)

// Find is the first element from offset from on whose text is text, 0 if there is none. After each element that is
// looked at, skip elements are passed over: 1 looks at the fields of field and value pairs only. from 0 finds nothing,
// so that First of an empty listpack may be given.
func Find(lp []byte, from int, text []byte, skip int) int {
	if from == 0 {
		return 0
	}
	if n, ok := number.ParseInt(text); ok {
		return findInt(lp, from, n, text, skip)
	}
	return findText(lp, from, text, skip)
}

// findText looks for a text that is not an integer. Most entries differ in length, and most of the others in the last
// eight bytes, where names of one pattern differ (their beginnings are alike); only then are the bytes in front of
// those compared.
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
					return at // eight bytes back might be before the listpack
				}
				// Eight bytes that end with the string; if it is shorter, the first of them are shifted out.
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

// tail is the last eight bytes of text as they would be loaded, and by how many bits to shift a load so that only text
// is left.
func tail(text []byte) (want uint64, shift uint) {
	if len(text) >= 8 {
		return binary.LittleEndian.Uint64(text[len(text)-8:]), 0
	}
	var last [8]byte
	copy(last[8-len(text):], text)
	return binary.LittleEndian.Uint64(last[:]), uint(64 - 8*len(text))
}

// findInt looks for an integer, whatever its encoding; text is its decimal, which a listpack from outside may hold as a
// string (listpack.I4).
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
