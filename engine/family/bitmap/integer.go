package bitmap

import (
	"encoding/binary"

	"spindle/internal/number"
)

// A policy says what happens to a result that does not fit its field (OVERFLOW).
type policy uint8

const (
	wrap policy = iota
	saturate
	fail
)

// A field is an integer type: two's complement or unsigned, most significant bit first.
type field struct {
	signed bool
	width  int // in bits: 1..64 signed, 1..63 unsigned, because a reply is a signed 64-bit integer
}

// fieldOf reads a type such as i8 or u63.
//
// Errors: errFieldType.
func fieldOf(arg []byte) (f field, err error) {
	if len(arg) == 0 || arg[0] != 'i' && arg[0] != 'u' {
		return f, errFieldType
	}
	f.signed = arg[0] == 'i'
	n, ok := number.ParseInt(arg[1:])
	if !ok || n < 1 || n > 64 || n == 64 && !f.signed {
		return f, errFieldType
	}
	f.width = int(n)
	return f, nil
}

// read returns the field that begins at bit shift of b.
func (f field) read(b *[9]byte, shift int) int64 {
	x := binary.BigEndian.Uint64(b[:8])<<shift | uint64(b[8])>>(8-shift)
	if f.signed {
		return int64(x) >> (64 - f.width)
	}
	return int64(x >> (64 - f.width))
}

// write stores n in the field at bit shift of b. It does not change the bits around the field.
func (f field) write(b *[9]byte, shift int, n int64) {
	mask := ^uint64(0) << (64 - f.width)
	x := uint64(n) << (64 - f.width)
	old := binary.BigEndian.Uint64(b[:8])
	binary.BigEndian.PutUint64(b[:8], old&^(mask>>shift)|x>>shift)
	mask, x = mask<<(64-shift), x<<(64-shift) // the bits that reach into the ninth byte
	b[8] = b[8]&^byte(mask>>56) | byte(x>>56)
}

// cut returns n reduced to the width of the field.
func (f field) cut(n int64) int64 {
	if f.signed {
		return n << (64 - f.width) >> (64 - f.width)
	}
	return int64(uint64(n) << (64 - f.width) >> (64 - f.width))
}

func (f field) limits() (least, greatest int64) {
	if f.signed {
		least = -1 << (f.width - 1)
		return least, ^least
	}
	return 0, 1<<f.width - 1
}

// set returns the number that SET n stores under the policy p. ok is false if p refuses n.
func (f field) set(n int64, p policy) (stored int64, ok bool) {
	least, greatest := f.limits()
	switch {
	case n > greatest || !f.signed && n < 0: // an unsigned field takes a negative number as a large one
		return f.limit(n, greatest, p)
	case n < least:
		return f.limit(n, least, p)
	}
	return n, true
}

// add returns n+by as it is stored under the policy p. ok is false if p refuses the sum. n must fit the field.
func (f field) add(n, by int64, p policy) (stored int64, ok bool) {
	least, greatest := f.limits()
	switch {
	case by > 0 && uint64(greatest)-uint64(n) < uint64(by):
		return f.limit(n+by, greatest, p)
	case by < 0 && uint64(n)-uint64(least) < -uint64(by):
		return f.limit(n+by, least, p)
	}
	return n + by, true
}

// limit applies p to n, which is outside the field's range. bound is the limit that n exceeds.
func (f field) limit(n, bound int64, p policy) (stored int64, ok bool) {
	switch p {
	case saturate:
		return bound, true
	case fail:
		return 0, false
	}
	return f.cut(n), true
}
