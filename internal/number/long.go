package number

import (
	"math"
	"math/big"
	"math/bits"
)

// A Long is an x87 long double, the type of INCRBYFLOAT and HINCRBYFLOAT. Its value is ±mant × 2^exp, with a mantissa
// of 64 bits and an exponent of 15.
//
// number.I1. The highest bit of mant is set, or mant is 0 (then exp is 0 and neg false).
//
// Long doubles below the smallest normal one keep their whole mantissa here. The difference is invisible, because with
// 17 decimals both print as "0".
type Long struct {
	mant uint64
	exp  int
	neg  bool
	inf  bool
}

const (
	longMaxTop   = 16383    // the greatest exponent of the highest bit
	longMinTop   = -16446   // at or below this power of two a text is zero, which is refused as underflow
	longMaxText  = 5 * 1024 // texts of at least this length are refused
	longDecimals = 17       // digits after the point
	ten17        = uint64(1e17)
)

// LongFromInt converts exactly.
func LongFromInt(n int64) Long {
	l := Long{neg: n < 0, mant: uint64(n)}
	if l.neg {
		l.mant = -l.mant
	}
	return l.normal()
}

func (l Long) normal() Long {
	if l.mant == 0 {
		return Long{}
	}
	shift := bits.LeadingZeros64(l.mant)
	l.mant <<= shift
	l.exp -= shift
	return l
}

// top returns the exponent of the highest bit.
func (l Long) top() int { return l.exp + 63 }

// ParseLong reads a long double as C's strtold does. It refuses the same texts as ParseDouble.
func ParseLong(text []byte) (l Long, ok bool) {
	if len(text) >= longMaxText {
		return Long{}, false
	}
	form, nonzero := scanFloat(text)
	negative := len(text) > 0 && text[0] == '-'
	switch form {
	case notFloat:
		return Long{}, false
	case infinity:
		return Long{inf: true, neg: negative}, true
	case decimalFloat:
		l, ok = parseDecimal(text)
	default:
		l, ok = parseHex(text)
	}
	if !ok || nonzero && l.mant == 0 || l.mant != 0 && l.top() > longMaxTop {
		return Long{}, false
	}
	if l.mant != 0 && (l.top() < longMinTop || l.top() == longMinTop && l.mant == 1<<63) {
		return Long{}, false
	}
	l.neg = negative && l.mant != 0
	return l, true
}

// parseDecimal reads digits × 10^exp, ignores the sign, and rounds to nearest, ties to even.
func parseDecimal(text []byte) (Long, bool) {
	var mantissa uint64
	digits, exp, point, exact := 0, 0, false, true
	i := 0
	if text[0] == '-' || text[0] == '+' {
		i++
	}
	from := i
	for ; i < len(text) && text[i]|0x20 != 'e'; i++ {
		c := text[i]
		switch {
		case c == '.':
			point = true
			continue
		case digits == 19: // mantissa is full
			exact = exact && c == '0'
			if !point {
				exp++
			}
			continue
		case c != '0' || digits > 0:
			mantissa = mantissa*10 + uint64(c-'0')
			digits++
		}
		if point {
			exp--
		}
	}
	end := i
	power := parseExponent(text[min(i+1, len(text)):])
	exp += power
	switch {
	case exact && mantissa == 0:
		return Long{}, true
	case exp > 5000:
		return Long{}, false // far too great
	case exp < -longMaxText-5000:
		return Long{}, false // far too small
	case exact && exp >= 0 && exp <= 27:
		hi, lo := bits.Mul64(mantissa, pow5(exp))
		return roundLong(hi, lo, exp), true
	case exact && exp < 0 && exp >= -27:
		return divideLong(mantissa, pow5(-exp), exp), true
	}
	return parseDecimalSlowly(text[from:end], power), true
}

// parseExponent reads the digits after 'e', which must be valid. Values beyond ±100000 are clamped.
func parseExponent(text []byte) (n int) {
	negative := false
	for _, c := range text {
		switch {
		case c == '-':
			negative = true
		case c != '+':
			n = min(n*10+int(c-'0'), 100000)
		}
	}
	if negative {
		return -n
	}
	return n
}

// pow5 returns 5^n for n up to 27, the greatest n whose result fits.
func pow5(n int) uint64 {
	power := uint64(1)
	for range n {
		power *= 5
	}
	return power
}

