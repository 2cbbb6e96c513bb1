package exact

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestPairs: sums and products are exact, and Hi is the rounded number (exact.T1).
func TestPairs(t *testing.T) {
	float := func(x float64) *big.Float { return new(big.Float).SetPrec(2000).SetFloat64(x) }
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		a, b := rng.NormFloat64(), rng.NormFloat64()
		a *= float64(uint64(1) << rng.IntN(60))
		large, small := a, b
		if b*b > a*a {
			large, small = b, a
		}
		for _, x := range []struct {
			name string
			got  Pair
			want *big.Float
		}{
			{"Sum", Sum(a, b), float(0).Add(float(a), float(b))},
			{"Add", Add(large, small), float(0).Add(float(a), float(b))},
			{"Product", Product(a, b), float(0).Mul(float(a), float(b))},
		} {
			rounded, _ := x.want.Float64()
			if float(0).Add(float(x.got.Hi), float(x.got.Lo)).Cmp(x.want) != 0 || x.got.Hi != rounded {
				t.Fatalf("%s of %g and %g: %v, want %v", x.name, a, b, x.got, x.want)
			}
		}
	}
}
