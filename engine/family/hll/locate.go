package hll

import (
	"math/bits"

	"spindle/internal/murmur"
)

// murmurSeed belongs to the format: sketches made elsewhere count the same elements only under the same hash.
const murmurSeed = 0xadc83b19

// locate says which register an element falls to, and the rank it gives it: one more than the zeros its hash has above
// the bits that chose the register, 1..51.
func locate(element []byte) (index int, rank byte) {
	h := murmur.Hash64A(element, murmurSeed)
	rest := h>>precision | 1<<(64-precision)
	return int(h & (registerCount - 1)), byte(bits.TrailingZeros64(rest) + 1)
}
