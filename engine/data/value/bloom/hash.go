package bloom

import "spindle/internal/murmur"

// itemBits are the bits of an item in a filter: bit (a + i*b) mod bits for each i below hashes.
type itemBits struct{ a, b uint64 }

// The seeds are part of the format, because the same hash must find the items of filters made elsewhere.
const (
	seed64 = 0xc6a4a7935bd1e995
	seed32 = 0x9747b28c
)

// bitsOf returns the bits of item in filters of a chain with these options. Only chains of RedisBloom 1.0 are not Wide.
// It uses the same hash twice; the first result is the seed of the second.
func bitsOf(item []byte, o Options) itemBits {
	if o&Wide != 0 {
		a := murmur.Hash64A(item, seed64)
		return itemBits{a, murmur.Hash64A(item, a)}
	}
	a := murmur.Hash2(item, seed32)
	return itemBits{uint64(a), uint64(murmur.Hash2(item, a))}
}