// roundLong returns (hi,lo) × 2^exp, rounded to nearest even.
func roundLong(hi, lo uint64, exp int) Long {
	if hi == 0 {
		return Long{mant: lo, exp: exp}.normal()
	}
	shift := bits.LeadingZeros64(hi)
	hi = hi<<shift | lo>>(64-shift)
	lo <<= shift
	return roundUp(hi, exp+64-shift, lo > 1<<63 || lo == 1<<63 && hi&1 == 1)
}

func roundUp(mant uint64, exp int, up bool) Long {
	if up {
		if mant++; mant == 0 {
			mant, exp = 1<<63, exp+1
		}
	}
	return Long{mant: mant, exp: exp}
}

// divideLong returns a/b × 2^exp, rounded to nearest even. Neither a nor b is 0.
func divideLong(a, b uint64, exp int) Long {
	shiftA, shiftB := bits.LeadingZeros64(a), bits.LeadingZeros64(b)
	a <<= shiftA
	b <<= shiftB
	exp += shiftB - shiftA - 64
	hi, lo := a, uint64(0)
	if a >= b { // so that the quotient fits, and has its highest bit
		hi, lo = a>>1, a<<63
		exp++
	}
	quotient, rest := bits.Div64(hi, lo, b)
	return roundUp(quotient, exp, rest > b-rest || rest == b-rest && quotient&1 == 1)
}

// parseDecimalSlowly is parseDecimal for any number of digits and any exponent.
func parseDecimalSlowly(mantissa []byte, exp int) Long {
	digits := make([]byte, 0, len(mantissa))
	point := false
	for _, c := range mantissa {
		if c == '.' {
			point = true
			continue
		}
		digits = append(digits, c)
		if point {
			exp--
		}
	}
	n, _ := new(big.Int).SetString(string(digits), 10)
	ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exp, -exp))), nil)
	f := new(big.Float).SetPrec(64)
	if exp >= 0 {
		f.SetInt(n.Mul(n, ten))
	} else {
		f.SetRat(new(big.Rat).SetFrac(n, ten))
	}
	return fromBig(f)
}

// parseHex reads 0x… with or without p…
func parseHex(text []byte) (Long, bool) {
	i := 2
	if text[0] == '-' || text[0] == '+' {
		i++
	}
	n, exp, point := new(big.Int), 0, false
	for ; i < len(text) && text[i]|0x20 != 'p'; i++ {
		c := text[i]
		if c == '.' {
			point = true
			continue
		}
		digit := c - '0'
		if digit > 9 {
			digit = (c | 0x20) - 'a' + 10
		}
		n.Lsh(n, 4).Or(n, big.NewInt(int64(digit)))
		if point {
			exp -= 4
		}
	}
	exp += parseExponent(text[min(i+1, len(text)):])
	l := fromBig(new(big.Float).SetPrec(64).SetInt(n))
	if l.mant != 0 {
		l.exp += exp
	}
	return l, true
}

// fromBig converts a number that has 64 bits of precision and is not negative.
func fromBig(f *big.Float) Long {
	if f.Sign() == 0 {
		return Long{}
	}
	mantissa := new(big.Float)
	exp := f.MantExp(mantissa)
	mant, _ := mantissa.SetMantExp(mantissa, 64).Uint64()
	return Long{mant: mant, exp: exp - 64}
}

