package command

import (
	"math"

	"spindle/internal/ascii"
	"spindle/internal/number"
	"spindle/protocol"
)

// Is reports whether a client's argument is equal to word in any case. word must be in upper case.
func Is(arg []byte, word string) bool { return ascii.EqualFold(arg, word) }

// Int reads a decimal integer as strictly as Redis does: no space, no plus, no leading zero.
//
// Errors: ErrNotInteger.
func Int(arg []byte) (int64, error) {
	if n, ok := number.ParseInt(arg); ok {
		return n, nil
	}
	return 0, protocol.ErrNotInteger
}

// Int32 is Int for a number that must fit a C int, such as a database number.
//
// Errors: ErrNotInteger, and "value is out of range".
func Int32(arg []byte) (int, error) {
	n, err := Int(arg)
	if err != nil {
		return 0, err
	}
	if n < math.MinInt32 || n > math.MaxInt32 {
		return 0, errOutOfInt
	}
	return int(n), nil
}
