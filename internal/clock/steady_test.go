package clock

import (
	"testing"
	"time"
)

// TestSteady: the clock starts at Unix time and follows the monotonic clock. Setting the wall clock does not move it.
func TestSteady(t *testing.T) {
	now := time.Now()
	if got, want := SteadyAt(now), now.UnixMilli(); got < want-60_000 || got > want+60_000 {
		t.Errorf("%d, and Unix time is %d", got, want)
	}
	// Without a monotonic reading in its origin, the clock would follow the wall clock. String shows whether there is
	// one.
	if steadyOrigin.Round(0).String() == steadyOrigin.String() {
		t.Error("the origin has no monotonic reading")
	}
	if d := SteadyAt(now.Add(1500*time.Millisecond)) - SteadyAt(now); d != 1500 && d != 1499 && d != 1501 {
		t.Errorf("1.5 s are %d ms", d)
	}
}
