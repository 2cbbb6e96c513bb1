package engine

import (
	"context"
	"runtime/pprof"
)

// Profiles name the command that ran, as the label "command". The labels exist only during a profile. At other times
// they cost one nil check for each command.

// SetProfiling turns the labels on or off. Turn only.
func (c *Core) SetProfiling(on bool) {
	c.assertHeld()
	if !on {
		c.labels = nil
		return
	}
	c.labels = make([]context.Context, c.catalogue.IDs())
	for _, spec := range c.catalogue.All() {
		c.labels[spec.ID] = pprof.WithLabels(context.Background(), pprof.Labels("command", spec.Full))
	}
}

// unlabel removes the last command's label from the goroutine when the turn ends.
func (c *Core) unlabel() { pprof.SetGoroutineLabels(context.Background()) }
