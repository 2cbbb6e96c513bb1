package scripting

import (
	"sync/atomic"

	"spindle/protocol"
)

// A beside is the part of the run's state that other goroutines see. They can end the run while one of its commands
// holds the turn.
//
// scripting.B1. A run that was asked to end does so when it next reads the clock. A request that comes too late for its
// run ends no later one.
type beside struct {
	state atomic.Uint64 // the bits below, and the number of the run above them; 0 if nothing runs
	wrote atomic.Bool
	asked atomic.Uint64 // the state of the run that was asked to end; 0: none
	runs  uint64        // turn only
}

const (
	besideRuns = 1 << iota
	besideEval
	besideObeys
	besideRun // the least bit of the run's number
)

// begin records the start of a run. Turn only.
func (b *beside) begin(isEval, obeys bool) {
	b.runs++
	state := besideRuns | b.runs*besideRun
	if isEval {
		state |= besideEval
	}
	if obeys {
		state |= besideObeys
	}
	b.wrote.Store(false)
	b.state.Store(state)
}

// mustEnd reports whether the run was asked to end. Turn only.
func (b *beside) mustEnd() bool {
	asked := b.asked.Load()
	return asked != 0 && asked == b.state.Load()
}

// end records that nothing runs. Turn only.
func (b *beside) end() { b.state.Store(0) }

// KillBeside is SCRIPT KILL (isEval) or FUNCTION KILL, for a caller that cannot take the turn. Any goroutine.
//
// Errors: those of these commands.
func (s *Scripts) KillBeside(isEval bool) error {
	b := &s.beside
	state := b.state.Load()
	switch {
	case state&besideRuns == 0:
		return errNotBusy
	case state&besideObeys != 0:
		return errObeyed
	case b.wrote.Load():
		return errHasWritten
	case isEval && state&besideEval == 0:
		return protocol.ErrBusyFunction
	case !isEval && state&besideEval != 0:
		return protocol.ErrBusyScript
	}
	b.asked.Store(state)
	return nil
}
