package command

import (
	"bytes"
	"math"

	"spindle/internal/number"
	"spindle/protocol"
)

// Scan holds the options after the cursor of HSCAN, SSCAN and ZSCAN: [MATCH pattern] [COUNT count], and NOVALUES of
// HSCAN.
type Scan struct {
	Count    int
	Pattern  []byte // nil matches everything
	NoValues bool
}

// Own returns the options in memory that outlives the call.
func (s Scan) Own() Scan {
	s.Pattern = bytes.Clone(s.Pattern)
	return s
}

// parseScan reads the options. values is true for HSCAN, which knows NOVALUES.
//
// Errors: ErrSyntax, ErrNotInteger, ErrNoValues.
func parseScan(args [][]byte, values bool) (s Scan, err error) {
	s.Count = 10
	for i := 0; i < len(args); i++ {
		more := i+1 < len(args)
		switch {
		case Is(args[i], "COUNT") && more:
			i++
			n, err := Int(args[i])
			if err != nil {
				return s, err
			}
			if n < 1 {
				return s, protocol.ErrSyntax
			}
			s.Count = int(min(n, math.MaxInt32))
		case Is(args[i], "MATCH") && more:
			i++
			if s.Pattern = args[i]; string(s.Pattern) == "*" {
				s.Pattern = nil
			}
		case Is(args[i], "NOVALUES"):
			if !values {
				return s, ErrNoValues
			}
			s.NoValues = true
		default:
			return s, protocol.ErrSyntax
		}
	}
	return s, nil
}

// ParseCursor reads a cursor as C's strtoull does. Blanks, a plus and leading zeros are allowed. A negative number is
// refused.
func ParseCursor(text []byte) (uint64, bool) {
	if end := bytes.IndexByte(text, 0); end >= 0 {
		text = text[:end] // the bytes after a zero byte do not count
	}
	if n, ok := number.ParseUint(text); ok {
		return n, true
	}
	if n, ok := number.ParseInt(text); ok && n < 0 {
		return 0, false
	}
	for len(text) > 0 && (text[0] == ' ' || '\t' <= text[0] && text[0] <= '\r') {
		text = text[1:]
	}
	negative := false
	if len(text) > 0 && (text[0] == '+' || text[0] == '-') {
		negative = text[0] == '-'
		text = text[1:]
	}
	if len(text) == 0 {
		return 0, false
	}
	n := uint64(0)
	for _, d := range text {
		d -= '0'
		if d > 9 || n > (math.MaxUint64-uint64(d))/10 {
			return 0, false
		}
		n = n*10 + uint64(d)
	}
	if negative {
		n = -n
	}
	return n, true
}
