package engine

import "spindle/engine/part"

// Subscribe adds a feature's listeners to the events of the core. Before the first Serve.
func (c *Core) Subscribe(l part.Listeners) {
	e := &c.hooks
	e.Add(l)
	c.meter.manyCodes = e.ManyCodes
	c.space.Hooks.Touched = e.Touched
	c.whole.Emptying, c.whole.Swapping = e.Emptying, e.Swapping
	c.whole.Renewing, c.whole.Emptied = e.Renewing, e.Emptied
}
