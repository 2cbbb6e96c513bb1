package engine

import (
	"slices"

	"spindle/engine/data/keyspace"
	"spindle/engine/part"
)

// R6: a unit is whole for every observer. A unit is open from the first write of an outermost command until flushUnit
// has sent its effects to the sinks. A command that lends the turn keeps its unit open over many turns, and other code
// has turns in between. Code that must not see, split or outlive an open unit goes through Between:
//
//	freeze a view for a file or a replica    change the role, the history or the sinks
//	announce or promise an offset            replace or empty the data set
//	raise or lower a barrier
//
// A command that worked outside the turn and now wants to write goes through WhenWritable. DEBUG LOADAOF is a unit too,
// although no command has lent the turn: BeginReload opens it.
//
// engine.B1. No unit is open when Between calls its function.
// engine.B2. Functions that wait for the same unit run in the order of their arrival. They run in the turn that ends
// the unit, after its effects were sent and before other commands. If the unit had lent the turn, the functions of
// BeforeReply run first.

// unitIsOpen reports whether a command that has not ended may have written. A command at depth 1 that calls it has not
// written yet: its row ensures that.
func (c *Core) unitIsOpen() bool {
	return c.lent != nil || c.stack.depth > 1 || c.duties.reloading
}

// Idle reports whether no command runs. If so, a barrier is asked about a new unit. Otherwise it must answer as it did
// when the running unit began. Turn only.
func (c *Core) Idle() bool {
	c.assertHeld()
	return c.lent == nil && c.stack.depth == 0
}

// Raise raises b if up is true, and otherwise lowers it. The barriers that have admitted a unit decide about all of it.
// So Raise is for Between, and for the running command. Turn only.
func (c *Core) Raise(b *part.Barrier, up bool) {
	c.assertHeld()
	if b.Up == up {
		return
	}
	c.AssertWhole("a barrier changes")
	b.Up = up
	if up {
		c.raised++
	} else {
		c.raised--
	}
}

// SetLoading sets or clears the loading state. During loading only commands with the flag for it run.
func (c *Core) SetLoading(on bool) {
	c.AssertWhole("the loading state changes")
	c.duties.loading = on
	c.space.Trusting = on
	c.Raise(c.loading, on)
}

// Between runs f while no unit is open: at once, or in the turn that ends the open unit. Turn only.
func (c *Core) Between(f func()) { c.awaitUnit(awaiting{f: f}) }

// BetweenOnce is Between for work that is asked for again while it waits. waits is true while f waits, and f does not
// wait twice. Turn only.
func (c *Core) BetweenOnce(waits *bool, f func()) {
	if *waits {
		return
	}
	*waits = true
	c.Between(func() {
		*waits = false
		f()
	})
}

// BeforeReply is Between for work that a client relies on after the unit's reply. f runs before the reply is sent. Turn
// only.
func (c *Core) BeforeReply(f func()) { c.awaitUnit(awaiting{f, true}) }

func (c *Core) awaitUnit(w awaiting) {
	c.assertHeld()
	switch {
	case !c.unitIsOpen():
		w.f()
	case !c.hasHalted(): // else the unit never ends
		c.between = append(c.between, w)
	}
}

// AtUnitEnd runs f at the end of this turn, or at the end of the unit that is open then. Turn only.
func (c *Core) AtUnitEnd(f func()) { c.Later(func() { c.Between(f) }) }

// WhenWritable runs f when a client's write could run: no unit is open, and no pause holds writes back. Turn only.
func (c *Core) WhenWritable(f func()) {
	c.Between(func() {
		if c.pause.on {
			c.pause.writers = append(c.pause.writers, f)
			return
		}
		f()
	})
}

// BeginReload begins to load the data set again while clients get LOADING. It opens a unit until EndReload. Turn only.
func (c *Core) BeginReload() {
	c.SetLoading(true)
	c.duties.reloading = true
}

// EndReload ends what BeginReload began. reply tells the client that has asked for the load. Turn only.
func (c *Core) EndReload(reply func()) {
	c.duties.reloading = false
	c.SetLoading(false)
	c.runBefore()
	reply()
	c.unitEnded()
}

// unitEnded is called when an outermost command has ended. It lets the gate send the unit's pushes, and runs the
// functions that wait in Between. While another command has lent the turn, it does nothing.
func (c *Core) unitEnded() {
	if c.lent != nil {
		return
	}
	if c.gated {
		c.gated = false
		c.gate.UnitEnded(c.number)
	}
	for len(c.between) > 0 && !c.duties.reloading {
		w := c.between[0]
		if c.between = c.between[1:]; len(c.between) == 0 {
			c.between = nil
		}
		w.f()
	}
}

// runBefore runs the functions of BeforeReply. It is for a unit that had lent the turn, because its reply is sent next.
// The reply of any other unit is sent after the turn.
func (c *Core) runBefore() {
	for i := 0; i < len(c.between); {
		w := c.between[i]
		if !w.before {
			i++
			continue
		}
		c.between = slices.Delete(c.between, i, i+1)
		w.f()
	}
}

// Later runs f at the end of this turn, when the running command's changes have been counted and sent to the sinks.
func (c *Core) Later(f func()) {
	c.assertHeld()
	c.later = append(c.later, f)
}

// runLater runs the functions that Later has collected.
func (c *Core) runLater() {
	for i := 0; i < len(c.later); i++ { // a function may add another
		began := c.wall.Nanos()
		c.later[i]()
		c.watchLater(c.later[i], began)
		c.later[i] = nil
	}
	c.later = c.later[:0]
}

// Importing reports whether slots are moving to this server. Views do not contain the keys of these slots, but the
// stream and the log do. So no view may be frozen now from which the stream or the log continues. Turn only.
func (c *Core) Importing() bool {
	c.assertHeld()
	return c.space.HidesAny()
}

// Freeze takes a view, a snapshot of all databases as they are now. Its reader, a file or a replica, must not see half
// a unit (R6). Any number of views may exist at once. Each must be closed.
func (c *Core) Freeze() *keyspace.View {
	c.assertNothingTold("a view is frozen")
	return c.FreezeWithin()
}

// FreezeWithin is Freeze for the command that runs. The view may show what the command's own unit has written so far.
func (c *Core) FreezeWithin() *keyspace.View {
	c.assertHeld()
	v := c.space.Freeze()
	if c.hooks.Frozen != nil {
		c.hooks.Frozen()
	}
	return v
}

// Halt ends the slices of a lent command, and long reads. The process is about to end, so no reply may promise a write
// any more. After Halt, DoBetween returns without running its function. Turn only, once.
func (c *Core) Halt() {
	c.assertHeld()
	close(c.halted)
	c.gate.Halt()
	c.reads.StopAll()
}

// hasHalted reports whether Halt was called. Turn only.
func (c *Core) hasHalted() bool {
	select {
	case <-c.halted:
		return true
	default:
		return false
	}
}
