package number

import (
	"math"
	"math/big"
	"math/bits"
)

// Doubles are printed by Grisu2 (Florian Loitsch, "Printing Floating-Point Numbers Quickly and Accurately with
// Integers", 2010), as in Redis. The text always reads back exactly. In about one number of a thousand it has one digit
// more than the shortest text. A printer that is always shortest would differ there.
//
// A double f and its two boundaries, halfway to its neighbours, are scaled by a cached power of ten. That brings their
// binary exponent into [minExp, maxExp]. Then digits of the upper boundary are produced until the rest is within the
// interval. Finally the last digit is moved as close to f as the interval allows.

// A float is frac × 2^exp.
type float struct {
	frac uint64
	exp  int
}

const (
	hiddenBit = uint64(1) << 52
	fracMask  = hiddenBit - 1
	expBias   = 1023 + 52

	firstPower = -348 // the cached powers are 10^firstPower, 10^(firstPower+stepPowers), …
	stepPowers = 8
	powerCount = 87
	minExp     = -60
	maxExp     = -32
)

// powersOfTen[i] is 10^(firstPower+i*stepPowers) rounded to 64 bits.
var powersOfTen = cachedPowers()

func cachedPowers() (powers [powerCount]float) {
	for i := range powers {
		k := firstPower + i*stepPowers
		power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(k, -k))), nil)
		f := new(big.Float).SetPrec(64).SetInt(power)
		if k < 0 {
			f = new(big.Float).SetPrec(64).Quo(big.NewFloat(1), new(big.Float).SetPrec(2000).SetInt(power))
		}
		mantissa := new(big.Float)
		exp := f.MantExp(mantissa) // f = mantissa × 2^exp, mantissa in [0.5, 1)
		frac, _ := mantissa.SetMantExp(mantissa, 64).Uint64()
		powers[i] = float{frac, exp - 64}
	}
	return powers
}

// times multiplies and rounds to 64 bits; the result is not normalized.
func (a float) times(b float) float {
	hi, lo := bits.Mul64(a.frac, b.frac)
	return float{hi + lo>>63, a.exp + b.exp + 64}
}

// normal shifts the highest bit to the top.
func (a float) normal() float {
	shift := bits.LeadingZeros64(a.frac)
	return float{a.frac << shift, a.exp - shift}
}

// powerFor returns the cached power that brings exp into [minExp, maxExp], and its decimal exponent.
func powerFor(exp int) (float, int) {
	const log10of2 = 0.30102999566398114
	i := (int(-float64(exp+powerCount)*log10of2) - firstPower) / stepPowers
	for {
		switch now := exp + powersOfTen[i].exp + 64; {
		case now < minExp:
			i++
		case now > maxExp:
			i--
		default:
			return powersOfTen[i], firstPower + i*stepPowers
		}
	}
}

// grisu2 writes the digits of f, which must be finite and above zero: f ≈ digits[:n] × 10^k.
func grisu2(f float64, digits *[18]byte) (n, k int) {
	raw := math.Float64bits(f)
	w := float{raw & fracMask, int(raw >> 52 & 0x7ff)}
	if w.exp != 0 {
		w.frac |= hiddenBit
		w.exp -= expBias
	} else {
		w.exp = 1 - expBias
	}

	upper := float{w.frac<<1 + 1, w.exp - 1}.normal()
	lower := float{w.frac<<1 - 1, w.exp - 1}
	if w.frac == hiddenBit { // the neighbour below is half as far
		lower = float{w.frac<<2 - 1, w.exp - 2}
	}
	lower = float{lower.frac << uint(lower.exp-upper.exp), upper.exp}

	power, k := powerFor(upper.exp)
	w, upper, lower = w.normal().times(power), upper.times(power), lower.times(power)
	lower.frac++ // one unit of error each for the rounding above
	upper.frac--
	n, kappa := interval(w, upper, lower, digits)
	return n, kappa - k
}

// interval writes the fewest digits that are between lower and upper: digits × 10^kappa.
func interval(w, upper, lower float, digits *[18]byte) (n, kappa int) {
	distance, delta := upper.frac-w.frac, upper.frac-lower.frac
	shift := uint(-upper.exp)
	one := uint64(1) << shift
	whole, part := upper.frac>>shift, upper.frac&(one-1)

	kappa = 10
	for div := uint64(1e9); kappa > 0; div /= 10 {
		digit := whole / div
		whole -= digit * div
		if digit != 0 || n != 0 {
			digits[n] = byte('0' + digit)
			n++
		}
		kappa--
		if rest := whole<<shift + part; rest <= delta {
			nearer(digits[:n], delta, rest, div<<shift, distance)
			return n, kappa
		}
	}
	for unit := uint64(10); ; unit *= 10 {
		part *= 10
		delta *= 10
		kappa--
		digit := part >> shift
		part &= one - 1
		if digit != 0 || n != 0 {
			digits[n] = byte('0' + digit)
			n++
		}
		if part < delta {
			nearer(digits[:n], delta, part, one, distance*unit)
			return n, kappa
		}
	}
}

// nearer lowers the last digit while the result stays inside the interval and comes closer to the number itself.
func nearer(digits []byte, delta, rest, ten, distance uint64) {
	for rest < distance && delta-rest >= ten &&
		(rest+ten < distance || distance-rest > rest+ten-distance) {
		digits[len(digits)-1]--
		rest += ten
	}
}

// appendShortest appends f in Redis's layout: plain while the exponent is small, otherwise with e+NN. f is finite and
// not zero.
func appendShortest(dst []byte, f float64) []byte {
	most := 18
	if f < 0 {
		dst = append(dst, '-')
		f, most = -f, 17
	}
	var buf [18]byte
	n, k := grisu2(f, &buf)
	digits := buf[:n]
	exp := k + n - 1 // of the first digit
	size := max(exp, -exp)
	switch {
	case k >= 0 && size < n+7:
		dst = append(dst, digits...)
		return appendZeros(dst, k)
	case k < 0 && (k > -7 || size < 4):
		if point := n + k; point > 0 {
			dst = append(dst, digits[:point]...)
			dst = append(dst, '.')
			return append(dst, digits[point:]...)
		}
		dst = appendZeros(append(dst, "0."...), -k-n)
		return append(dst, digits...)
	}
	digits = digits[:min(n, most)]
	dst = append(dst, digits[0])
	if len(digits) > 1 {
		dst = append(append(dst, '.'), digits[1:]...)
	}
	sign := byte('+')
	if exp < 0 {
		sign = '-'
	}
	return AppendUint(append(dst, 'e', sign), uint64(size))
}

func appendZeros(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, '0')
	}
	return dst
}
