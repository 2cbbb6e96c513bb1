package engine

import (
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// A unit is what one outermost command has told the sinks so far: a reader of the stream must apply it whole.
//
// Effects are encoded as they are booked, because their arguments are lent; with no sink nothing is encoded.
type unit struct {
	effects int
	bytes   []byte // all effects' commands, one behind the other
	marks   []mark // where each ends, and its database
	list    []Effect
	loose   bool // the effects do not belong together: keys that SCAN found expired
}

// A mark is where an effect ends, its database, and who hears of it.
type mark struct {
	db, end int
	to      client.Targets
}

// A hearer is a sink, and what it is.
type hearer struct {
	Sink
	is client.Targets // one of them
}

// keptUnitBytes is how much of a unit's buffer survives it.
const keptUnitBytes = 1 << 20

// AddSink has s told of every effect that is addressed to what it is, from the next unit on.
func (c *Core) AddSink(s Sink, is client.Targets) {
	c.AssertWhole("a sink is added")
	c.sinks = append(c.sinks, hearer{s, is})
}

// book takes over what a command says of itself: how much it changed, and what a replica should run.
func (c *Core) book(ctx *command.Context) {
	c.assertHeld()
	c.meter.dirty += ctx.Dirty
	if len(c.sinks) != 0 && !c.replaying {
		c.tell(ctx)
	}
	ctx.Effects.Reset()
}

// tell adds a call's effects to the unit.
func (c *Core) tell(ctx *command.Context) {
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

// addressees are who hears of a call's effects.
func addressees(ctx *command.Context) client.Targets {
	switch {
	case ctx.Effects.To != 0:
		return ctx.Effects.To
	case ctx.Client.Script != nil:
		return ctx.Client.Script.Targets
	}
	return client.ToAll
}

// Effect books an effect that no command of the client's names: an expired or evicted key, a duty's change.
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

// Changed says that something was changed beside any command: n changes, which Effect told of. Turn only.
func (c *Core) Changed(n int) {
	c.assertHeld()
	c.meter.dirty += int64(n)
}

// Dirty is how many changes were made since the server started; the save rules go by differences of it.
func (c *Core) Dirty() int64 {
	c.assertHeld()
	return c.meter.dirty
}

func (u *unit) add(db int, args [][]byte, to client.Targets) {
	u.bytes = protocol.AppendCommand(u.bytes, args)
	u.marks = append(u.marks, mark{db, len(u.bytes), to})
	u.effects++
}

var (
	multiBytes = []byte("*1\r\n$5\r\nMULTI\r\n")
	execBytes  = []byte("*1\r\n$4\r\nEXEC\r\n")
)

// flushUnit gives the unit to the sinks, to each what is addressed to it, wrapped if that is more than one effect. Then
// it forgets the unit.
func (c *Core) flushUnit() {
	c.assertHeld()
	u := &c.stack.unit
	listed := client.Targets(0)
	for _, s := range c.sinks {
		if listed != s.is {
			u.list, listed = u.appendFor(u.list[:0], s.is), s.is
		}
		if len(u.list) > 0 {
			s.Take(u.list)
		}
	}
	clear(u.list)
	u.list, u.marks, u.effects, u.loose = u.list[:0], u.marks[:0], 0, false
	if cap(u.bytes) > keptUnitBytes {
		u.bytes = nil
	}
	u.bytes = u.bytes[:0]
}

// appendFor appends what of the unit is addressed to a sink that is of a kind.
func (u *unit) appendFor(list []Effect, is client.Targets) []Effect {
	list = append(list, Effect{AnyDB, multiBytes})
	from := 0
	for _, m := range u.marks {
		if m.to&is != 0 {
			list = append(list, Effect{m.db, u.bytes[from:m.end]})
		}
		from = m.end
	}
	if len(list) > 2 && !u.loose {
		return append(list, Effect{AnyDB, execBytes})
	}
	return list[:copy(list, list[1:])] // one effect, or several that do not belong together, are not wrapped
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
