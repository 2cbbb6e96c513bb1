package engine

import (
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// invoke runs a handler in a new frame and records its effects. mark is where its reply begins. If lent is true, the
// command continues by a step, and its frame stays.
func (c *Core) invoke(cl *client.Client, args [][]byte, bulk *protocol.Bulk, spec *command.Spec, mark protocol.Mark) (
	lent bool, err error) {
	c.assertHeld()
	s := c.stack
	ctx := &s.frames[s.depth]
	s.depth++
	ctx.Client, ctx.Args, ctx.Bulk, ctx.Reply, ctx.Spec = cl, args, bulk, cl.Out, spec
	ctx.DB, ctx.Now, ctx.Dirty = c.space.DB(cl.DB), c.nowMs, 0
	ctx.Effects.Unheard = len(c.sinks) == 0 || c.replaying
	c.space.NoTouch = cl.Flags&client.NoTouch != 0
	err = spec.Run(ctx)
	if len(s.lends) != 0 {
		if l := s.lending(ctx); l != nil {
			l.mark = mark
			if ctx.Dirty != 0 || ctx.Effects.Replaced {
				c.book(ctx) // now, because its arguments are lent
			}
			ctx.Dirty = 0
			return true, nil
		}
	}
	if err != nil {
		c.fail(ctx, err, mark)
	}
	if ctx.Dirty != 0 || ctx.Effects.Replaced {
		c.book(ctx)
	}
	s.depth--
	return false, err
}

// fail replaces what the command has replied since mark by an error.
func (c *Core) fail(ctx *command.Context, err error, mark protocol.Mark) {
	ctx.Reply.Rollback(mark)
	ctx.Reply.Error(err)
	c.meter.failed(ctx.Spec, err)
	if ctx.Client.Flags&(client.Primary|client.Replica|client.Importing) != 0 {
		c.complain(ctx.Client, ctx.Spec, err)
	}
}

// complain reports an error of a command from our primary, from a replica or from the source of slots that move here.
// One of the two servers is wrong.
func (c *Core) complain(cl *client.Client, spec *command.Spec, err error) {
	if c.hooks.Diverged != nil {
		c.hooks.Diverged(cl, spec, err)
	}
}

// noteRead reports a command that has run for cl to the tracking of keys, if cl caches its reads.
func (c *Core) noteRead(cl *client.Client, spec *command.Spec, args [][]byte) {
	if cl.Is(client.Tracking) && c.hooks.Read != nil {
		c.hooks.Read(cl, spec, args)
	}
}

// finish replies the error of a command that ran in steps, if there is one, and records its effects.
func (c *Core) finish(ctx *command.Context, err error, mark protocol.Mark) {
	if err != nil {
		c.fail(ctx, err, mark)
	}
	if ctx.Dirty != 0 || ctx.Effects.Replaced {
		c.book(ctx)
	}
}
