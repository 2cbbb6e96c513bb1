package engine

import (
	"runtime"
	"slices"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/invariant"
	"spindle/protocol"
)

// Lending: a long command, such as a script, gives the turn back before it has ended. It continues in slices, each in
// its own turn. Other goroutines have turns between the slices, and may do little in them:
//
//	running ── Lend ──▶ lent ── slice, slice, … ──▶ over: its unit and its reply leave, its client goes on
//	                     │
//	                     ├─ commands with AllowBusy run, on a stack of their own
//	                     ├─ other commands wait, and after busy-reply-threshold they get BUSY
//	                     └─ duties, expiry, eviction and clients that wait for keys stand still
//
// engine.N1. At most one command is lent. In its slices, Core.stack is its stack. In all other turns, Core.stack is the
// other stack.
// engine.N2. While a command is lent, no other command changes data. So what the command can see does not change
// between its slices.
// engine.N3. Time stands still for a lent command: each slice sees the time at which the command began. Only TIME
// returns the true time, once the command is tardy. So a script that waits for a time ends, as in Redis.
// engine.N4. A script of a log gives way without being parked: its goroutine waits in the handler. That happens only
// while a data set is loaded. So no client can see what the script has done so far.

// Lend implements command.Core. It returns false where the turn cannot be lent: for a Fake's commands, and below a lent
// command whose caller cannot wait.
func (c *Core) Lend(ctx *command.Context, step command.Step) bool {
	c.assertHeld()
	s := c.stack
	if s.depth == 0 || s.frames[0].Client.Conn == nil {
		return false
	}
	depth := s.depth - 1
	for &s.frames[depth] != ctx {
		depth--
	}
	at := len(s.lends)
	for at > 0 && s.lends[at-1].depth > depth { // a command lends after the command that it has called
		at--
	}
	s.lends = slices.Insert(s.lends, at, lending{depth: depth, frame: ctx, step: step})
	return true
}

// GiveWay implements command.Core, for a script of a log (engine.N4).
func (c *Core) GiveWay(*command.Context) bool {
	c.assertHeld()
	if !c.replaying || !c.duties.loading || c.lent != nil || len(c.stack.lends) != 0 {
		return false
	}
	l := &lent{stack: c.stack, nowMs: c.nowMs, began: c.replayed.began, reply: &protocol.Reply{}}
	l.p = &parked{cl: c.stack.frames[0].Client}
	l.tardy = c.nanos-l.began >= c.settings.BusyReplyThreshold.Get()*1e6
	if l.tardy && !c.replayed.tardy {
		c.replayed.tardy = true
		c.pause.release() // they get BUSY now
	}
	c.lent, c.replaying = l, false
	c.stack = c.other(l.stack)
	c.raised++ // so that admission checks
	c.space.Again(nil)
	c.end(pieceTurn)
	c.release()
	runtime.Gosched()
	c.take()
	c.begin(pieceTurn)
	invariant.That(c.stack.depth == 0 && c.stack.unit.effects == 0,
		"engine.N2: others left %d effects", c.stack.unit.effects)
	c.stack, c.nowMs = l.stack, l.nowMs
	c.space.SetNow(l.nowMs) // engine.N3
	c.raised--
	c.lent, c.replaying, c.replayed.gave = nil, true, true
	return true
}

// lendTurn parks the client of the outermost command, which then continues by steps.
func (c *Core) lendTurn(cl *client.Client, args [][]byte, spec *command.Spec, mark protocol.Mark) {
	c.assertHeld()
	invariant.That(c.lent == nil, "engine.N1: two commands lend the turn")
	s := c.stack
	l := &lent{stack: s, nowMs: c.nowMs, began: c.nanos, trust: c.space.Trusting,
		reply: &protocol.Reply{RESP3: cl.Protocol == 3, Chunks: cl.Conn.Chunks()}}
	cl.Out.Cut(mark, l.reply)
	l.pushes = append(l.pushes, c.pushes.pending...)
	c.dropPending()
	l.p = c.parkBusy(cl, args, spec)
	cl.Out = l.reply
	for i := range s.frames[:s.depth] {
		s.frames[i].Reply = l.reply
	}
	for i := range s.lends {
		s.lends[i].mark = s.lends[i].mark.Moved(-mark.Offset())
	}
	s.frames[0].Args, s.frames[0].Bulk = l.p.args, nil // R2
	c.lent = l
	c.stack = c.other(s)
	c.raised++ // so that admission checks
	c.space.Again(nil)
	c.lapParked(cl)
	if c.hooks.Lent != nil {
		c.hooks.Lent()
	}
	go c.drive()
}

