package number

import (
	"math"
	"strconv"
	"unsafe"
)

// AppendDouble appends f as ZSCORE and RESP3's ',' show it: "nan", "inf", "-inf", "-0", and whole numbers below 2^62 in
// full. Other numbers become the shortest text that reads back as f, as far as Grisu2 finds it (see grisu.go).
func AppendDouble(dst []byte, f float64) []byte {
	// A double within these bounds converts safely to int64.
	if f >= -math.MaxInt64/2 && f <= math.MaxInt64/2 && f != 0 {
		if n := int64(f); float64(n) == f {
			return AppendInt(dst, n)
		}
	}
	return AppendShortest(dst, f)
}

// AppendShortest is AppendDouble, but treats large whole numbers like any other: 1e+20. DEBUG DIGEST uses it for
// scores.
func AppendShortest(dst []byte, f float64) []byte {
	switch {
	case f != f:
		return append(dst, "nan"...)
	case math.IsInf(f, 1):
		return append(dst, "inf"...)
	case math.IsInf(f, -1):
		return append(dst, "-inf"...)
	case f == 0:
		if math.Signbit(f) {
			return append(dst, "-0"...)
		}
		return append(dst, '0')
	}
	return appendShortest(dst, f)
}

// ParseDouble reads a double as C's strtod does. Like Redis it also refuses blanks, an empty text, trailing bytes, nan,
// overflow to infinity and underflow to zero. "inf", "infinity", "0x1p3" and a leading '+' are valid.
func ParseDouble(text []byte) (f float64, ok bool) {
	form, nonzero := scanFloat(text)
	if form == notFloat {
		return 0, false
	}
	s := unsafe.String(unsafe.SliceData(text), len(text)) // ParseFloat does not keep it
	if form == hexFloatNoExponent {
		s += "p0"
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f == 0 && nonzero {
		return 0, false
	}
	return f, true
}

// A floatForm is the form of a text that strtod accepts.
type floatForm uint8

const (
	notFloat floatForm = iota
	infinity
	decimalFloat
	hexFloat
	hexFloatNoExponent // 0x1F: valid for strtod, but strconv requires an exponent
)

// scanFloat returns text's form, and whether its mantissa has a digit that is not zero. NaN is not a float here.
func scanFloat(text []byte) (form floatForm, nonzero bool) {
	i := 0
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		i++
	}
	rest := text[i:]
	if isFold(rest, "inf") || isFold(rest, "infinity") {
		return infinity, true
	}
	hex := len(rest) > 2 && rest[0] == '0' && rest[1]|0x20 == 'x'
	if hex {
		i += 2
	}
	digits, dot := 0, false
	for ; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '.' && !dot:
			dot = true
			continue
		case c-'0' <= 9 || hex && (c|0x20)-'a' <= 5:
			digits++
			nonzero = nonzero || c != '0'
			continue
		}
		break
	}
	if digits == 0 {
		return notFloat, false
	}
	form = decimalFloat
	if hex {
		form = hexFloat
	}
	if i == len(text) {
		if hex {
			form = hexFloatNoExponent
		}
		return form, nonzero
	}
	if c := text[i] | 0x20; hex && c != 'p' || !hex && c != 'e' {
		return notFloat, false
	}
	i++
	if i < len(text) && (text[i] == '-' || text[i] == '+') {
		i++
	}
	if i == len(text) {
		return notFloat, false
	}
	for ; i < len(text); i++ {
		if text[i]-'0' > 9 {
			return notFloat, false
		}
	}
	return form, nonzero
}

// isFold reports whether text is word in any case; word is in lower case.
func isFold(text []byte, word string) bool {
	if len(text) != len(word) {
		return false
	}
	for i := range text {
		if text[i]|0x20 != word[i] {
			return false
		}
	}
	return true
}
