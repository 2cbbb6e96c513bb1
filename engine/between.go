package engine

import (
	"spindle/engine/command"
	"spindle/internal/invariant"
)

// R6: a unit is whole for every observer. A unit is open from the first write of an outermost command until flushUnit
// has told its effects. A command that lends the turn keeps its unit open over many turns, and other code has turns in
// between. Between is the one door for code that must not see, cut or outlive an open unit:
//
//	freeze a view for a file or a replica    change the role, the history or the sinks
//	announce or promise an offset            replace or empty the data set
//
// WhenWritable is the door for a command that worked beside the turns and now wants to write.
//
// engine.B1. No unit is open when Between calls its function.
// engine.B2. Functions that wait for the same unit run in the order in which they came, in the turn that ends the unit,
// after its effects were told and before any other command.

// unitIsOpen says whether a command that is not over may have written. A command at depth 1 that asks has not written
// yet: its row takes care of that.
func (c *Core) unitIsOpen() bool { return c.lent != nil || c.stack.depth > 1 }

// Between runs f while no unit is open: at once, or in the turn that ends the open one. Turn only.
func (c *Core) Between(f func()) {
	c.assertHeld()
	switch {
	case !c.unitIsOpen():
		f()
	case !c.hasHalted(): // else the unit never ends
		c.between = append(c.between, f)
	}
}

// AtUnitEnd runs f at the end of this turn, or of the unit that is open then. Turn only.
func (c *Core) AtUnitEnd(f func()) { c.Later(func() { c.Between(f) }) }

// DoBetween is Do with Between: it runs f in a turn and returns after that. It may wait as long as a script runs. It
// says whether f has run: not after Halt.
func (c *Core) DoBetween(f func()) (ran bool) { return c.doBy(c.Between, f) }

// WhenWritable runs f when a client's write could run now: no unit is open, and no pause holds writes back. Turn only.
func (c *Core) WhenWritable(f func()) {
	c.Between(func() {
		if c.pause.on {
			c.pause.writers = append(c.pause.writers, f)
			return
		}
		f()
	})
}

// DoWhenWritable is Do with WhenWritable. It may wait as long as a script runs or a pause lasts. It says whether f has
// run: not after Halt.
func (c *Core) DoWhenWritable(f func()) (ran bool) { return c.doBy(c.WhenWritable, f) }

// doBy has door run f, and returns after f has run, or after Halt.
func (c *Core) doBy(door func(func()), f func()) (ran bool) {
	done := make(chan struct{})
	c.Do(func() {
		door(func() {
			f()
			close(done)
		})
	})
	select {
	case <-done:
		return true
	case <-c.halted:
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
}

// AssertWhole panics, in builds that check, if a unit is open that is not the running command's own. A transaction may
// do to its own unit what others may not: REPLICAOF in EXEC changes the role at once. Turn only.
func (c *Core) AssertWhole(what string) {
	c.assertHeld()
	invariant.That(c.lent == nil || c.stack == c.lent.stack, "engine.B1: %s while a unit is open", what)
}

// assertNothingTold is AssertWhole, and the running command's own unit is empty too.
func (c *Core) assertNothingTold(what string) {
	c.AssertWhole(what)
	invariant.That(c.stack.unit.effects == 0, "engine.B1: %s after %d effects of its own unit", what, c.stack.unit.effects)
}

// EndUnit tells what the running transaction has done so far as a unit of its own: its next command reads the data set
// from a file, which would lack that. Turn only.
func (c *Core) EndUnit() {
	c.assertHeld()
	if c.stack.unit.effects != 0 {
		c.flushUnit()
	}
}

// unitEnded opens the gate for what the unit has pushed, and runs the functions that wait in Between. An outermost
// command is over. If another one is lent, nothing happens.
func (c *Core) unitEnded() {
	if c.lent != nil {
		return
	}
	if c.gated {
		c.gated = false
		c.gate.UnitEnded(c.number)
	}
	for len(c.between) > 0 {
		f := c.between[0]
		if c.between = c.between[1:]; len(c.between) == 0 {
			c.between = nil
		}
		f()
	}
}

// Readmit says why a command that worked beside the turns may not write its key any more; nil if it may. Meanwhile its
// user may have lost a right, the slot may have moved, and the server may have become a replica. Turn only.
func (c *Core) Readmit(ctx *command.Context, key []byte) error {
	p := c.waiting.byClient[ctx.Client]
	p.key = key
	_, err := c.admit(returning, p.cl, callOf(p.cl, p.spec, p.args))
	p.key = nil
	return err
}
