package engine

import "sync"

// A turn is the right to run commands: R1. At any instant at most one goroutine holds it.
//
// A loop that has parsed a batch takes the turn and runs the batch in place; ARCHITECTURE.md says what that was measured against.
type turn struct {
	mu     sync.Mutex
	number uint64 // of the turn that is held, or was held last; written while held
}

// take waits for the turn and numbers it.
func (t *turn) take() uint64 {
	t.mu.Lock()
	t.number++
	return t.number
}

func (t *turn) release() { t.mu.Unlock() }
