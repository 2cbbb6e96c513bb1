package rdb

import (
	"encoding/binary"
	"math"
)

// A Reader reads the parts of one value whose bytes are all present.
//
// Errors: Corrupt. Values that are read after an error are wrong.
type Reader struct{ c cursor }

// NewReader reads p.
func NewReader(p []byte) Reader { return Reader{cursor{p: p}} }

// errEnd is the error for a value that is too short for its parts.
const errEnd = Corrupt("the value ends too early")

// whole replaces errShort by errEnd, because here too few bytes are an error.
func whole(err error) error {
	if err == errShort {
		return errEnd
	}
	return err
}

// Len returns how many bytes are left. Offset returns how many were read.
func (r *Reader) Len() int    { return len(r.c.p) - r.c.i }
func (r *Reader) Offset() int { return r.c.i }

// Rest returns the bytes that are left.
func (r *Reader) Rest() []byte { return r.c.p[r.c.i:] }

// Length reads a length or a count.
func (r *Reader) Length() (uint64, error) {
	n, err := r.c.length()
	return n, whole(err)
}

// Count reads a count of elements that take at least per bytes each. It refuses a count that the remaining bytes cannot
// hold. So callers can allocate memory for the count.
func (r *Reader) Count(per int) (int, error) {
	n, err := r.Length()
	if err == nil && n > uint64(r.Len()/per) {
		return 0, errEnd
	}
	return int(n), err
}

// Text reads a string without expanding it.
func (r *Reader) Text() (Text, error) {
	t, err := r.c.text()
	return t, whole(err)
}

// Bytes reads a string. text points into the value, or is the expanded text in scratch. longer is scratch, reallocated
// if it was too short.
func (r *Reader) Bytes(scratch []byte) (text, longer []byte, err error) {
	t, err := r.Text()
	if err != nil {
		return nil, scratch, err
	}
	if t.Form == Verbatim {
		return t.Bytes, scratch, nil
	}
	scratch, err = t.Append(scratch[:0])
	return scratch, scratch, err
}

// Take reads n bytes and returns them without copying.
func (r *Reader) Take(n int) ([]byte, error) {
	p, err := r.c.take(uint64(n))
	return p, whole(err)
}

// Byte reads one byte.
func (r *Reader) Byte() (byte, error) {
	b, err := r.c.byte()
	return b, whole(err)
}

// Uint64 reads 8 bytes, little endian.
func (r *Reader) Uint64() (uint64, error) {
	p, err := r.Take(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(p), nil
}

// Float64 reads a float64's 8 bytes, little endian.
func (r *Reader) Float64() (float64, error) {
	n, err := r.Uint64()
	return math.Float64frombits(n), err
}
