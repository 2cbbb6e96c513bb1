package bloom

import "testing"

// TestHash compares both hashes with those of the C sources of MurmurHash2, which are in the public domain, compiled
// with gcc.
func TestHash(t *testing.T) {
	for _, c := range []struct {
		item         string
		a32, b32     uint64
		aWide, bWide uint64
	}{
		{"", 0x106e08d9, 0x456d9087, 0x1ab11ea5a7b2c56e, 0xbbddcb5ab56dd547},
		{"a", 0xa2d0b27c, 0x2e36e8b4, 0x4292cee227b9150a, 0x7e9b527031f50c11},
		{"ab", 0x12d8262a, 0x87ae788a, 0x2db1bf3a2e66542c, 0x293d5ccc2e02cc02},
		{"abc", 0x1c94221b, 0x8e2b515, 0xca52f3863690cd7b, 0x492e507dc7ce3d23},
		{"abcd", 0xb11ab5f4, 0x7796ea9c, 0xc19f5358d983a6bf, 0xe0cf7f46f508e46e},
		{"abcdefg", 0xeb595499, 0x3219f5ed, 0x9fa0b24601c1e9a9, 0x593e9b0945664832},
		{"abcdefgh", 0xc70d55dd, 0xd8fd56f3, 0xd435df7a565a8af1, 0xbf3d673c0b1029cf},
		{"abcdefghi", 0xdb106fbe, 0x9cc85bc8, 0xa2c004e44bd0a465, 0x28459a22cef68950},
		{"the quick brown fox", 0x7f5162c1, 0x83c8d31b, 0x69419952d279467, 0x22365b36b926bced},
	} {
		if got, want := bitsOf([]byte(c.item), Exact), (itemBits{c.a32, c.b32}); got != want {
			t.Errorf("%q: %x, want %x", c.item, got, want)
		}
		if got, want := bitsOf([]byte(c.item), Exact|Wide), (itemBits{c.aWide, c.bWide}); got != want {
			t.Errorf("%q, wide: %x, want %x", c.item, got, want)
		}
	}
}

// TestPlan checks sizes. The cases called published are from RedisBloom's documentation and tests; the others are
// limits.
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name     string
		capacity uint64
		rate     float64
		options  Options
		want     link
		err      error
	}{
		{"published: default", 100, 0.005, Exact | Wide, link{capacity: 100, bytes: 144, bits: 1152, hashes: 8}, nil},
		{"published: 50000", 50_000, 0.0005, Exact | Wide,
			link{capacity: 50_000, bytes: 98880, bits: 791040, hashes: 11, levels: 1}, nil},
		{"published: 300 M", 300_000_000, 0.0000005, Exact | Wide,
			link{capacity: 300_000_000, bytes: 1132420136, bits: 1132420136 * 8, hashes: 21, levels: 3}, nil},
		{"published: log 33", 33, 0.0000125, CapacityIsLog,
			link{capacity: 365557102, bytes: 1 << 30, bits: 1 << 33, hashes: 17, power: 33, levels: 2}, nil},
		{"a power of two", 6, 0.005, 0, link{capacity: 11, bytes: 16, bits: 128, hashes: 8, power: 7}, nil},
		{"hardly a bit", 3, 0.9999999999999999, Exact, link{capacity: 3, bytes: 8, bits: 64, hashes: 1}, nil},
		{"the smallest rate", 1, 5e-324, Exact, link{capacity: 1, bytes: 200, bits: 1600, hashes: 1075}, nil},
		{"nothing", 0, 0.1, Exact, link{}, ErrInvalid},
		{"no errors", 1, 0, Exact, link{}, ErrInvalid},
		{"nothing but errors", 1, 1, Exact, link{}, ErrInvalid},
		{"too many", 1 << 40, 0.01, Exact, link{}, ErrTooBig},
		{"too many by far", 1 << 63, 0.01, 0, link{}, ErrTooBig},
		{"log 64", 64, 0.01, CapacityIsLog, link{}, ErrInvalid},
		{"log 63", 63, 0.01, CapacityIsLog, link{}, ErrTooBig},
	} {
		got, err := plan(c.capacity, c.rate, c.options)
		if err != c.err {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
			continue
		}
		if err == nil {
			c.want.error, c.want.perItem = c.rate, got.perItem
			if got != c.want {
				t.Errorf("%s:\n%+v, want\n%+v", c.name, got, c.want)
			}
			if d := got.describe(); !d.Usable() || d.Power == 0 && !d.sound() {
				t.Errorf("%s: a header may not say %+v", c.name, d)
			}
		}
	}
}
