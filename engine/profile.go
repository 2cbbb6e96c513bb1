package engine

import (
	"context"
	"runtime/pprof"
)

// Profiles carry the name of the command that ran, as the label "command". The labels exist only during a profile:
// otherwise the price is one nil check a command.

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

// unlabel takes the last command's label from the goroutine when the turn ends.
func (c *Core) unlabel() { pprof.SetGoroutineLabels(context.Background()) }