// Add returns a+b, rounded to nearest even. ok is false if the sum is infinite or not a number.
func (a Long) Add(b Long) (sum Long, ok bool) {
	switch {
	case a.inf || b.inf:
		return Long{}, false
	case a.mant == 0:
		return b, true
	case b.mant == 0:
		return a, true
	case a.exp < b.exp || a.exp == b.exp && a.mant < b.mant:
		a, b = b, a
	}
	// a is the greater number. b is shifted below it into 128 bits; bits shifted out are sticky.
	distance := uint(a.exp - b.exp)
	var hi, lo, sticky uint64
	switch {
	case distance < 64:
		hi, lo = b.mant>>distance, b.mant<<(64-distance)
	case distance < 128:
		lo = b.mant >> (distance - 64)
		sticky = b.mant << (128 - distance)
	default:
		sticky = 1
	}
	exp := a.exp
	if a.neg == b.neg {
		var carry uint64
		hi, carry = bits.Add64(a.mant, hi, 0)
		if carry != 0 {
			sticky |= lo & 1
			lo = lo>>1 | hi<<63
			hi = hi>>1 | 1<<63
			exp++
		}
	} else {
		var borrow uint64
		if sticky != 0 {
			borrow = 1
		}
		lo, borrow = bits.Sub64(0, lo, borrow)
		hi, _ = bits.Sub64(a.mant, hi, borrow)
		if hi|lo == 0 {
			return Long{}, true
		}
		if hi == 0 {
			hi, lo = lo, 0
			exp -= 64
		}
		shift := bits.LeadingZeros64(hi)
		hi = hi<<shift | lo>>(64-shift)
		lo <<= shift
		exp -= shift
	}
	up := lo > 1<<63 || lo == 1<<63 && (sticky != 0 || hi&1 == 1)
	sum = roundUp(hi, exp, up)
	sum.neg = a.neg
	return sum, sum.top() <= longMaxTop
}

// Negated returns -l.
func (l Long) Negated() Long {
	l.neg = !l.neg && l.mant != 0
	return l
}

// Less reports whether a is less than b. Neither is infinite.
func (a Long) Less(b Long) bool {
	switch {
	case a.neg != b.neg:
		return a.neg
	case a.neg:
		a, b = b, a
	}
	if a.mant == 0 || b.mant == 0 || a.exp == b.exp {
		return a.mant < b.mant
	}
	return a.exp < b.exp
}

// AppendLong appends l in full, with up to 17 decimals and no zeros at the end: "10.5", "3", "-0.1".
func AppendLong(dst []byte, l Long) []byte {
	switch {
	case l.inf && l.neg:
		return append(dst, "-inf"...)
	case l.inf:
		return append(dst, "inf"...)
	case l.exp > 0:
		return appendWhole(dst, l)
	}
	// The number times 10^17, rounded, as an integer of 128 bits.
	hi, lo := bits.Mul64(l.mant, ten17)
	if shift := uint(-l.exp); shift >= 122 {
		hi, lo = 0, 0
	} else if shift > 0 {
		hi, lo = shiftRound(hi, lo, shift)
	}
	whole, part := uint64(0), uint64(0)
	if l.exp == 0 {
		whole = l.mant // here the integer may exceed what Div64 accepts
	} else {
		whole, part = bits.Div64(hi, lo, ten17)
	}
	if l.neg && whole|part != 0 {
		dst = append(dst, '-')
	}
	dst = AppendUint(dst, whole)
	if part == 0 {
		return dst
	}
	dst = append(dst, ".00000000000000000"...)
	for i := len(dst) - 1; part != 0; i-- {
		dst[i] = byte('0' + part%10)
		part /= 10
	}
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// shiftRound returns (hi,lo) >> shift, rounded to nearest even; 0 < shift < 128.
func shiftRound(hi, lo uint64, shift uint) (uint64, uint64) {
	var rest, half uint64 // the bits shifted out, the highest first
	var below uint64      // the bits that do not fit rest
	if shift <= 64 {
		rest = lo << (64 - shift)
		lo = lo>>shift | hi<<(64-shift)
		hi >>= shift
	} else {
		rest = hi<<(128-shift) | lo>>(shift-64)
		below = lo << (128 - shift)
		lo = hi >> (shift - 64)
		hi = 0
	}
	half = 1 << 63
	if rest > half || rest == half && (below != 0 || lo&1 == 1) {
		var carry uint64
		lo, carry = bits.Add64(lo, 1, 0)
		hi += carry
	}
	return hi, lo
}

// appendWhole appends a number without a fraction, which may have thousands of digits.
func appendWhole(dst []byte, l Long) []byte {
	if l.neg {
		dst = append(dst, '-')
	}
	n := new(big.Int).SetUint64(l.mant)
	return n.Lsh(n, uint(l.exp)).Append(dst, 10)
}

// Float64 returns l as a double.
func (l Long) Float64() float64 {
	f := math.Ldexp(float64(l.mant), l.exp)
	if l.inf {
		f = math.Inf(1)
	}
	if l.neg {
		return -f
	}
	return f
}
