package rdb

import (
	"encoding/binary"
	"strconv"

	"spindle/internal/compress/lzf"
)

// A string has one of five forms. The first byte says which.
//
//	length bytes…                 verbatim
//	C0 i8 | C1 i16 | C2 i32       the decimal text of that number (little endian)
//	C3 clen len bytes[clen]       LZF: expands to len bytes
const (
	encInt8  = 0
	encInt16 = 1
	encInt32 = 2
	encLZF   = 3
)

// maxExpansion is the greatest number of bytes that one byte of LZF can become. A 3-byte reference yields up to 264.
const maxExpansion = 264 / 3

// minCompressed is the shortest string that is worth compressing.
const minCompressed = 21

// A Form says how a Text holds its string.
type Form uint8

const (
	Verbatim Form = iota // Bytes is the text
	Integer              // the text is Int in decimal
	Packed               // Bytes is LZF and expands to Size bytes
)

// A Text is a string as the file holds it, not yet expanded.
// Lifetime: that of the bytes it was read from.
type Text struct {
	Bytes []byte
	Int   int64
	Size  int // length of the expanded text
	Form  Form
}

// Append appends the text to dst. Errors: the LZF bytes are invalid.
func (t *Text) Append(dst []byte) ([]byte, error) {
	switch t.Form {
	case Integer:
		return strconv.AppendInt(dst, t.Int, 10), nil
	case Packed:
		return expand(dst, t.Bytes, t.Size)
	}
	return append(dst, t.Bytes...), nil
}

// expand appends the size bytes to which packed expands.
func expand(dst, packed []byte, size int) ([]byte, error) {
	from := len(dst)
	if cap(dst)-from < size {
		dst = append(make([]byte, 0, from+size), dst...)
	}
	out := dst[from : from+size]
	if n, err := lzf.Decompress(out, packed); err != nil || n != size {
		return dst, Corrupt("invalid LZF compressed string")
	}
	return dst[:from+size], nil
}

// text reads a string without expanding it.
func (c *cursor) text() (t Text, err error) {
	n, encoded, err := c.size()
	if err != nil {
		return t, err
	}
	if !encoded {
		t.Bytes, err = c.take(n)
		t.Size = len(t.Bytes)
		return t, err
	}
	switch n {
	case encInt8:
		p, err := c.take(1)
		if err != nil {
			return t, err
		}
		t.Int = int64(int8(p[0]))
	case encInt16:
		p, err := c.take(2)
		if err != nil {
			return t, err
		}
		t.Int = int64(int16(binary.LittleEndian.Uint16(p)))
	case encInt32:
		p, err := c.take(4)
		if err != nil {
			return t, err
		}
		t.Int = int64(int32(binary.LittleEndian.Uint32(p)))
	case encLZF:
		return c.packed()
	default:
		c.i--
		return t, Corrupt("unknown RDB string encoding type " + strconv.FormatUint(n, 10))
	}
	t.Form, t.Size = Integer, decimalLen(t.Int)
	return t, nil
}

// packed reads an LZF string after its C3. Before it allocates memory, it refuses a size to which the bytes cannot
// expand.
func (c *cursor) packed() (t Text, err error) {
	at := c.i
	packed, err := c.length()
	if err != nil {
		return t, err
	}
	size, err := c.length()
	if err != nil {
		return t, err
	}
	if packed == 0 || size == 0 || size/maxExpansion > packed {
		c.i = at
		return t, Corrupt("invalid LZF compressed string")
	}
	t.Bytes, err = c.take(packed)
	t.Form, t.Size = Packed, int(size)
	return t, err
}

// decimalLen returns how many bytes n takes in decimal. n must fit 32 bits.
func decimalLen(n int64) int {
	digits := 1
	if n < 0 {
		n = -n
		digits++
	}
	for n >= 10 {
		n /= 10
		digits++
	}
	return digits
}

// AppendInt appends n as a string in decimal.
func AppendInt(dst []byte, n int64) []byte {
	switch {
	case n == int64(int8(n)):
		return append(dst, 0xC0|encInt8, byte(n))
	case n == int64(int16(n)):
		return append(dst, 0xC0|encInt16, byte(n), byte(n>>8))
	case n == int64(int32(n)):
		return binary.LittleEndian.AppendUint32(append(dst, 0xC0|encInt32), uint32(n))
	}
	at := len(dst)
	dst = append(dst, 0)
	dst = strconv.AppendInt(dst, n, 10)
	dst[at] = byte(len(dst) - at - 1) // at most 20: one length byte
	return dst
}

// smallInt returns s as a number, if s is the exact decimal text of a 32-bit integer.
func smallInt(s []byte) (int64, bool) {
	if len(s) == 0 || len(s) > 11 {
		return 0, false
	}
	digits, negative := s, false
	if s[0] == '-' {
		digits, negative = s[1:], true
	}
	if len(digits) == 0 || digits[0] == '0' && (len(digits) > 1 || negative) {
		return 0, false
	}
	var n int64
	for _, d := range digits {
		if d -= '0'; d > 9 {
			return 0, false
		}
		n = n*10 + int64(d)
	}
	if negative {
		n = -n
	}
	return n, n == int64(int32(n))
}
