package hll

import (
	"math/bits"

	"spindle/internal/murmur"
)

// murmurSeed is part of the format, because sketches of other servers use the same hash.
const murmurSeed = 0xadc83b19

// locate returns the register of an element, and the rank that the element gives to it. The low bits of the hash choose
// the register. The rank, 1..51, is one more than the number of zeros after those bits.
func locate(element []byte) (index int, rank byte) {
	h := murmur.Hash64A(element, murmurSeed)
	rest := h>>precision | 1<<(64-precision)
	return int(h & (registerCount - 1)), byte(bits.TrailingZeros64(rest) + 1)
}
