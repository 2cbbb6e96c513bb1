package engine

import (
	"sync"
	"sync/atomic"

	"spindle/internal/invariant"
	"spindle/protocol"
)

// A turn is the right to run commands: R1. At any instant at most one goroutine holds it.
//
// A loop that has parsed a batch takes the turn and runs the batch in place. ARCHITECTURE.md compares this with
// alternatives.
//
// With several loops, a loop may find the turn taken. The loop then publishes its batch in its outbox, and the holder
// of the turn runs the batch: combine.go.
//
// engine.T1. In checked builds, holder is the goroutine that holds the turn, or 0. A method that is for the turn only
// asserts that its caller is the holder.
type turn struct {
	mu     sync.Mutex
	number uint64 // of the turn that is held, or was held last; written while held
	holder atomic.Uintptr

	published  atomic.Int64                        // batches in outboxes
	outboxes   atomic.Pointer[[]*protocol.Outbox]  // one a loop
	joining    sync.Mutex                          // for writing outboxes
	combined   uint64                              // batches that were run for other loops; turn only
	next       int                                 // the outbox that combine looks at first; turn only
	runOther   func(*protocol.Batch) (nanos int64) // Core.runBatch
	clockNanos func() int64                        // turn only
}

// take waits for the turn and numbers it.
func (t *turn) take() uint64 {
	if invariant.Enabled {
		invariant.That(t.holder.Load() != invariant.Goroutine(), "engine.T1: the holder of the turn waits for it")
	}
	t.mu.Lock()
	t.taken()
	return t.number
}

// tryTake takes the turn if it is free.
func (t *turn) tryTake() bool {
	if !t.mu.TryLock() {
		return false
	}
	t.taken()
	return true
}

// taken numbers a turn that was just taken.
func (t *turn) taken() {
	if invariant.Enabled {
		t.holder.Store(invariant.Goroutine())
	}
	t.number++
}

// release releases the turn. It wakes sleeping loops whose published batches have not run. Turn only.
func (t *turn) release() {
	t.unlock()
	if t.published.Load() != 0 {
		t.ringForWork()
	}
}

func (t *turn) unlock() {
	t.assertHeld()
	if invariant.Enabled {
		t.holder.Store(0)
	}
	t.mu.Unlock()
}

// ringForWork wakes the sleeping loops that have published batches. Any goroutine.
func (t *turn) ringForWork() {
	for _, o := range *t.outboxes.Load() {
		if o.HasWork() {
			o.Ring()
		}
	}
}

// OnBehalf is for the holder of the turn while another goroutine does a part of its work (DEBUG RELOAD). Both call
// functions for the turn only inside run, one at a time. The other goroutine must have ended before the holder
// continues alone.
func (t *turn) OnBehalf() (run func(f func())) {
	t.assertHeld()
	var mu sync.Mutex
	return func(f func()) {
		mu.Lock()
		defer mu.Unlock()
		if invariant.Enabled {
			defer t.holder.Store(t.holder.Swap(invariant.Goroutine()))
		}
		f()
	}
}

// assertHeld panics unless the calling goroutine holds the turn, in checked builds (engine.T1).
func (t *turn) assertHeld() {
	if invariant.Enabled {
		invariant.That(t.holder.Load() == invariant.Goroutine(), "engine.T1: the caller does not hold the turn")
	}
}
