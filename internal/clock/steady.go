package clock

import "time"

// steadyOrigin is when Steady's clock started.
var steadyOrigin = time.Now()

// Steady is a clock for durations, in milliseconds. It begins as Unix time when the process starts, and only moves
// forward from there, at the pace of the monotonic clock. What waits for its time is not held up when the wall clock is
// set back.
func Steady() int64 { return SteadyAt(time.Now()) }

// WallAhead is by how many milliseconds Unix time is ahead of Steady: 0 until the wall clock is set.
func WallAhead() int64 {
	now := time.Now()
	return now.UnixMilli() - SteadyAt(now)
}

// SteadyAt is what Steady said, or will say, at t, a reading of time.Now.
func SteadyAt(t time.Time) int64 {
	return steadyOrigin.UnixMilli() + t.Sub(steadyOrigin).Milliseconds()
}
