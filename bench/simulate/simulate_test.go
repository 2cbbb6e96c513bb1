package simulate

import (
	"math"
	"testing"
)

// free returns a run in which there are enough cores.
func free() Run {
	return Run{Costs: Costs{Before: 2500, After: 2500, Turn: 100, TurnEach: 150, Moved: 300, Foreign: 200, Publish: 100,
		Ring: 1000}, Cores: 32, Loops: 1, Loads: 8, Apart: true, Clients: 64, Pipeline: 1, Slice: 3e6, Wakeup: 3000,
		Watch: 500, Time: 50e6, Pre: 10e6}
}

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*want {
		t.Errorf("%s: %.0f, want %.0f", what, got, want)
	}
}

// TestOneLoop: a saturated loop handles as many requests as its costs allow, and each client waits for all others.
func TestOneLoop(t *testing.T) {
	r := free()
	got, each := r.Play(), 2500.0+2500+250
	near(t, "requests a second", got.PerSecond, 1e9/each, 0.01)
	near(t, "the median", float64(got.Median), 64*each, 0.05)
	near(t, "CPU per request", float64(got.CPU), each, 0.01)
	if got.Combined != 0 {
		t.Errorf("%.2f of the batches of one loop were run by another", got.Combined)
	}
}

// TestMoreLoops: each further loop adds throughput until the turn is held all the time. Waiting for the turn gives less
// throughput than combining.
func TestMoreLoops(t *testing.T) {
	r := free()
	r.Clients = 256
	one := r.Play().PerSecond
	r.Loops = 2
	if two := r.Play().PerSecond; two < 1.7*one || two > 2*one {
		t.Errorf("two loops: %.2f times one", two/one)
	}
	r.Loops, r.Loads, r.Clients, r.Cores = 32, 32, 2000, 64
	combined := r.Play()
	r.Alone = true
	alone := r.Play()
	if combined.PerSecond > 1e9/250 || combined.Busy < 0.9 || combined.PerSecond < 1.3*alone.PerSecond {
		t.Errorf("32 loops: %.0f a second with combining (busy %.2f), %.0f without", combined.PerSecond, combined.Busy,
			alone.PerSecond)
	}
}

// TestShortCores: threads share a core in slices, and a client also waits for the slices of other threads.
func TestShortCores(t *testing.T) {
	r := free()
	r.Cores, r.Loads, r.Apart, r.Client, r.Time = 1, 1, false, 2000, 300e6
	got := r.Play()
	near(t, "requests a second", got.PerSecond, 1e9/(2500+2500+250+2000), 0.02)
	near(t, "CPU per request", float64(got.CPU), 5250, 0.02)
}

// TestSame: the same run gives the same result each time.
func TestSame(t *testing.T) {
	r := free()
	r.Loops = 4
	if a, b := r.Play(), r.Play(); a != b {
		t.Errorf("two runs differ: %+v and %+v", a, b)
	}
}
