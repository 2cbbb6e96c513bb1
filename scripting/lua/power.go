package lua

import (
	"math"

	"spindle/internal/exact"
)

// power is C's pow. Its error is far below what %.14g shows. Go's own pow is less exact.
func power(x, y float64) float64 {
	switch y {
	case 2:
		return x * x
	case 0.5:
		if x > 0 && !math.IsInf(x, 1) {
			return math.Sqrt(x)
		}
	}
	if x != x && y != 0 {
		if math.Abs(math.Mod(y, 2)) == 1 { // C's pow drops the sign of a NaN for odd powers
			return math.Abs(x)
		}
		return x
	}
	if y != y && x != 1 {
		return y
	}
	if x == 0 || x != x || y != y || math.IsInf(x, 0) || math.IsInf(y, 0) || y == 0 || x == 1 {
		return math.Pow(x, y)
	}
	sign := 1.0
	if x < 0 {
		if y != math.Trunc(y) {
			return invalidResult
		}
		if math.Mod(y, 2) != 0 {
			sign = -1
		}
		x = -x
	}
	log := preciseLog(x)
	t := exact.Product(y, log.Hi)
	p, q := t.Hi, t.Lo+y*log.Lo
	if p > 710 {
		return sign * math.Inf(1)
	}
	if p < -746 {
		return sign * 0
	}
	return sign * preciseExp(p, q)
}

// preciseLog returns the natural logarithm of a positive number.
func preciseLog(x float64) exact.Pair {
	// One step of Newton's method on e^l = x, with the residual in double precision.
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	// log(m) = 2 atanh(s), s = (m-1)/(m+1), in two parts
	num, den := m-1, m+1
	denLow := m - (den - 1)
	s := num / den
	sLow := (math.FMA(-s, den, num) - s*denLow) / den
	s2 := s * s
	// atanh(s) = s + s^3/3 + s^5/5 + …; |s| < 0.172
	series := 0.0
	for k := 27; k >= 5; k -= 2 {
		series = series*s2 + 1/float64(k)
	}
	// the term of s^3/3 in two parts
	c := exact.Product(s2, s)
	c.Lo = c.Lo + math.FMA(s, s, -s2)*s + 3*s2*sLow
	third := c.Hi / 3
	thirdLow := math.FMA(-third, 3, c.Hi)/3 + c.Lo/3
	tail := series * s2 * c.Hi
	half := exact.Sum(s, third)
	half = exact.Sum(half.Hi, half.Lo+(sLow+thirdLow)+tail)
	const ln2Hi, ln2Lo = 0x1.62e42fefa3800p-1, 0x1.ef35793c76730p-45 // ln2Hi has 11 zero bits: times e it is exact
	log := exact.Sum(float64(e)*ln2Hi, 2*half.Hi)
	return exact.Sum(log.Hi, log.Lo+(2*half.Lo+float64(e)*ln2Lo))
}

// preciseExp returns e^(p+q) for a small q.
func preciseExp(p, q float64) float64 {
	const ln2Hi, ln2Lo = 0x1.62e42fefa3800p-1, 0x1.ef35793c76730p-45
	k := math.Round(p / math.Ln2)
	x := exact.Sum(p-k*ln2Hi, -k*ln2Lo)
	x = exact.Sum(x.Hi, x.Lo+(q+math.FMA(-k, ln2Lo, k*ln2Lo)))
	r := x.Hi
	// e^r = 1 + r + r^2/2 + …; |r| < 0.35
	series := 0.0
	for n := 18; n >= 3; n-- {
		series = (series + 1) * r / float64(n)
	}
	square := exact.Product(r, r)
	half := square.Hi / 2
	first := exact.Sum(1, r)
	sum := exact.Sum(first.Hi, half)
	rest := first.Lo + (sum.Lo + (half*series + square.Lo/2) + x.Lo*(1+r+half))
	return math.Ldexp(sum.Hi+rest, int(k))
}

// The functions below are closer to the C library's than Go's, whose last digits sometimes differ in %.14g.

func exponential(x float64) float64 {
	if x > 709 || x < -745 {
		return math.Exp(x)
	}
	return preciseExp(x, 0)
}

func logarithm(x float64) float64 {
	if x <= 0 || math.IsInf(x, 1) {
		return math.Log(x)
	}
	log := preciseLog(x)
	return log.Hi + log.Lo
}

func logarithm10(x float64) float64 {
	if x <= 0 || math.IsInf(x, 1) {
		return math.Log10(x)
	}
	log := preciseLog(x)
	const high, low = 0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57 // 1 / ln 10
	p := exact.Product(log.Hi, high)
	return p.Hi + (p.Lo + log.Hi*low + log.Lo*high)
}

func hyperbolicCosine(x float64) float64 {
	x = math.Abs(x)
	if x > 709 {
		return math.Cosh(x)
	}
	e := preciseExp(x, 0)
	return e/2 + 0.5/e
}

func hyperbolicSine(x float64) float64 {
	a := math.Abs(x)
	switch {
	case a > 709:
		return math.Sinh(x)
	case a > 1:
		e := preciseExp(a, 0)
		return math.Copysign(e/2-0.5/e, x)
	}
	t := math.Expm1(a)
	return math.Copysign((t+t/(t+1))/2, x)
}

func hyperbolicTangent(x float64) float64 {
	a := math.Abs(x)
	if a > 22 {
		return math.Copysign(1, x)
	}
	t := math.Expm1(2 * a)
	return math.Copysign(t/(t+2), x)
}
