package command

import (
	"math"

	"spindle/internal/ascii"
	"spindle/internal/number"
	"spindle/protocol"
)

// Is says whether a client's argument is word, which is in upper case, in any case.
func Is(arg []byte, word string) bool { return ascii.EqualFold(arg, word) }

// Int reads a decimal integer as strictly as the reference does: no space, no plus, no leading zero.
//
// Errors: ErrNotInteger.
func Int(arg []byte) (int64, error) {
	if n, ok := number.ParseInt(arg); ok {
		return n, nil
	}
	return 0, protocol.ErrNotInteger
}

// Int32 is Int for what must fit a C int: database numbers.
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
