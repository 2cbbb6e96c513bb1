package engine

import (
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/invariant"
)

// AddSink makes s receive every effect that is addressed to is, from the next unit on.
func (c *Core) AddSink(s Sink, is client.Targets) {
	c.AssertWhole("a sink is added")
	c.sinks = append(c.sinks, hearer{s, is})
}

// book records the result of a command: how much it changed, and what a replica should run.
func (c *Core) book(ctx *command.Context) {
	c.assertHeld()
	c.meter.dirty += ctx.Dirty
	if len(c.sinks) != 0 && !c.replaying {
		c.addEffects(ctx)
	}
	ctx.Effects.Reset()
}

// addEffects adds a call's effects to the unit.
func (c *Core) addEffects(ctx *command.Context) {
	to, e := addressees(ctx), &ctx.Effects
	switch {
	case to == 0:
	case e.Replaced:
		for _, args := range e.Commands {
			c.stack.unit.add(ctx.Client.DB, args, to)
		}
	case ctx.Spec.Flags&(command.Write|command.MayReplicate) != 0:
		c.stack.unit.add(ctx.Client.DB, ctx.Args, to)
	}
}

// addressees returns the sinks that get a call's effects.
func addressees(ctx *command.Context) client.Targets {
	switch {
	case ctx.Effects.To != 0:
		return ctx.Effects.To
	case ctx.Client.Script != nil:
		return ctx.Client.Script.Targets
	}
	return client.ToAll
}

// Effect adds an effect that no client's command has: an expired or evicted key, or a duty's change.
func (c *Core) Effect(db int, args ...[]byte) {
	c.assertHeld()
	if len(c.sinks) == 0 || c.replaying {
		return
	}
	c.stack.unit.add(db, args, client.ToAll)
	if c.stack.depth == 0 {
		c.flushUnit()
	}
}

// TellReplicas sends a command to replicas only. Between only.
func (c *Core) TellReplicas(args ...[]byte) {
	c.assertNothingTold("replicas are told")
	c.stack.unit.add(0, args, client.ToReplicas)
	c.flushUnit()
}

// Changed records n changes for the save rules. The sinks have them already. Turn only.
func (c *Core) Changed(n int) {
	c.assertHeld()
	c.meter.dirty += int64(n)
}

// Dirty returns the number of changes since the server started. The save rules use differences of it.
func (c *Core) Dirty() int64 {
	c.assertHeld()
	return c.meter.dirty
}

// HasWritten reports whether the running outermost command, or one that it has called, has changed data so far. Turn
// only.
func (c *Core) HasWritten() bool {
	c.assertHeld()
	if c.stack.depth == 0 {
		return false
	}
	n := c.meter.dirty - c.stack.dirty
	for i := range c.stack.frames[:c.stack.depth] {
		n += c.stack.frames[i].Dirty
	}
	return n != 0
}

// flushUnit passes the unit to the sinks, to each the effects that are addressed to it. Several effects are put between
// MULTI and EXEC. Then it empties the unit.
func (c *Core) flushUnit() {
	c.AssertWhole("effects are sent")
	u := &c.stack.unit
	if c.stack.counted > uncounted {
		c.countStream()
	}
	listed := client.Targets(0)
	for _, s := range c.sinks {
		if listed != s.is {
			u.list, listed = u.appendFor(u.list[:0], s.is), s.is
		}
		if len(u.list) > 0 {
			s.Append(u.list)
		}
	}
	clear(u.list)
	u.list, u.marks, u.effects, u.loose = u.list[:0], u.marks[:0], 0, false
	if cap(u.bytes) > keptUnitBytes {
		u.bytes = nil
	}
	u.bytes = u.bytes[:0]
}

// RemoveSink undoes AddSink.
func (c *Core) RemoveSink(s Sink) {
	c.AssertWhole("a sink is removed")
	for i, other := range c.sinks {
		if other.Sink == s {
			c.sinks = append(c.sinks[:i:i], c.sinks[i+1:]...)
			return
		}
	}
}

// AssertWhole panics, in checked builds, if a unit is open that is not the running command's own. A transaction may do
// to its own unit what others may not: REPLICAOF in EXEC changes the role at once. Turn only.
func (c *Core) AssertWhole(what string) {
	c.assertHeld()
	invariant.That((c.lent == nil || c.stack == c.lent.stack) && !c.duties.reloading, "engine.B1: %s while a unit is open",
		what)
}

// assertNothingTold is AssertWhole. It also panics if the running command's own unit has effects.
func (c *Core) assertNothingTold(what string) {
	c.AssertWhole(what)
	invariant.That(c.stack.unit.effects == 0, "engine.B1: %s after %d effects of the running unit", what,
		c.stack.unit.effects)
}

// HasEffects reports whether the running transaction has effects that the sinks do not have yet. Turn only.
func (c *Core) HasEffects() bool {
	c.assertHeld()
	return c.stack.unit.effects != 0
}

// EndUnit sends the effects of the running transaction so far to the sinks, as one unit. Commands call it before they
// reload the data set from a file, which could otherwise lack these effects. Turn only.
func (c *Core) EndUnit() {
	if c.HasEffects() {
		c.flushUnit()
	}
}