// drive gives the lent command its slices, until it has ended.
func (c *Core) drive() {
	for c.slice() {
		runtime.Gosched() // other goroutines come first
	}
}

// slice takes a turn and runs a slice of the lent command in it. It reports whether there is more to do.
func (c *Core) slice() (more bool) {
	c.take()
	defer c.release()
	if c.hasHalted() {
		return false
	}
	c.within(sliceTurn, func() { more = c.runSlice() })
	return more
}

// runSlice runs a slice of the lent command. It reports whether there is more to do. Turn only.
func (c *Core) runSlice() (more bool) {
	l := c.lent
	began := c.nanos
	guest := c.stack
	invariant.That(guest.depth == 0 && guest.unit.effects == 0, "engine.N2: others left %d effects", guest.unit.effects)
	c.stack = l.stack
	c.nowMs = l.nowMs
	c.space.SetNow(l.nowMs) // engine.N3
	trusted := c.space.Trusting
	c.space.Trusting = l.trust
	over := c.step(l)
	c.space.Trusting = trusted
	c.nanos = c.wall.Nanos()
	l.took += c.nanos - began
	if over {
		c.over(l)
	} else {
		c.stack = guest
		if !l.tardy && c.nanos-l.began >= c.settings.BusyReplyThreshold.Get()*1e6 {
			l.tardy = true
			c.pause.release() // they get BUSY now
		}
	}
	return !over
}

// step runs a step of the innermost frame that waits. It reports whether the outermost command has ended.
func (c *Core) step(l *lent) (over bool) {
	s := l.stack
	top := &s.lends[len(s.lends)-1]
	ctx := top.frame
	n, began := len(s.lends), c.wall.Nanos()
	ctx.Now, ctx.Effects.Unheard = l.nowMs, len(c.sinks) == 0
	c.space.NoTouch = ctx.Client.Flags&client.NoTouch != 0
	done, err := top.step(ctx)
	if len(s.lends) > n { // it called a command that also lends
		return false
	}
	top.took += c.wall.Nanos() - began
	if !done && err == nil {
		return false
	}
	ended := *top
	*top = lending{}
	s.lends = s.lends[:n-1]
	c.finish(ctx, err, ended.mark)
	s.depth--
	if !ended.inner {
		return true
	}
	c.noteSizes(ctx.Client, ctx.Spec, ctx.Args, uncounted, 0, ctx.Reply.Since(ended.mark))
	c.done(ctx.Client, ctx.Spec, ctx.Args, ran{calls: 1, took: ended.took, last: ended.took})
	if ended.silent {
		ctx.Reply.Rollback(ended.mark)
	}
	return false
}

// over ends the lent command. Its effects are sent as one unit, and its client and all others continue.
func (c *Core) over(l *lent) {
	p, cl := l.p, l.p.cl
	c.lent = nil
	c.raised--
	c.nanos, c.nowMs = c.wall.Now() // the log writes down when the unit came
	c.space.SetNow(c.nowMs)
	if c.stack.unit.effects != 0 {
		c.flushUnit()
		if c.hooks.Wrote != nil {
			c.hooks.Wrote(cl)
		}
	}
	c.stack.slots = nil
	c.acks.inner = false // a lent EXEC has passed noteAcks by
	cl.Out = nil
	if l.applied != nil {
		l.applied()
	}
	c.runBefore()
	c.done(cl, p.spec, p.args, ran{calls: 1, took: p.took + l.took, last: p.took + l.took, slot: c.stack.counted})
	c.noteSizes(cl, p.spec, p.args, c.stack.counted, c.requestBytes(p.args), l.reply.Len())
	c.stack.counted = uncounted
	c.watchLent(l)
	if c.waiting.byClient[cl] == p { // otherwise the client has left
		c.unpark(cl)
		c.postReply(cl, l.reply, l.pushes)
		if cl.Is(client.CloseAfter) {
			cl.Conn.Close(true)
		}
		cl.Conn.Resume()
	} else {
		l.reply.Discard()
		if c.hooks.Gone != nil && c.clients.Get(cl.ID) != cl {
			c.hooks.Gone(cl) // a later command of its transaction may have subscribed it
		}
	}
	c.unitEnded()
	c.pause.release()
	if c.hooks.Lent != nil {
		c.hooks.Lent()
	}
}
