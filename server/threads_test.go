package server

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// Threads are added for what is under way, and for no longer; what needs more of them goes first.
func TestThreadsFollow(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	t.Setenv("GOMAXPROCS", "")
	var x threads
	x.start(2)
	for _, c := range []struct {
		working, laden bool
		want           int
	}{
		{false, false, 2},
		{false, true, 3},
		{true, true, 5},
		{true, false, 5},
		{false, true, 3},
		{false, false, 2},
	} {
		x.follow(c.working, c.laden)
		for until := time.Now().Add(5 * time.Second); runtime.GOMAXPROCS(0) != c.want && time.Now().Before(until); {
			runtime.Gosched()
		}
		if runtime.GOMAXPROCS(0) != c.want {
			t.Errorf("working %t, laden %t: %d threads, want %d", c.working, c.laden, runtime.GOMAXPROCS(0), c.want)
		}
	}
	t.Setenv("GOMAXPROCS", "2")
	var y threads
	y.start(7)
	y.follow(true, true)
	y.apply()
	if runtime.GOMAXPROCS(0) != 2 {
		t.Errorf("%d threads though the environment says 2", runtime.GOMAXPROCS(0))
	}
}
