package process

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// Threads are added for running work, and only while it runs. The work that needs the most threads decides.
func TestThreadsFollow(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	t.Setenv("GOMAXPROCS", "")
	var x Threads
	x.Start(2, true)
	settled := func(want int) bool {
		for until := time.Now().Add(5 * time.Second); runtime.GOMAXPROCS(0) != want && time.Now().Before(until); {
			runtime.Gosched()
		}
		return runtime.GOMAXPROCS(0) == want
	}
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
		if x.Follow(c.working, c.laden); !settled(c.want) {
			t.Errorf("working %t, laden %t: %d threads, want %d", c.working, c.laden, runtime.GOMAXPROCS(0), c.want)
		}
	}
	x.under.Wait()
	t.Setenv("GOMAXPROCS", "2")
	var fixed Threads
	fixed.Start(7, true)
	if fixed.Follow(true, true); fixed.wanted.Load() != 0 || runtime.GOMAXPROCS(0) != 2 {
		t.Errorf("%d threads though the environment says 2", runtime.GOMAXPROCS(0))
	}
}

// After few turns for a while there is one spare thread, if loops give up their place while they wait. At the first
// tick of a load there is none.
func TestThreadsWhileCalm(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	t.Setenv("GOMAXPROCS", "")
	for _, waits := range []bool{true, false} {
		var x Threads
		x.Start(2, waits)
		turns := uint64(1000)
		tick := func(n uint64) int {
			turns += n
			x.Tick(turns)
			x.Follow(false, false)
			return x.extra
		}
		for range calmTicks {
			if got := tick(fewTurns); got != 0 {
				t.Errorf("waits %t: %d to spare while busy", waits, got)
			}
		}
		want := 0
		for i := range calmTicks + 2 {
			if waits && i == calmTicks-1 {
				want = whileCalm
			}
			if got := tick(fewTurns - 1); got != want {
				t.Errorf("waits %t: %d to spare after %d calm ticks, want %d", waits, got, i+1, want)
			}
		}
		if got := tick(10 * fewTurns); got != 0 {
			t.Errorf("waits %t: %d to spare when a load begins", waits, got)
		}
		x.under.Wait()
	}
}

// There is no spare thread while turns are rare. With one loop 50 a second are rare, and 300 are not. A rate
// between the two changes nothing.
func TestThreadsWhileStill(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	t.Setenv("GOMAXPROCS", "")
	for _, loops := range []int{1, 2} {
		var x Threads
		x.Start(loops, true)
		turns := uint64(1000)
		tick := func(n uint64, working bool) int {
			turns += n
			x.Tick(turns)
			x.Follow(working, false)
			return x.extra
		}
		still := 0
		if loops > 1 {
			still = whileCalm
		}
		for range 5 {
			tick(500, false)
		}
		for i, c := range []struct {
			turns uint64
			want  int
		}{
			{30, whileCalm},
			{5, whileCalm}, {5, whileCalm}, {5, whileCalm}, {5, whileCalm}, {5, still}, // half a second of 50 a second
			{15, still}, {23, still}, {11, still},
			{30, whileCalm},
			{15, whileCalm}, {23, whileCalm}, {11, whileCalm}, {15, whileCalm}, {11, whileCalm}, {11, whileCalm},
			{11, whileCalm}, {11, whileCalm}, {11, still},
			{2000, 0}, // a load needs no spare thread either
		} {
			if got := tick(c.turns, false); got != c.want {
				t.Errorf("%d loops: %d to spare after tick %d, of %d turns, want %d", loops, got, i, c.turns, c.want)
			}
		}
		for range 9 {
			tick(0, false)
		}
		if got := tick(0, true); got != whileWorking {
			t.Errorf("%d loops: %d extra with rare turns while a saver works, want %d", loops, got, whileWorking)
		}
		x.under.Wait()
	}
}

// TLS handshakes have more threads while they compute, and for a while after that, because each change of the number
// stops the process.
func TestThreadsForHandshakes(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	t.Setenv("GOMAXPROCS", "")
	var x Threads
	x.Start(1, true)
	busy := uint64(0)
	tick := func() int {
		busy += 2 * fewTurns
		x.Tick(busy)
		x.Follow(false, false)
		return x.extra
	}
	if n := tick(); n != 0 {
		t.Fatalf("%d threads beside a busy loop", n)
	}
	x.Greet(2)
	if x.Follow(false, false); x.extra != 2 {
		t.Errorf("%d threads for two handshakes at a time", x.extra)
	}
	if x.Follow(true, false); x.extra != whileWorking {
		t.Errorf("%d threads for them and savers", x.extra)
	}
	for i := range greetTicks - 1 {
		if n := tick(); n != 2 {
			t.Fatalf("%d threads after tick %d", n, i)
		}
	}
	if n := tick(); n != 0 {
		t.Errorf("%d threads though no handshake has come for long", n)
	}
	x.under.Wait()
}
