package longreads

import (
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestTurnsOfLongReads: no turn of a long read takes as long as the read. The test measures the turn's CPU time, so a
// busy machine matters little. The best of a few reads counts, because a virtual machine may also count time that its
// host used.
func TestTurnsOfLongReads(t *testing.T) {
	n := 60_000 * testkit.Scale()
	if testkit.Checked {
		n = 50_000 // XPENDING with IDLE reads a quarter of them
	}
	s := testkit.Start(t, "--measure-turn-cpu", "yes", "--enable-debug-command", "yes")
	c := s.Dial()
	c.SetTimeout(testkit.Slowly(time.Minute))
	fill(t, c, n)
	most := testkit.Slowly(4 * time.Millisecond)
	for _, call := range calls {
		best := time.Hour
		for try := 0; try < 5 && best > most; try++ {
			s.Do("CONFIG", "RESETSTAT")
			if v, err := c.Do(call.args...); err != nil || v.Err() != nil {
				t.Fatal(call, v, err)
			}
			if reads := s.InfoInt("stats", "total_long_reads"); reads != 1 {
				t.Errorf("%v: %d long reads, want 1", call, reads)
			}
			best = min(best, time.Duration(s.InfoInt("stats", "longest_turn_cpu_usec"))*time.Microsecond)
		}
		if best > most {
			t.Errorf("%v: a turn took %v of processor time", call, best)
		}
	}
}
