package geo

import (
	"math"
	"math/big"
)

// Distances are stored (STOREDIST) and sorted with all their bits, so they must not differ between machines. Package
// math leaves the last one or two bits open. So sine, cosine and arcsine are computed here to the nearest double, as C
// libraries almost always do. A value is a sum of two doubles, about 100 bits, until the final rounding.
//
// geo.T1. A pair's lo is at most half a unit in the last place of hi: hi is the rounded pair.
type pair struct{ hi, lo float64 }

// sum is a+b, where |a| >= |b|.
func sum(a, b float64) pair {
	hi := a + b
	return pair{hi, b - float64(hi-a)}
}

// twoSum is a+b without a rounding error.
func twoSum(a, b float64) pair {
	hi := a + b
	t := hi - a
	return pair{hi, float64(a-float64(hi-t)) + float64(b-t)}
}

// product is a*b without a rounding error.
func product(a, b float64) pair {
	hi := a * b
	return pair{hi, math.FMA(a, b, -hi)}
}

// The table holds sine and cosine of grid angles per radian, up to gridEnd radians.
const (
	grid    = 64
	gridEnd = 2
)

var angles = makeAngles()

type angle struct{ sin, cos pair }

// makeAngles computes each angle from the one before by the sum formulas, with more digits than a pair holds.
func makeAngles() (table [grid*gridEnd + 1]angle) {
	const bits = 200
	float := func(x float64) *big.Float { return new(big.Float).SetPrec(bits).SetFloat64(x) }
	split := func(x *big.Float) pair {
		hi, _ := x.Float64()
		lo, _ := new(big.Float).Sub(x, float(hi)).Float64()
		return pair{hi, lo}
	}
	stepSin, stepCos := float(0), float(0)
	term := float(1) // grid^-n / n!
	for n := 0; n < 24; n++ {
		series := stepCos
		if n%2 != 0 {
			series = stepSin
		}
		if n%4 < 2 {
			series.Add(series, term)
		} else {
			series.Sub(series, term)
		}
		term.Quo(term, float(float64(n+1)*grid))
	}
	sin, cos := float(0), float(1)
	var a, b big.Float
	for i := range table {
		table[i] = angle{split(sin), split(cos)}
		nextSin := new(big.Float).Add(a.Mul(sin, stepCos), b.Mul(cos, stepSin))
		cos = new(big.Float).Sub(a.Mul(cos, stepCos), b.Mul(sin, stepSin))
		sin = nextSin
	}
	return table
}

// piHi and piLo are π.
const (
	piHi = 0x1.921fb54442d18p+1
	piLo = 0x1.1a62633145c07p-53
)

// sinCos is the sine and cosine of x, 0 <= x <= gridEnd, with an error of about 2^-70.
func sinCos(x float64) (sin, cos pair) {
	i := math.RoundToEven(x * grid)
	at := &angles[int(i)]
	r := x - i/grid // exact: x and i/grid are close, or i is 0
	square := product(r, r)
	// sin r = r + rs, cos r = 1 + rc.hi + rc.lo
	rs := r * square.hi * (-1./6 + square.hi*(1./120-square.hi*(1./5040)))
	rc := pair{-square.hi / 2, -square.lo/2 + square.hi*square.hi*(1./24-square.hi*(1./720-square.hi*(1./40320)))}

	p, q := product(at.cos.hi, r), product(at.sin.hi, rc.hi)
	s := twoSum(at.sin.hi, p.hi)
	t := twoSum(s.hi, q.hi)
	sin = sum(t.hi, s.lo+t.lo+(at.sin.lo+p.lo+q.lo+at.cos.lo*r+at.sin.hi*rc.lo+at.sin.lo*rc.hi+at.cos.hi*rs))

	p, q = product(-at.sin.hi, r), product(at.cos.hi, rc.hi)
	s = twoSum(at.cos.hi, p.hi)
	t = twoSum(s.hi, q.hi)
	cos = sum(t.hi, s.lo+t.lo+(at.cos.lo+p.lo+q.lo-at.sin.lo*r+at.cos.hi*rc.lo+at.cos.lo*rc.hi-at.sin.hi*rs))
	return sin, cos
}

// sine is the sine of x, -2π <= x <= 2π, to the nearest double.
func sine(x float64) float64 {
	if x < 0 {
		return -sine(-x)
	}
	switch {
	case x <= gridEnd:
		sin, _ := sinCos(x)
		return sin.hi
	case x > piHi:
		return -fromPi(x-piHi, -piLo)
	}
	return fromPi(piHi-x, piLo)
}

// fromPi is the sine of y+rest; rest is far less than y, or y is 0.
func fromPi(y, rest float64) float64 {
	if y > gridEnd { // further than gridEnd from π: use the distance to 2π
		return fromPi(piHi-y, piLo-rest)
	}
	sin, cos := sinCos(y)
	return sin.hi + (sin.lo + rest*cos.hi)
}

// cosine is the cosine of x, to the nearest double if -2 <= x <= 2.
func cosine(x float64) float64 {
	if !(math.Abs(x) <= gridEnd) {
		return math.Cos(x)
	}
	_, cos := sinCos(math.Abs(x))
	return cos.hi
}

// arcSine is the arcsine of x, 0 <= x, to the nearest double; NaN above 1.
func arcSine(x float64) float64 {
	switch {
	case !(x <= 1):
		return math.NaN()
	case x == 0:
		return 0
	case x <= 0.75:
		y := refine(x, 0)
		return y.hi
	case x == 1:
		return piHi / 2
	}
	// asin x = π/2 - 2 asin √((1-x)/2), which keeps its digits near 1. half is exact.
	half := (1 - x) / 2
	root := math.Sqrt(half)
	y := refine(root, math.FMA(-root, root, half)/(2*root))
	z := twoSum(piHi/2, -2*y.hi)
	return z.hi + (z.lo + (piLo/2 - 2*y.lo))
}

// refine is the arcsine of x+rest: math.Asin, good to 2^-50, and one step of Newton's method.
func refine(x, rest float64) pair {
	y := math.Asin(x)
	sin, cos := sinCos(y)
	return sum(y, (x-sin.hi-sin.lo+rest)/cos.hi)
}
