package lua

import (
	"math"
	"strconv"
	"strings"
)

// arithmetic applies an operator to two numbers. Unary minus ignores y.
func arithmetic(o opcode, x, y float64) float64 {
	switch o {
	case opAdd:
		return x + y
	case opSub:
		return x - y
	case opMul:
		return x * y
	case opDiv:
		return x / y
	case opMod:
		return modulo(x, y)
	case opPow:
		return power(x, y)
	}
	return -x
}

func modulo(x, y float64) float64 { return x - math.Floor(x/y)*y }

// toNumber converts v to a number as arithmetic does. It also converts strings.
func toNumber(v Value) (float64, bool) {
	if v.n < firstTag {
		return v.Float(), true
	}
	if v.IsString() {
		return parseNumber(v.str())
	}
	return 0, false
}

// toNumber calls the function toNumber. It spends budget for a string.
func (s *State) toNumber(v Value) (float64, bool) {
	if v.IsString() {
		s.budget -= v.textLen() >> 2
	}
	return toNumber(v)
}

// parseNumber reads a number as C's strtod does, with surrounding blanks, hexadecimal, inf and nan.
func parseNumber(s string) (float64, bool) {
	s = cString(s)
	f, n := scanNumber(s)
	if n == 0 {
		return 0, false
	}
	rest := s[n:]
	if rest != "" && (rest[0] == 'x' || rest[0] == 'X') { // strtod stopped after a zero; strtoul may read more
		u, m := scanUnsigned(s, 16)
		f, rest = float64(u), s[m:]
	}
	for rest != "" && isSpace(int(rest[0])) {
		rest = rest[1:]
	}
	return f, rest == ""
}

// scanNumber is C's strtod: it returns the number at the start of s, and its length in bytes. n is 0 if there is no
// number.
func scanNumber(s string) (f float64, n int) {
	i := 0
	for i < len(s) && isSpace(int(s[i])) {
		i++
	}
	start := i
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		i++
	}
	negative := i > start && s[start] == '-'
	body := s[i:]
	if word, value := scanWord(body); word > 0 {
		if negative {
			value = math.Copysign(value, -1)
		}
		return value, i + word
	}
	if len(body) > 2 && body[0] == '0' && body[1]|0x20 == 'x' {
		if l := scanHexFloat(body[2:]); l > 0 {
			return parseHexFloat(body[2:2+l], negative), i + 2 + l
		}
	}
	l := scanDecimal(body)
	if l == 0 {
		return 0, 0
	}
	if l <= 15 { // small integers need no general conversion
		if u, ok := smallInteger(body[:l]); ok {
			f = float64(u)
			if negative {
				f = -f
			}
			return f, i + l
		}
	}
	f, _ = strconv.ParseFloat(s[start:i+l], 64) // as in strtod, out of range gives an infinity or 0
	return f, i + l
}

func smallInteger(s string) (uint64, bool) {
	u := uint64(0)
	for i := 0; i < len(s); i++ {
		if !isDigit(int(s[i])) {
			return 0, false
		}
		u = u*10 + uint64(s[i]-'0')
	}
	return u, true
}

func scanWord(s string) (n int, f float64) {
	lower := strings.ToLower(s[:min(len(s), 8)])
	switch {
	case lower == "infinity":
		return 8, math.Inf(1)
	case strings.HasPrefix(lower, "inf"):
		return 3, math.Inf(1)
	case strings.HasPrefix(lower, "nan"):
		n = 3
		if len(s) > 3 && s[3] == '(' {
			i := 4
			for i < len(s) && (isAlnum(int(s[i])) || s[i] == '_') {
				i++
			}
			if i < len(s) && s[i] == ')' {
				n = i + 1
			}
		}
		return n, math.Float64frombits(0x7FF8 << 48)
	}
	return 0, 0
}

func scanDigits(s string, i int, is func(int) bool) int {
	for i < len(s) && is(int(s[i])) {
		i++
	}
	return i
}

// scanExponent returns the end of an exponent that begins at i with mark, or i.
func scanExponent(s string, i int, mark byte) int {
	if i < len(s) && s[i]|0x20 == mark {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		if end := scanDigits(s, j, isDigit); end > j {
			return end
		}
	}
	return i
}

func scanDecimal(s string) int {
	i := scanDigits(s, 0, isDigit)
	digits := i
	if i < len(s) && s[i] == '.' {
		j := scanDigits(s, i+1, isDigit)
		digits += j - i - 1
		i = j
	}
	if digits == 0 {
		return 0
	}
	return scanExponent(s, i, 'e')
}

