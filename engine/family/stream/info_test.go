package stream

import "testing"

// TestInfoOfManyNodes: XINFO STREAM of a stream with many nodes runs outside the turn, with the same reply.
func TestInfoOfManyNodes(t *testing.T) {
	core, _ := newCore(t, 1)
	cl := core.Client(2)
	for range core.Settings.LongRead.Get() + 1 {
		core.Do(cl, "XADD", "s", "*", "a", "b")
	}
	for _, call := range [][]string{{"XINFO", "STREAM", "s"}, {"XINFO", "STREAM", "s", "FULL"}} {
		core.Beside = false
		want := core.Do(cl, call...)
		core.Beside, core.Held = true, -1
		if got := core.Do(cl, call...); got != want || core.Held < 0 {
			t.Errorf("%q: %d bytes as in the turn: %t, outside the turn: %t", call, len(got), got == want, core.Held >= 0)
		}
	}
}
