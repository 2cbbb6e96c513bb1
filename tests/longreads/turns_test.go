package longreads

import (
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestTurnsOfLongReads: no turn of a long read is as long as the read. The turn's own processor time is measured, so a
// busy machine does not matter.
func TestTurnsOfLongReads(t *testing.T) {
	n := 200_000 * testkit.Scale()
	if testkit.Checked {
		n = 30_000
	}
	s := testkit.Start(t, "--measure-turn-cpu", "yes", "--enable-debug-command", "yes")
	c := s.Dial()
	c.SetTimeout(testkit.Slowly(time.Minute))
	fill(t, c, n)
	for _, call := range calls {
		s.Do("CONFIG", "RESETSTAT")
		if v, err := c.Do(call.args...); err != nil || v.Err() != nil {
			t.Fatal(call, v, err)
		}
		if reads := s.InfoInt("stats", "total_long_reads"); reads != 1 {
			t.Errorf("%v: %d long reads, want 1", call, reads)
		}
		longest := time.Duration(s.InfoInt("stats", "longest_turn_cpu_usec")) * time.Microsecond
		if longest > testkit.Slowly(4*time.Millisecond) {
			t.Errorf("%v: a turn took %v of processor time", call, longest)
		}
	}
	s.Do("CONFIG", "SET", "long-read-elements", 0)
	s.Do("CONFIG", "RESETSTAT")
	for _, call := range calls {
		if v, err := c.Do(call.args...); err != nil || v.Err() != nil {
			t.Fatal(call, v, err)
		}
	}
	if reads := s.InfoInt("stats", "total_long_reads"); reads != 0 {
		t.Errorf("%d long reads although they are off", reads)
	}
}
