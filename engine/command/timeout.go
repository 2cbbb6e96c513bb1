package command

import (
	"math"

	"spindle/internal/number"
)

// Timeout reads the timeout of a blocking command, in seconds with a fraction. It returns the deadline in Unix ms,
// rounded up. A deadline of 0 means that the wait has no end.
//
// Errors: "timeout is not a float or out of range", "timeout is negative", "timeout is out of range".
func (c *Context) Timeout(arg []byte) (deadlineMs int64, err error) {
	seconds, ok := number.ParseLong(arg)
	if !ok {
		return 0, errTimeoutFloat
	}
	ms := seconds.Float64() * 1000
	if whole := math.Round(ms); whole != 0 && math.Abs(ms-whole) < 1e-6 {
		ms = whole // 1.001 s are 1001 ms, whatever the last bit of a double says
	}
	switch ms = math.Ceil(ms); {
	case ms < 0:
		return 0, errTimeoutNegative
	case ms == 0:
		return 0, nil
	case ms >= math.MaxInt64 || int64(ms) > math.MaxInt64-c.Now:
		return 0, errTimeoutRange
	}
	return int64(ms) + c.Now, nil
}