func scanHexFloat(s string) int {
	i := scanDigits(s, 0, isHex)
	digits := i
	if i < len(s) && s[i] == '.' {
		j := scanDigits(s, i+1, isHex)
		digits += j - i - 1
		i = j
	}
	if digits == 0 {
		return 0
	}
	return scanExponent(s, i, 'p')
}

func parseHexFloat(s string, negative bool) float64 {
	if strings.IndexAny(s, "pP") < 0 {
		s += "p0"
	}
	f, _ := strconv.ParseFloat("0x"+s, 64)
	if negative {
		return -f
	}
	return f
}

// scanUnsigned is C's strtoul: it returns the number and its length in bytes. Out of range it returns the largest
// number.
func scanUnsigned(s string, base int) (u uint64, n int) {
	i := 0
	for i < len(s) && isSpace(int(s[i])) {
		i++
	}
	negative := false
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		negative = s[i] == '-'
		i++
	}
	if base == 16 && i+2 < len(s) && s[i] == '0' && s[i+1]|0x20 == 'x' && isHex(int(s[i+2])) {
		i += 2
	}
	first, overflow := i, false
	for ; i < len(s); i++ {
		d := 99
		switch c := int(s[i]); {
		case isDigit(c):
			d = c - '0'
		case isAlpha(c):
			d = c | 0x20 - 'a' + 10
		}
		if d >= base {
			break
		}
		if u > (math.MaxUint64-uint64(d))/uint64(base) {
			overflow = true
		}
		u = u*uint64(base) + uint64(d)
	}
	if i == first {
		return 0, 0
	}
	if overflow {
		return math.MaxUint64, i
	}
	if negative {
		u = -u
	}
	return u, i
}

// appendNumber appends f as tostring does: C's %.14g.
func appendNumber(dst []byte, f float64) []byte {
	if i := int64(f); float64(i) == f && i > -1e14 && i < 1e14 && (i != 0 || !math.Signbit(f)) {
		return strconv.AppendInt(dst, i, 10)
	}
	switch {
	case f != f:
		if math.Signbit(f) {
			return append(dst, "-nan"...)
		}
		return append(dst, "nan"...)
	case math.IsInf(f, 1):
		return append(dst, "inf"...)
	case math.IsInf(f, -1):
		return append(dst, "-inf"...)
	}
	return appendG(dst, f, 14, false, false)
}

// appendG appends C's %.<precision>g of a finite number. keepZeros is the flag #.
func appendG(dst []byte, f float64, precision int, upper, keepZeros bool) []byte {
	if precision == 0 {
		precision = 1
	}
	var room [64]byte
	digits := strconv.AppendFloat(room[:0], f, 'e', precision-1, 64)
	e := len(digits) - 1
	for digits[e] != 'e' {
		e--
	}
	exponent, _ := strconv.Atoi(string(digits[e+1:]))
	if exponent < -4 || exponent >= precision {
		mantissa := digits[:e]
		if !keepZeros {
			mantissa = trimZeros(mantissa)
		} else if precision == 1 {
			mantissa = append(append([]byte{}, mantissa...), '.')
			dst = append(dst, mantissa...)
			return appendExponent(dst, exponent, upper)
		}
		dst = append(dst, mantissa...)
		return appendExponent(dst, exponent, upper)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', precision-1-exponent, 64)
	if !keepZeros {
		return dst[:start+len(trimZeros(dst[start:]))]
	}
	if precision-1-exponent == 0 {
		dst = append(dst, '.')
	}
	return dst
}

func appendExponent(dst []byte, exponent int, upper bool) []byte {
	mark, sign := byte('e'), byte('+')
	if upper {
		mark = 'E'
	}
	if exponent < 0 {
		sign, exponent = '-', -exponent
	}
	dst = append(dst, mark, sign)
	if exponent < 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, int64(exponent), 10)
}

// trimZeros removes trailing zeros of a fraction, and then a trailing point.
func trimZeros(s []byte) []byte {
	point := false
	for _, c := range s {
		point = point || c == '.'
	}
	if !point {
		return s
	}
	for s[len(s)-1] == '0' {
		s = s[:len(s)-1]
	}
	if s[len(s)-1] == '.' {
		s = s[:len(s)-1]
	}
	return s
}

// toInteger converts f like a C cast to 64 bits on x86. A number out of range gives the least integer.
func toInteger(f float64) int64 {
	if f >= -9223372036854775808 && f < 9223372036854775808 {
		return int64(f)
	}
	return math.MinInt64
}
