package geo

import (
	"math"
	"math/big"

	"spindle/internal/exact"
)

// Distances are stored (STOREDIST) and sorted with all their bits, so they must not differ between machines. Package
// math may differ in the last one or two bits. So sine, cosine and arcsine are computed here to the nearest double, as
// C libraries almost always do. A value is an exact.Pair until the final rounding.

// The table holds the sine and cosine of grid angles for each radian, up to gridEnd radians.
const (
	grid    = 64
	gridEnd = 2
)

var angles = makeAngles()

type angle struct{ sin, cos exact.Pair }

// makeAngles computes each angle from the previous one by the sum formulas, with more digits than a pair holds.
func makeAngles() (table [grid*gridEnd + 1]angle) {
	const bits = 200
	float := func(x float64) *big.Float { return new(big.Float).SetPrec(bits).SetFloat64(x) }
	split := func(x *big.Float) exact.Pair {
		hi, _ := x.Float64()
		lo, _ := new(big.Float).Sub(x, float(hi)).Float64()
		return exact.Pair{Hi: hi, Lo: lo}
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

// piHi and piLo are π as a pair: their sum is more precise than a double.
const (
	piHi = 0x1.921fb54442d18p+1
	piLo = 0x1.1a62633145c07p-53
)

// sinCos returns the sine and cosine of x, 0 <= x <= gridEnd, with an error of about 2^-70.
func sinCos(x float64) (sin, cos exact.Pair) {
	i := math.RoundToEven(x * grid)
	at := &angles[int(i)]
	r := x - i/grid // exact: x and i/grid are close, or i is 0
	square := exact.Product(r, r)
	// sin r = r + rs, cos r = 1 + rc.Hi + rc.Lo
	rs := r * square.Hi * (-1./6 + square.Hi*(1./120-square.Hi*(1./5040)))
	rc := exact.Pair{Hi: -square.Hi / 2,
		Lo: -square.Lo/2 + square.Hi*square.Hi*(1./24-square.Hi*(1./720-square.Hi*(1./40320)))}

	p, q := exact.Product(at.cos.Hi, r), exact.Product(at.sin.Hi, rc.Hi)
	s := exact.Sum(at.sin.Hi, p.Hi)
	t := exact.Sum(s.Hi, q.Hi)
	sin = exact.Add(t.Hi, s.Lo+t.Lo+(at.sin.Lo+p.Lo+q.Lo+at.cos.Lo*r+at.sin.Hi*rc.Lo+at.sin.Lo*rc.Hi+at.cos.Hi*rs))

	p, q = exact.Product(-at.sin.Hi, r), exact.Product(at.cos.Hi, rc.Hi)
	s = exact.Sum(at.cos.Hi, p.Hi)
	t = exact.Sum(s.Hi, q.Hi)
	cos = exact.Add(t.Hi, s.Lo+t.Lo+(at.cos.Lo+p.Lo+q.Lo-at.sin.Lo*r+at.cos.Hi*rc.Lo+at.cos.Lo*rc.Hi-at.sin.Hi*rs))
	return sin, cos
}

// sine returns the sine of x, -2π <= x <= 2π, to the nearest double.
func sine(x float64) float64 {
	if x < 0 {
		return -sine(-x)
	}
	switch {
	case x <= gridEnd:
		sin, _ := sinCos(x)
		return sin.Hi
	case x > piHi:
		return -fromPi(x-piHi, -piLo)
	}
	return fromPi(piHi-x, piLo)
}

// fromPi returns the sine of y+rest. rest is far less than y, or y is 0.
func fromPi(y, rest float64) float64 {
	if y > gridEnd { // further than gridEnd from π: use the distance to 2π
		return fromPi(piHi-y, piLo-rest)
	}
	sin, cos := sinCos(y)
	return sin.Hi + (sin.Lo + rest*cos.Hi)
}

// cosine returns the cosine of x, to the nearest double if -2 <= x <= 2.
func cosine(x float64) float64 {
	if !(math.Abs(x) <= gridEnd) {
		return math.Cos(x)
	}
	_, cos := sinCos(math.Abs(x))
	return cos.Hi
}

// arcSine returns the arcsine of x, 0 <= x, to the nearest double. Above 1 it returns NaN.
func arcSine(x float64) float64 {
	switch {
	case !(x <= 1):
		return math.NaN()
	case x == 0:
		return 0
	case x <= 0.75:
		y := refine(x, 0)
		return y.Hi
	case x == 1:
		return piHi / 2
	}
	// asin x = π/2 - 2 asin √((1-x)/2), which keeps its digits near 1. half is exact.
	half := (1 - x) / 2
	root := math.Sqrt(half)
	y := refine(root, math.FMA(-root, root, half)/(2*root))
	z := exact.Sum(piHi/2, -2*y.Hi)
	return z.Hi + (z.Lo + (piLo/2 - 2*y.Lo))
}

// refine returns the arcsine of x+rest. It takes math.Asin, which is good to 2^-50, and one step of Newton's method.
func refine(x, rest float64) exact.Pair {
	y := math.Asin(x)
	sin, cos := sinCos(y)
	return exact.Add(y, (x-sin.Hi-sin.Lo+rest)/cos.Hi)
}
