package hll

import (
	"encoding/binary"

	"spindle/engine/data/value"
	"spindle/protocol"
)

// A sketch is the value of a HyperLogLog key, a string that clients may GET and SET:
//
//	0      4     5       8             16
//	+------+-----+-------+-------------+-- ~ --+
//	| HYLL | enc | 0 0 0 | cardinality | body  |   enc: 0 dense, 1 sparse
//	+------+-----+-------+-------------+-- ~ --+   cardinality: the last estimate; bit 63 says that it is out of date
//	         u8    3 u8    u64 LE
//
// hll.I1. A dense body (dense.go) is exactly 12288 bytes.
// hll.I2. A sparse body (sparse.go) gives the value of each of the 16384 registers once, and ends after the last
// register.
//
// A client can write any string. sketchOf checks the magic, the encoding and hll.I1, and nothing else. Only a walk of
// the body shows whether hll.I2 holds. The format is Redis's: files, replicas and DUMP contain it byte for byte.
const (
	headerSize  = 16
	atEncoding  = 4
	atEstimate  = 8
	denseSize   = headerSize + denseBody
	longestBody = 2 * registerCount // sparse: an opcode has at most two bytes and covers at least one register

	encodingDense  = 0
	encodingSparse = 1

	outOfDate = 1 << 63

	precision     = 14
	registerCount = 1 << precision
)

// empty is the sketch without elements: one run of 16384 zeros. Its estimate, 0, is up to date.
const empty = "HYLL\x01\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x7f\xff"

// sketchOf returns the sketch in v, which exists. It does not copy the sketch.
//
// Lifetime: that of v.
// Errors: ErrWrongType, errNotSketch, errCorrupt for a sketch that is too long.
func sketchOf(v value.Value) ([]byte, error) {
	if v.Type() != value.String {
		return nil, protocol.ErrWrongType
	}
	if v.Len() < headerSize {
		return nil, errNotSketch
	}
	var scratch [headerSize]byte
	head := v.Range(0, headerSize, scratch[:0])
	if string(head[:atEncoding]) != "HYLL" || head[atEncoding] > encodingSparse {
		return nil, errNotSketch
	}
	if isDense(head) && v.Len() != denseSize {
		return nil, errNotSketch
	}
	if v.Len() > headerSize+longestBody {
		return nil, errCorrupt
	}
	s, ok := v.Contiguous()
	if !ok {
		return nil, errNotSketch // an integer
	}
	return s, nil
}

func isDense(s []byte) bool { return s[atEncoding] == encodingDense }

// cached returns the estimate stored in s, if it is up to date.
func cached(s []byte) (n uint64, ok bool) {
	n = binary.LittleEndian.Uint64(s[atEstimate:])
	return n, n&outOfDate == 0
}

// outdate marks the estimate in s as out of date.
func outdate(s []byte) { s[headerSize-1] |= outOfDate >> 56 }
