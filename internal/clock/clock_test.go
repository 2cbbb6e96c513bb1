package clock

import (
	"runtime"
	"testing"
	"time"
)

func TestClocksGoOn(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	wall, us, mono, cpu, process := Unix(), UnixUs(), Mono(), ThreadCPU(), ProcessCPU()
	for begin := time.Now(); time.Since(begin) < 20*time.Millisecond; {
	}
	if d := Unix() - wall; d < 19 || d > 10_000 {
		t.Errorf("Unix went on by %d ms", d)
	}
	if d := UnixUs() - us; d < 19_000 || d > 10_000_000 {
		t.Errorf("UnixUs went on by %d us", d)
	}
	if d := Mono() - mono; d < 20_000_000 {
		t.Errorf("Mono went on by %d ns", d)
	}
	used, all := ThreadCPU()-cpu, ProcessCPU()-process
	if used <= 0 || all < used {
		t.Errorf("the thread used %d ns, the process %d", used, all)
	}
	cpu, mono = ThreadCPU(), Mono()
	time.Sleep(20 * time.Millisecond)
	if used := ThreadCPU() - cpu; used > (Mono()-mono)/2 {
		t.Errorf("sleeping used %d ns", used)
	}
}

func TestWrapping(t *testing.T) {
	const wrap = int64(1<<24) * 1000
	for _, c := range []struct{ now, age int64 }{{wrap, 0}, {wrap + 5000, 5000}, {wrap + 5000, 10_000}, {3*wrap - 1000, 7000}} {
		if got := LRUIdle(c.now, LRU(c.now-c.age)); got != c.age {
			t.Errorf("at %d, stamped %d before: %d", c.now, c.age, got)
		}
	}
	if got := Minutes(60_000 * (1<<16 + 3)); got != 3 {
		t.Error(got)
	}
}

// TestWall: it says what the two clocks say, and its reading of the wall clock does not grow old.
func TestWall(t *testing.T) {
	origin := time.Now()
	w := WallFrom(origin)
	for i := range 3000 {
		before, since := Unix(), time.Since(origin)
		nanos, ms := w.Now()
		if after := Unix(); ms < before-1 || ms > after+1 {
			t.Fatalf("reading %d: %d, not within %d and %d", i, ms, before, after)
		}
		if until := time.Since(origin); nanos < int64(since) || nanos > int64(until) {
			t.Fatalf("reading %d: %d ns, not within %d and %d", i, nanos, since, until)
		}
		if i%100 == 0 {
			w.unixNs += 5 * int64(time.Second) // the clock is put back
			time.Sleep(1100 * time.Microsecond)
		}
	}
}
