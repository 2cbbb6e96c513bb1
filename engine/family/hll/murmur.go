package hll

import (
	"encoding/binary"
	"math/bits"
)

const (
	murmurMul   = 0xc6a4a7935bd1e995
	murmurShift = 47
	// murmurSeed belongs to the format: sketches made elsewhere count the same elements only under the same hash.
	murmurSeed = 0xadc83b19
)

// murmur is MurmurHash64A of p, reading little endian. Source: Austin Appleby's MurmurHash2, in the public domain.
func murmur(p []byte, seed uint64) uint64 {
	h := seed ^ uint64(len(p))*murmurMul
	for ; len(p) >= 8; p = p[8:] {
		k := binary.LittleEndian.Uint64(p) * murmurMul
		k ^= k >> murmurShift
		h = (h ^ k*murmurMul) * murmurMul
	}
	if len(p) > 0 {
		tail := uint64(0)
		for i, b := range p {
			tail |= uint64(b) << (8 * i)
		}
		h = (h ^ tail) * murmurMul
	}
	h ^= h >> murmurShift
	h *= murmurMul
	return h ^ h>>murmurShift
}

// locate says which register an element falls to, and the rank it gives it: one more than the zeros its hash has above the bits
// that chose the register, 1..51.
func locate(element []byte) (index int, rank byte) {
	h := murmur(element, murmurSeed)
	rest := h>>precision | 1<<(64-precision)
	return int(h & (registerCount - 1)), byte(bits.TrailingZeros64(rest) + 1)
}
