package murmur

import (
	"encoding/binary"
	"testing"
)

// TestVerification makes SMHasher's check: the hash of the hashes of 256 keys is a published number for each function.
func TestVerification(t *testing.T) {
	verify := func(width int, hash func(p []byte, seed uint64) uint64) uint32 {
		var key [256]byte
		var all []byte
		for i := range 256 {
			key[i] = byte(i)
			var sum [8]byte
			binary.LittleEndian.PutUint64(sum[:], hash(key[:i], uint64(256-i)))
			all = append(all, sum[:width]...)
		}
		return uint32(hash(all, 0))
	}
	if got := verify(8, Hash64A); got != 0x1F0D3804 {
		t.Errorf("Hash64A: %#x", got)
	}
	if got := verify(4, func(p []byte, seed uint64) uint64 { return uint64(Hash2(p, uint32(seed))) }); got != 0x27864C1E {
		t.Errorf("Hash2: %#x", got)
	}
}
