package str

import (
	"math"

	"spindle/engine/command"
)

// A unit says how an option gives a deadline: in seconds or milliseconds, from now or from the epoch.
type unit uint8

const (
	noExpiry unit = iota
	ex            // EX: seconds from now
	px            // PX: milliseconds from now
	exAt          // EXAT: Unix seconds
	pxAt          // PXAT: Unix milliseconds
)

func (u unit) absolute() bool { return u >= exAt }

// unitOf returns the unit that an option names. It returns noExpiry for any other word.
func unitOf(word []byte) unit {
	switch {
	case command.Is(word, "EX"):
		return ex
	case command.Is(word, "PX"):
		return px
	case command.Is(word, "EXAT"):
		return exAt
	case command.Is(word, "PXAT"):
		return pxAt
	}
	return noExpiry
}

// deadline converts the number of an option to Unix milliseconds. The result is above 0.
//
// Errors: ErrNotInteger; "invalid expire time" if it is not positive or overflows.
func deadline(c *command.Context, u unit, arg []byte) (int64, error) {
	n, err := command.Int(arg)
	if err != nil {
		return 0, err
	}
	ok := n > 0
	if u == ex || u == exAt {
		ok = ok && n <= math.MaxInt64/1000
		n *= 1000
	}
	if !u.absolute() {
		ok = ok && n <= math.MaxInt64-c.Now
		n += c.Now
	}
	if !ok {
		return 0, errExpireTime(c.Spec.Full)
	}
	return n, nil
}
