package bloom

import "encoding/binary"

// A place is where an item's bits are in a filter: bit (a + i*b) mod bits for each i below hashes.
type place struct{ a, b uint64 }

// The seeds belong to the format: filters made elsewhere have the same items' bits set only under the same hash.
const (
	seed64 = 0xc6a4a7935bd1e995
	seed32 = 0x9747b28c
)

// placeOf is the place of item in filters of a chain with these options: twice the same hash, the second one seeded with the first.
func placeOf(item []byte, o Options) place {
	if o&Wide != 0 {
		a := murmur64(item, seed64)
		return place{a, murmur64(item, a)}
	}
	a := murmur32(item, seed32)
	return place{uint64(a), uint64(murmur32(item, a))}
}

// murmur64 is MurmurHash64A of p, reading little endian. Source: Austin Appleby's MurmurHash2, in the public domain.
func murmur64(p []byte, seed uint64) uint64 {
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

// murmur32 is MurmurHash2 of p. Source: as murmur64's. Only chains of RedisBloom 1.0 are hashed so.
func murmur32(p []byte, seed uint32) uint32 {
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
