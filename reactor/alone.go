package reactor

import (
	"sync/atomic"

	"spindle/internal/invariant"
)

// A runner is the goroutine that works on a loop and its connections, in builds with checks.
//
// reactor.T3. The first goroutine that does the loop's work does all of it, until that goroutine leaves the loop.
type runner struct{ is atomic.Uintptr }

// leave lets another goroutine work on the loop.
func (r *runner) leave() {
	if invariant.Enabled {
		r.is.Store(0)
	}
}

// assertOn panics unless the calling goroutine is the loop's (reactor.T3), in builds with checks.
func (l *loop) assertOn() {
	if !invariant.Enabled {
		return
	}
	here := invariant.Goroutine()
	if is := l.runner.is.Load(); is != here {
		invariant.That(is == 0 && l.runner.is.CompareAndSwap(0, here), "reactor.T3: loop %d has another goroutine", l.id)
	}
}
