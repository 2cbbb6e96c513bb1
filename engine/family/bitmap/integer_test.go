package bitmap

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestFieldOf(t *testing.T) {
	for arg, want := range map[string]field{
		"i1": {true, 1}, "i64": {true, 64}, "u1": {false, 1}, "u63": {false, 63}, "u64": {}, "i65": {}, "i0": {},
		"u0": {}, "u-1": {},
		"": {}, "i": {}, "8": {}, "I8": {}, "U8": {}, "u8 ": {}, "u+8": {}, "u08": {}, "x8": {},
	} {
		got, err := fieldOf([]byte(arg))
		if refused := want.width == 0; (err != nil) != refused || !refused && got != want {
			t.Errorf("%q: %+v, %v", arg, got, err)
		}
	}
}

// TestReadWrite: read returns what write stored, and the bits around it do not change.
func TestReadWrite(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for width := 1; width <= 64; width++ {
		for shift := range 8 {
			for _, signed := range []bool{true, false} {
				if width == 64 && !signed {
					continue
				}
				f := field{signed, width}
				var b [9]byte
				for i := range b {
					b[i] = byte(rng.Uint32())
				}
				before := b
				n := f.cut(int64(rng.Uint64()))
				f.write(&b, shift, n)
				if got := f.read(&b, shift); got != n {
					t.Fatalf("%+v at %d: wrote %d, read %d", f, shift, n, got)
				}
				for i := range 72 {
					if bit := byte(0x80) >> (i & 7); (i < shift || i >= shift+width) && b[i>>3]&bit != before[i>>3]&bit {
						t.Fatalf("%+v at %d: bit %d has changed", f, shift, i)
					}
				}
			}
		}
	}
}

// TestOverflow compares set and add with integers of unlimited size.
func TestOverflow(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	edges := []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64}
	pick := func() int64 {
		if rng.IntN(3) == 0 {
			return edges[rng.IntN(len(edges))]
		}
		return int64(rng.Uint64()) >> rng.IntN(64)
	}
	for range 200_000 {
		f := field{signed: rng.IntN(2) == 0, width: 1 + rng.IntN(63)}
		if f.signed {
			f.width += rng.IntN(2)
		}
		least, greatest := f.limits()
		p := policy(rng.IntN(3))
		n, by := f.cut(pick()), pick()

		exact := new(big.Int).Add(big.NewInt(n), big.NewInt(by))
		got, ok := f.add(n, by, p)
		check(t, f, p, exact, least, greatest, got, ok)

		exact = big.NewInt(by)
		if !f.signed && by < 0 {
			exact.Add(exact, new(big.Int).Lsh(big.NewInt(1), 64)) // read as unsigned
		}
		got, ok = f.set(by, p)
		check(t, f, p, exact, least, greatest, got, ok)
	}
}

func check(t *testing.T, f field, p policy, exact *big.Int, least, greatest, got int64, ok bool) {
	t.Helper()
	lo, hi := big.NewInt(least), big.NewInt(greatest)
	want := exact
	switch {
	case exact.Cmp(lo) >= 0 && exact.Cmp(hi) <= 0:
	case p == fail:
		if ok {
			t.Fatalf("%+v: %v was accepted", f, exact)
		}
		return
	case p == saturate && exact.Cmp(lo) < 0:
		want = lo
	case p == saturate:
		want = hi
	default: // modulo 2^width, the representative within the limits
		size := new(big.Int).Lsh(big.NewInt(1), uint(f.width))
		want = new(big.Int).Mod(exact, size)
		if want.Cmp(hi) > 0 {
			want.Sub(want, size)
		}
	}
	if !ok || want.Cmp(big.NewInt(got)) != 0 {
		t.Fatalf("%+v, policy %d: %v is stored as %d, %t; want %v", f, p, exact, got, ok, want)
	}
}
