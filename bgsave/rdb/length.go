package rdb

import "encoding/binary"

// A length takes 1, 2, 5 or 9 bytes. The top two bits of the first byte say which.
//
//	00xxxxxx                     0..63
//	01xxxxxx xxxxxxxx            0..16383
//	10000000 u32 big endian
//	10000001 u64 big endian
//	11xxxxxx                     not a length: a string encoding (string.go)

// AppendLength appends n in the shortest form.
func AppendLength(dst []byte, n uint64) []byte {
	switch {
	case n < 1<<6:
		return append(dst, byte(n))
	case n < 1<<14:
		return append(dst, 0x40|byte(n>>8), byte(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(dst, 0x80), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0x81), n)
}

// A cursor reads from bytes that may end too early. Then it returns errShort, and the caller reads the record again
// when more bytes have arrived.
type cursor struct {
	p        []byte
	i        int
	need     int    // set with errShort if known: how many bytes of p are needed at least
	lengthAt int    // set with need: where the incomplete bytes begin
	what     string // the part being read, for messages
	key      string // the key whose value is being read

	templates templates // of the file

	progress *progress // for streams that come in pieces; nil when all bytes are present
}

// byte reads one byte.
func (c *cursor) byte() (byte, error) {
	if c.i >= len(c.p) {
		return 0, errShort
	}
	c.i++
	return c.p[c.i-1], nil
}

// take reads n bytes and returns them without copying.
func (c *cursor) take(n uint64) ([]byte, error) {
	if n > uint64(len(c.p)-c.i) {
		c.need, c.lengthAt = saturate(c.i, n), c.i
		return nil, errShort
	}
	from := c.i
	c.i += int(n)
	return c.p[from:c.i:c.i], nil
}

// drop skips n bytes.
func (c *cursor) drop(n uint64) error {
	_, err := c.take(n)
	return err
}

// saturate returns i+n, or the largest int if that overflows.
func saturate(i int, n uint64) int {
	const most = 1<<63 - 1
	if n > uint64(most-i) {
		return most
	}
	return i + int(n)
}

// size reads a length or a string encoding. encoded says which of the two it was.
func (c *cursor) size() (n uint64, encoded bool, err error) {
	if c.i >= len(c.p) {
		return 0, false, errShort
	}
	b, rest := c.p[c.i], c.p[c.i+1:]
	switch {
	case b < 0x40:
		c.i++
		return uint64(b), false, nil
	case b < 0x80:
		if len(rest) < 1 {
			return 0, false, errShort
		}
		c.i += 2
		return uint64(b&0x3f)<<8 | uint64(rest[0]), false, nil
	case b == 0x80:
		if len(rest) < 4 {
			return 0, false, errShort
		}
		c.i += 5
		return uint64(binary.BigEndian.Uint32(rest)), false, nil
	case b == 0x81:
		if len(rest) < 8 {
			return 0, false, errShort
		}
		c.i += 9
		return binary.BigEndian.Uint64(rest), false, nil
	case b < 0xC0:
		return 0, false, Corrupt("unknown length encoding")
	}
	c.i++
	return uint64(b & 0x3f), true, nil
}

// length reads a length. A string encoding is an error.
func (c *cursor) length() (uint64, error) {
	n, encoded, err := c.size()
	if err == nil && encoded {
		c.i--
		return 0, Corrupt("a string encoding where a length must stand")
	}
	return n, err
}
