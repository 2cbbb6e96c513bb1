package engine

import (
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

type mark struct{ db, end int }

// keptUnitBytes is how much of a unit's buffer survives it.
const keptUnitBytes = 1 << 20

// AddSink has s told of every effect from the next unit on.
func (c *Core) AddSink(s Sink) {
	c.assertHeld()
	c.sinks = append(c.sinks, s)
}

// book takes over what a command says of itself: how much it changed, and what a replica should run.
func (c *Core) book(ctx *command.Context) {
	c.assertHeld()
	c.meter.dirty += ctx.Dirty
	e := &ctx.Effects
	if len(c.sinks) != 0 {
		switch {
		case e.Replaced:
			for _, args := range e.Commands {
				c.unit.add(ctx.Client.DB, args)
			}
		case ctx.Spec.Flags&(command.Write|command.MayReplicate) != 0:
			c.unit.add(ctx.Client.DB, ctx.Args)
		}
	}
	e.Reset()
}

// Effect books an effect that no command of the client's names: an expired or evicted key, a duty's change.
func (c *Core) Effect(db int, args ...[]byte) {
	c.assertHeld()
	if len(c.sinks) == 0 {
		return
	}
	c.unit.add(db, args)
	if c.depth == 0 {
		c.flushUnit()
	}
}

// Dirty is how many changes were made since the server started; the save rules go by differences of it.
func (c *Core) Dirty() int64 {
	c.assertHeld()
	return c.meter.dirty
}

func (u *unit) add(db int, args [][]byte) {
	u.bytes = protocol.AppendCommand(u.bytes, args)
	u.marks = append(u.marks, mark{db, len(u.bytes)})
	u.effects++
}

var (
	multiBytes = []byte("*1\r\n$5\r\nMULTI\r\n")
	execBytes  = []byte("*1\r\n$4\r\nEXEC\r\n")
)

// flushUnit gives the unit to the sinks, wrapped if it has more than one effect, and forgets it.
func (c *Core) flushUnit() {
	c.assertHeld()
	u := &c.unit
	list := u.list[:0]
	wrap := u.effects > 1 && !u.loose
	if wrap {
		list = append(list, Effect{AnyDB, multiBytes})
	}
	from := 0
	for _, m := range u.marks {
		list = append(list, Effect{m.db, u.bytes[from:m.end]})
		from = m.end
	}
	if wrap {
		list = append(list, Effect{AnyDB, execBytes})
	}
	for _, s := range c.sinks {
		s.Take(list)
	}
	clear(list)
	u.list, u.marks, u.effects, u.loose = list[:0], u.marks[:0], 0, false
	if cap(u.bytes) > keptUnitBytes {
		u.bytes = nil
	}
	u.bytes = u.bytes[:0]
}

// RemoveSink undoes AddSink.
func (c *Core) RemoveSink(s Sink) {
	c.assertHeld()
	for i, other := range c.sinks {
		if other == s {
			c.sinks = append(c.sinks[:i:i], c.sinks[i+1:]...)
			return
		}
	}
}
