package clock

import "time"

// steadyOrigin is when Steady's clock started.
var steadyOrigin = time.Now()

// Steady is a clock for durations, in milliseconds. It starts at Unix time when the process starts. From there it only
// moves forward, with the monotonic clock. So a wall clock that is set back does not delay timers.
func Steady() int64 { return SteadyAt(time.Now()) }

// WallAhead returns Unix time minus Steady, in milliseconds. It is 0 until the wall clock is set.
func WallAhead() int64 {
	now := time.Now()
	return now.UnixMilli() - SteadyAt(now)
}

// SteadyAt returns the value of Steady at t, a result of time.Now.
func SteadyAt(t time.Time) int64 {
	return steadyOrigin.UnixMilli() + t.Sub(steadyOrigin).Milliseconds()
}
