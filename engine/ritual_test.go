package engine

import (
	"sync/atomic"
	"testing"
	"time"
)

// TestDoWithin: while the turn is held, DoWithin stops waiting, and its function runs later. Until then DoWithin
// accepts no other function.
func TestDoWithin(t *testing.T) {
	h := newTestCore(t)
	var first, second, third atomic.Bool
	h.Do(func() {
		if h.DoWithin(time.Millisecond, func() { first.Store(true) }) {
			t.Error("a function has run in a turn that another holds")
		}
		if h.DoWithin(time.Minute, func() { second.Store(true) }) {
			t.Error("a second function was taken")
		}
	})
	eventually(t, "the first function", first.Load)
	eventually(t, "a third function", func() bool { return h.DoWithin(time.Minute, func() { third.Store(true) }) })
	if second.Load() || !third.Load() {
		t.Errorf("the second ran: %t, the third: %t", second.Load(), third.Load())
	}
}
