package bloom

import "spindle/internal/murmur"

// A place is where an item's bits are in a filter: bit (a + i*b) mod bits for each i below hashes.
type place struct{ a, b uint64 }

// The seeds belong to the format: filters made elsewhere have the same items' bits set only under the same hash.
const (
	seed64 = 0xc6a4a7935bd1e995
	seed32 = 0x9747b28c
)

// placeOf is the place of item in filters of a chain with these options (only those of RedisBloom 1.0 are not Wide):
// twice the same hash, the second one seeded with the first.
func placeOf(item []byte, o Options) place {
	if o&Wide != 0 {
		a := murmur.Hash64A(item, seed64)
		return place{a, murmur.Hash64A(item, a)}
	}
	a := murmur.Hash2(item, seed32)
	return place{uint64(a), uint64(murmur.Hash2(item, a))}
}
