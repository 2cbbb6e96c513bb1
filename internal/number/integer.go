package number

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// pairs is "00" "01" … "99", which gives two digits for one division.
const pairs = "0001020304050607080910111213141516171819" +
	"2021222324252627282930313233343536373839" +
	"4041424344454647484950515253545556575859" +
	"6061626364656667686970717273747576777879" +
	"8081828384858687888990919293949596979899"

// MaxIntLen is the length of the longest int64: "-9223372036854775808".
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
	end := len(dst) + UintLen(n)
	if end > cap(dst) {
		dst = slices.Grow(dst, end-len(dst))
	}
	dst = dst[:end]
	at := end
	for n >= 100 {
		at -= 2
		pair := n % 100 * 2
		n /= 100
		dst[at], dst[at+1] = pairs[pair], pairs[pair+1]
	}
	if n < 10 {
		dst[at-1] = byte('0' + n)
	} else {
		dst[at-2], dst[at-1] = pairs[n*2], pairs[n*2+1]
	}
	return dst
}

// Put8 writes n, which is below 1e8, in decimal to the start of dst and returns the number of digits. The bytes after
// them are undefined. It takes a third of the time of AppendUint, because it makes all digits at once, in the bytes of
// a word.
func Put8(dst *[8]byte, n uint64) (digits int) {
	// A word holds two numbers of four digits in its halves. Then it holds four of two digits in its quarters, then
	// eight digits in its bytes. The division by 100 is a multiplication by 10486 >> 20, that by 10 one by 103 >> 10.
	halves := n/10_000 | n%10_000<<32
	hundreds := halves * 10486 >> 20 & 0x7f_0000_007f
	quarters := (halves-100*hundreds)<<16 | hundreds
	tens := quarters * 103 >> 10 & 0x000f_000f_000f_000f
	bytes := (quarters-10*tens)<<8 | tens // the first digit in the lowest byte
	zeros := bits.TrailingZeros64(bytes|1<<56) >> 3
	binary.LittleEndian.PutUint64(dst[:], (bytes|0x3030_3030_3030_3030)>>(8*zeros&63))
	return 8 - zeros
}

// IntLen returns len(AppendInt(nil, n)) without making the text.
func IntLen(n int64) int {
	if n < 0 {
		return 1 + UintLen(-uint64(n))
	}
	return UintLen(uint64(n))
}

// UintLen returns len(AppendUint(nil, n)) without making the text.
func UintLen(n uint64) int {
	digits := bits.Len64(n|1) * 1233 >> 12 // at most one too few
	if n >= powers[digits] {
		digits++
	}
	return digits
}

// powers are the powers of ten, with 0 in place of 1 because zero has one digit.
var powers = [20]uint64{0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
	1e17, 1e18, 1e19}

// ParseInt reads the canonical text of an int64: an optional '-', no '+', no blanks, no leading zero, no "-0".
// AppendInt of the result returns the same text, so a value may be stored as an integer instead of its bytes.
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

// ParseUint reads the canonical text of a uint64: digits only, without a leading zero.
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
