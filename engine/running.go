package engine

import (
	"sync/atomic"

	"spindle/engine/client"
	"spindle/engine/command"
)

// running is the call that may hold the turn for long. It is for readers that cannot take the turn meanwhile. It does
// not hold commands that are Fast or Brief, which would pay for it on each call.
type running struct {
	spec   atomic.Pointer[command.Spec] // nil means none
	client atomic.Pointer[client.Client]
}

// begin records a call. Turn only.
func (r *running) begin(cl *client.Client, spec *command.Spec) {
	r.client.Store(cl)
	r.spec.Store(spec)
}

// end records that the call has ended, or has lent the turn. Turn only.
func (r *running) end() {
	r.spec.Store(nil)
	r.client.Store(nil)
}
