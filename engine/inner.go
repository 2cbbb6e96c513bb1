package engine

import (
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/invariant"
)

// Inner commands are the commands that EXEC and scripts run. They have a depth, and are admitted and timed one by one.

// Call implements command.Core: a command runs another command, as the same client.
func (c *Core) Call(outer *command.Context, spec *command.Spec, args [][]byte) (lent bool, err error) {
	c.assertHeld()
	cl := outer.Client
	if c.stack.depth == maxDepth {
		return false, errTooDeep
	}
	if _, err := c.admit(inExec, cl, plainCall(spec, args)); err != nil {
		outer.Reply.Error(err)
		c.meter.failed(outer.Spec, err)
		return false, err
	}
	if cl.Is(client.Acks) {
		c.noteAcks(cl, spec)
		c.acks.inner = true
	}
	began, mark, silent := max(c.nanos, c.meter.innerNanos), cl.Out.Mark(), cl.Flags&silenced
	if lent, err = c.invoke(cl, args, nil, spec, mark); lent {
		if c.monitors.Len() != 0 {
			c.feedMonitors(cl, spec, args)
		}
		l := c.stack.lending(&c.stack.frames[c.stack.depth-1])
		l.inner, l.took, l.silent = true, c.wall.Nanos()-began, cl.Is(client.CloseAfter)
		return true, nil
	}
	if silent&cl.Flags != 0 {
		cl.Out.Rollback(mark)
	}
	c.noteRead(cl, spec, args)
	c.noteSizes(cl, spec, args, uncounted, 0, cl.Out.Since(mark))
	c.countInner(cl, spec, args, began)
	return false, err
}

// Run implements command.Core: a script runs a command, as the Fake client cl.
func (c *Core) Run(cl *client.Client, args [][]byte) error {
	c.assertHeld()
	spec, err := c.catalogue.Resolve(c.catalogue.Lookup(args[0]), args)
	switch {
	case err == nil:
	case spec == nil:
		c.meter.rejected(nil, errUnknownInScript)
		return errUnknownInScript
	default:
		c.meter.rejected(spec, errArityInScript)
		return errArityInScript
	}
	if c.stack.depth == maxDepth {
		return errTooDeep
	}
	call := callOf(cl, spec, args)
	if _, err := c.admit(inScript, cl, call); err != nil {
		c.meter.rejected(spec, err)
		return err
	}
	if call.Flags&command.Write != 0 {
		cl.Script.Wrote = true
		if writes := cl.Script.Writes; writes != nil {
			writes.Store(true)
		}
	}
	if c.slotStats != nil {
		c.countScript(cl, spec, args)
	}
	began := max(c.nanos, c.meter.innerNanos)
	lent, _ := c.invoke(cl, args, nil, spec, cl.Out.Mark())
	invariant.That(!lent, "engine.N1: a command of a script has lent the turn")
	c.noteRead(c.stack.frames[0].Client, spec, args)
	c.noteSizes(cl, spec, args, uncounted, 0, cl.Out.Built())
	c.countInner(cl, spec, args, began)
	return nil
}

// countInner shows an inner command of cl to monitors, and records its time since began.
func (c *Core) countInner(cl *client.Client, spec *command.Spec, args [][]byte, began int64) {
	if c.monitors.Len() != 0 {
		c.feedMonitors(cl, spec, args)
	}
	m := &c.meter
	m.innerNanos = c.wall.Nanos()
	took := m.innerNanos - began
	c.sampleInner(cl, spec, args, took)
	c.done(cl, spec, args, ran{calls: 1, took: took, last: took, held: took})
}

// Show implements command.Core.
func (c *Core) Show(ctx *command.Context) {
	c.assertHeld()
	if c.monitors.Len() != 0 {
		c.showMonitors(ctx.Client, ctx.Args)
	}
}

// AllowAnyInScripts lets scripts run commands that are refused in scripts: DEBUG SET-DISABLE-DENY-SCRIPTS.
func (c *Core) AllowAnyInScripts(on bool) {
	c.assertHeld()
	c.anyInScripts = on
}
