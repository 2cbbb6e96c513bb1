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
