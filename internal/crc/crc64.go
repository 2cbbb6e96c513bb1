// Package crc computes the CRC-64 of RDB files and DUMP payloads.
//
// Owner: the caller; it has only pure functions.
// Never: allocates.
// Start here; fold_amd64.s is the fast path.
package crc

import (
	"encoding/binary"
	"math/bits"
)

// The CRC is "Jones": polynomial 0xad93d23594c935a9, reflected, initially 0, not inverted. Check value of "123456789":
// 0xe9c6d914c4b8d9ca.
const jones = 0xad93d23594c935a9

// reflected is jones in the algorithm's bit order: bit 63-i is the coefficient of x^i.
var reflected = bits.Reverse64(jones)

// tables[k][b] is the CRC of byte b followed by k zero bytes.
var tables = func() (t [16][256]uint64) {
	for b := range t[0] {
		crc := uint64(b)
		for range 8 {
			carry := crc & 1
			crc = crc>>1 ^ carry*reflected
		}
		t[0][b] = crc
	}
	for k := 1; k < len(t); k++ {
		for b := range t[k] {
			crc := t[k-1][b]
			t[k][b] = crc>>8 ^ t[0][byte(crc)]
		}
	}
	return t
}()

// Update64 returns the CRC of earlier bytes followed by p, where crc is the CRC of the earlier bytes. The CRC of no
// bytes is 0.
func Update64(crc uint64, p []byte) uint64 {
	if hasFold && len(p) >= foldMin {
		whole := len(p) &^ (foldBlock - 1)
		crc = updateFold(crc, p[:whole])
		p = p[whole:]
	}
	return updateTables(crc, p)
}

// updateTables processes sixteen bytes a step.
func updateTables(crc uint64, p []byte) uint64 {
	for len(p) >= 16 {
		a := crc ^ binary.LittleEndian.Uint64(p)
		b := binary.LittleEndian.Uint64(p[8:])
		crc = tables[15][byte(a)] ^ tables[14][byte(a>>8)] ^ tables[13][byte(a>>16)] ^ tables[12][byte(a>>24)] ^
			tables[11][byte(a>>32)] ^ tables[10][byte(a>>40)] ^ tables[9][byte(a>>48)] ^ tables[8][a>>56] ^
			tables[7][byte(b)] ^ tables[6][byte(b>>8)] ^ tables[5][byte(b>>16)] ^ tables[4][byte(b>>24)] ^
			tables[3][byte(b>>32)] ^ tables[2][byte(b>>40)] ^ tables[1][byte(b>>48)] ^ tables[0][b>>56]
		p = p[16:]
	}
	for _, c := range p {
		crc = crc>>8 ^ tables[0][byte(crc)^c]
	}
	return crc
}

// multiply returns a×b modulo the polynomial, all three reflected.
func multiply(a, b uint64) uint64 {
	var product uint64
	for b != 0 { // the highest bit is the coefficient of 1, the next that of x
		product ^= a & -(b >> 63)
		b <<= 1
		a = a>>1 ^ (a&1)*reflected
	}
	return product
}

// squares[k] is x^(2^k) modulo the polynomial.
var squares = func() (s [64]uint64) {
	s[0] = 1 << 62 // x
	for k := 1; k < len(s); k++ {
		s[k] = multiply(s[k-1], s[k-1])
	}
	return s
}()

// power returns x^n modulo the polynomial.
func power(n uint64) uint64 {
	result := uint64(1) << 63 // 1
	for k := 0; n != 0; k, n = k+1, n>>1 {
		if n&1 != 0 {
			result = multiply(result, squares[k])
		}
	}
	return result
}
