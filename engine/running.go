package engine

import (
	"sync/atomic"

	"spindle/engine/client"
	"spindle/engine/command"
)

// running is the call that may hold the turn for long, for a reader that cannot have the turn meanwhile. Commands that
// promise to be short are not told: they would pay for it on each call.
type running struct {
	spec   atomic.Pointer[command.Spec] // nil: none
	client atomic.Pointer[client.Client]
}

// begin tells of a call. Turn only.
func (r *running) begin(cl *client.Client, spec *command.Spec) {
	r.client.Store(cl)
	r.spec.Store(spec)
}

// end tells that the call is over, or has lent the turn. Turn only.
func (r *running) end() {
	r.spec.Store(nil)
	r.client.Store(nil)
}
