// Package murmur is MurmurHash2 as the formats of sketches and Bloom filters define it, reading little endian.
//
// Source: Austin Appleby's MurmurHash2, in the public domain.
// Owner: the caller.
// Never: keeps state. It is not for the server's own tables, whose hash has another seed in each process.
package murmur

import "encoding/binary"

// Hash64A returns MurmurHash64A of p.
func Hash64A(p []byte, seed uint64) uint64 {
	const (
		mul   = 0xc6a4a7935bd1e995
		shift = 47
	)
	h := seed ^ uint64(len(p))*mul
	for ; len(p) >= 8; p = p[8:] {
		k := binary.LittleEndian.Uint64(p) * mul
		k ^= k >> shift
		h = (h ^ k*mul) * mul
	}
	if len(p) > 0 {
		tail := uint64(0)
		for i, b := range p {
			tail |= uint64(b) << (8 * i)
		}
		h = (h ^ tail) * mul
	}
	h ^= h >> shift
	h *= mul
	return h ^ h>>shift
}

// Hash2 returns the 32-bit MurmurHash2 of p.
func Hash2(p []byte, seed uint32) uint32 {
	const (
		mul   = 0x5bd1e995
		shift = 24
	)
	h := seed ^ uint32(len(p))
	for ; len(p) >= 4; p = p[4:] {
		k := binary.LittleEndian.Uint32(p) * mul
		k ^= k >> shift
		h = h*mul ^ k*mul
	}
	if len(p) > 0 {
		tail := uint32(0)
		for i, b := range p {
			tail |= uint32(b) << (8 * i)
		}
		h = (h ^ tail) * mul
	}
	h ^= h >> 13
	h *= mul
	return h ^ h>>15
}
