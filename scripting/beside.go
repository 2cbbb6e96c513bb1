package scripting

import (
	"sync/atomic"

	"spindle/protocol"
)

// A beside is the part of the run's state that other goroutines see. They can end the run while one of its commands
// holds the turn.
//
// scripting.B1. A run that was asked to end does so when it next reads the clock. begin clears a request to the last
// run.
type beside struct {
	state atomic.Uint32 // the bits below; 0 if nothing runs
	wrote atomic.Bool
	asked atomic.Bool
}

const (
	besideRuns = 1 << iota
	besideEval
	besideObeys
)

// begin records the start of a run. Turn only.
func (b *beside) begin(isEval, obeys bool) {
	state := uint32(besideRuns)
	if isEval {
		state |= besideEval
	}
	if obeys {
		state |= besideObeys
	}
	b.asked.Store(false)
	b.wrote.Store(false)
	b.state.Store(state)
}

// end records that nothing runs. Turn only.
func (b *beside) end() { b.state.Store(0) }

// KillBeside is SCRIPT KILL (isEval) or FUNCTION KILL, for a caller that cannot take the turn. Any goroutine.
//
// Errors: those of these commands.
func (s *Scripts) KillBeside(isEval bool) error {
	b := &s.beside
	switch state := b.state.Load(); {
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
	b.asked.Store(true)
	return nil
}
