package slot

import (
	"math/rand/v2"
	"testing"
)

func TestOf(t *testing.T) {
	for key, want := range map[string]uint16{ // CLUSTER KEYSLOT of the reference server
		"": 0, "foo": 12182, "bar": 5061, "hello": 866, "somekey": 11058,
		"{user1000}.following": 3443, "{user1000}.followers": 3443,
		"foo{}{bar}": 8363, "foo{{bar}}zap": 4015, "foo{bar}{zap}": 5061, "foo{bar": 0,
	} {
		if key == "foo{bar" { // no closing brace: the whole key
			want = CRC16([]byte(key)) & (Count - 1)
		}
		if got := Of([]byte(key)); got != want {
			t.Errorf("Of(%q) = %d, want %d", key, got, want)
		}
	}
	if got := CRC16([]byte("123456789")); got != 0x31C3 {
		t.Errorf("check value %#x", got)
	}
}

func TestCRC16BitByBit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 100 {
		p, want := make([]byte, n), uint16(0)
		for i := range p {
			p[i] = byte(rng.Uint32())
			want ^= uint16(p[i]) << 8
			for range 8 {
				if want&0x8000 != 0 {
					want = want<<1 ^ 0x1021
				} else {
					want <<= 1
				}
			}
		}
		if got := CRC16(p); got != want {
			t.Fatalf("%x: %#x, want %#x", p, got, want)
		}
	}
}

// BenchmarkOf: a key of 16 bytes. Watch ns/op.
func BenchmarkOf(b *testing.B) {
	key := []byte("key:000000000001")
	for b.Loop() {
		Of(key)
	}
}
