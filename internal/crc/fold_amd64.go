package crc

import "encoding/binary"

// Processors with carry-less multiplication fold the message. The 512 bits so far are multiplied by x^512 modulo the
// polynomial. That takes 128-bit products of their halves with two constants. The result is added to the next 512 bits,
// and the only division is at the end.
// Source: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009.
//
//	lane:  lo · x^64 + hi        lo = its first eight bytes, so the higher powers
//	D bits further: lo · x^(64+D) + hi · x^D
//
// A product of two reflected words has an extra factor x, so the constants are x^(64+D-1) and x^(D-1).

const (
	foldBlock = 64
	foldMin   = 128
)

// foldConstants are the constants for D = 512 and D = 128.
var foldConstants = [4]uint64{power(64 + 512 - 1), power(512 - 1), power(64 + 128 - 1), power(128 - 1)}

var hasFold = hasCarrylessMultiply()

// updateFold is Update64 for whole blocks of 64 bytes.
func updateFold(crc uint64, p []byte) uint64 {
	var rest [16]byte
	lo, hi := fold(crc, &p[0], len(p)/foldBlock, &foldConstants)
	binary.LittleEndian.PutUint64(rest[:], lo)
	binary.LittleEndian.PutUint64(rest[8:], hi)
	return updateTables(0, rest[:])
}

// fold returns sixteen bytes whose CRC, from 0, equals the CRC of blocks × 64 bytes at p from crc. blocks is at least
// 1.
//
//go:noescape
func fold(crc uint64, p *byte, blocks int, constants *[4]uint64) (lo, hi uint64)

func hasCarrylessMultiply() bool
