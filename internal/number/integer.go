package number

import "math"

// pairs is "00" "01" … "99": two digits for one division.
const pairs = "0001020304050607080910111213141516171819" +
	"2021222324252627282930313233343536373839" +
	"4041424344454647484950515253545556575859" +
	"6061626364656667686970717273747576777879" +
	"8081828384858687888990919293949596979899"

// MaxIntLen is the longest text of an int64: "-9223372036854775808".
const MaxIntLen = 20

// AppendInt appends n in decimal.
func AppendInt(dst []byte, n int64) []byte {
	if n < 0 {
		return AppendUint(append(dst, '-'), -uint64(n))
	}
	return AppendUint(dst, uint64(n))
}

// AppendUint appends n in decimal.
func AppendUint(dst []byte, n uint64) []byte {
	if n < 10 {
		return append(dst, byte('0'+n))
	}
	if n < 100 {
		return append(dst, pairs[n*2], pairs[n*2+1])
	}
	var text [MaxIntLen]byte
	at := len(text)
	for n >= 100 {
		at -= 2
		pair := n % 100 * 2
		n /= 100
		text[at], text[at+1] = pairs[pair], pairs[pair+1]
	}
	if n < 10 {
		at--
		text[at] = byte('0' + n)
	} else {
		at -= 2
		text[at], text[at+1] = pairs[n*2], pairs[n*2+1]
	}
	return append(dst, text[at:]...)
}

// IntLen is len(AppendInt(nil, n)) without writing it.
func IntLen(n int64) int {
	if n < 0 {
		return 1 + UintLen(-uint64(n))
	}
	return UintLen(uint64(n))
}

// UintLen is len(AppendUint(nil, n)) without writing it.
func UintLen(n uint64) int {
	digits := 1
	for n >= 10000 {
		n /= 10000
		digits += 4
	}
	switch {
	case n >= 1000:
		return digits + 3
	case n >= 100:
		return digits + 2
	case n >= 10:
		return digits + 1
	}
	return digits
}

// ParseInt reads the one canonical text of an int64: an optional '-', no '+', no blanks, no leading zero, no "-0".
// So AppendInt of the result gives text back, which is why a value may be kept as an integer instead of its bytes.
func ParseInt(text []byte) (n int64, ok bool) {
	if len(text) == 0 || len(text) > MaxIntLen {
		return 0, false
	}
	digits, negative := text, text[0] == '-'
	if negative {
		digits = text[1:]
	}
	u, ok := ParseUint(digits)
	switch {
	case !ok:
		return 0, false
	case !negative:
		return int64(u), u <= math.MaxInt64
	default:
		return -int64(u), u != 0 && u <= 1<<63
	}
}

// ParseUint reads the one canonical text of a uint64: digits alone, without a leading zero.
func ParseUint(text []byte) (n uint64, ok bool) {
	if len(text) == 0 || len(text) > MaxIntLen {
		return 0, false
	}
	first := text[0] - '0'
	if first > 9 || first == 0 && len(text) > 1 {
		return 0, false
	}
	n = uint64(first)
	for _, c := range text[1:] {
		digit := uint64(c - '0')
		if digit > 9 || n > math.MaxUint64/10 || n*10 > math.MaxUint64-digit {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, true
}
