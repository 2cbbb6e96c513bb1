package engine

import (
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/internal/invariant"
	"spindle/protocol"
)

// serveReady tries the clients that wait for ready keys, in the order of engine.W2, until no key is ready any more.
func (c *Core) serveReady() {
	c.assertHeld()
	w := &c.waiting
	if len(w.ready) == 0 {
		return
	}
	// The unit that made these keys ready may have taken long. A key that has expired since then serves no client.
	c.readClock()
	for i := 0; i < len(w.ready); i++ { // serving a client may make another key ready
		name := w.ready[i]
		delete(w.isReady, name)
		l := w.byKey[name]
		if l == nil {
			continue
		}
		for s := l.first; s != nil; {
			p, next := s.p, s.next
			// The client left while the client before it was served, so its place in the line is lost.
			if w.byClient[p.cl] != p {
				if s, l = nil, w.byKey[name]; l != nil {
					s = l.first // Start again at the head. Each restart follows a departure, so the loop ends.
				}
				continue
			}
			v := c.space.DB(name.db).Peek([]byte(name.key))
			if !v.Exists() && l.gone == 0 {
				break // the key is used up, so the rest of the line continues to wait
			}
			if p.wait.Gone || v.Exists() && (p.wait.Type == value.None || p.wait.Type == v.Type()) {
				switch v, err := c.admit(unblocked, p.cl, plainCall(p.spec, p.args)); v {
				case refuse:
					c.refuseParked(p, err)
				case run:
					c.retry(p) // with all its keys, because another key may serve it
				}
			}
			s = next
		}
	}
	clear(w.ready)
	w.ready = w.ready[:0]
}

// retry runs a parked client's command again.
func (c *Core) retry(p *parked) {
	c.answerParked(p, commandEvent(p.spec), func(ctx *command.Context) {
		if err := p.wait.Retry(ctx); err != nil {
			c.meter.failed(p.spec, err)
			ctx.Reply.Error(err)
		}
		if ctx.Reply.Len() > 0 {
			c.noteRead(p.cl, p.spec, p.args)
		} else if p.wait.Again != nil && !p.over {
			c.waiting.postpone(p, p.wait.Again(ctx))
		}
	})
}

// retryDue runs a parked client's command again at the time that Again has returned, or in Continue.
func (c *Core) retryDue(p *parked) {
	c.waiting.postpone(p, c.nowMs+heldMs)
	switch v, err := c.admit(unblocked, p.cl, plainCall(p.spec, p.args)); v {
	case refuse:
		c.refuseParked(p, err)
	case run:
		c.retry(p)
	}
}

// heldMs is how long retryDue waits, in ms, if the command is held, for example by a pause.
const heldMs = 10

// refuseParked ends a wait with an error. The command counts as rejected, not as run.
func (c *Core) refuseParked(p *parked, err error) {
	c.assertHeld()
	p.unbooked = false
	c.meter.rejected(p.spec, err)
	c.answerParked(p, unblocking, func(ctx *command.Context) { ctx.Reply.Error(err) })
}

// unblocking is the latency monitor's name for a reply to a parked client that was not caused by a key.
const unblocking = "command-unblocking"

// answerParked lets f reply for a parked client. If f replied, or called EndWait, the client continues. Its call is
// recorded with the time before the wait and the time for the reply. event is the latency monitor's name for the reply.
func (c *Core) answerParked(p *parked, event string, f func(*command.Context)) {
	c.assertHeld()
	cl, began := p.cl, c.wall.Nanos()
	reply := &protocol.Reply{RESP3: cl.Protocol == 3, NoData: !showsData(p.spec), Chunks: cl.Conn.Chunks()}
	outer, quiet := cl.Out, c.space.NoTouch
	cl.Out, c.space.NoTouch = reply, cl.Is(client.NoTouch)
	ctx := &c.stack.frames[c.stack.depth]
	c.stack.depth++
	ctx.Client, ctx.Args, ctx.Bulk, ctx.Reply, ctx.Spec = cl, p.args, nil, reply, p.spec
	ctx.DB, ctx.Now, ctx.Dirty = c.space.DB(p.db), c.nowMs, 0
	ctx.Effects.Unheard = len(c.sinks) == 0
	before := c.stack.counted
	if c.stack.counted = uncounted; c.slotStats != nil {
		c.stack.counted = c.countedOf(cl, p.spec, p.args)
	}
	slot := c.stack.counted
	c.pushes.parked = true
	defer c.sendDeferred() // engine.O2
	f(ctx)
	invariant.That(c.lent == nil && c.stack.depth == 1 || ctx.Dirty == 0 && !ctx.Effects.Replaced,
		"engine.B1: %s has effects while another unit is open", p.spec.Full)
	if ctx.Dirty != 0 || ctx.Effects.Replaced {
		c.book(ctx)
	}
	c.stack.depth--
	if c.stack.depth == 0 && c.stack.unit.effects != 0 {
		c.flushUnit()
		if c.hooks.Wrote != nil {
			c.hooks.Wrote(cl)
		}
	}
	c.stack.counted = before
	cl.Out, c.space.NoTouch = outer, quiet // the loop owns the reply now
	if reply.Len() == 0 && !p.over {
		reply.Discard()
		return
	}
	c.unpark(cl)
	if p.unbooked {
		took := c.wall.Nanos() - began
		c.done(cl, p.spec, p.args, ran{calls: 1, took: p.took + took, last: took, event: event, slot: slot})
		c.noteSizes(cl, p.spec, p.args, slot, c.requestBytes(p.args), reply.Len())
	}
	c.postReply(cl, reply, nil)
	cl.Conn.Resume()
}

// Unblock is CLIENT UNBLOCK: it ends a client's wait with the reply of a timeout or, if asError is true, with an error.
// It returns false if the client is not in a wait that can be ended.
func (c *Core) Unblock(cl *client.Client, asError bool) bool {
	c.assertHeld()
	p := c.waiting.byClient[cl]
	if p == nil || p.wait.Timeout == nil {
		return false
	}
	if !asError {
		c.answerParked(p, unblocking, p.wait.Timeout)
		return true
	}
	c.meter.failed(p.spec, errUnblocked)
	c.answerParked(p, unblocking, func(ctx *command.Context) { ctx.Reply.Error(errUnblocked) })
	return true
}

// UnblockAll ends the waits of clients, except for clients whose command is at work. why returns the error for a
// client, and whether the client stays connected. Without an error the client continues to wait. onKeys is true if it
// waits for keys.
func (c *Core) UnblockAll(why func(cl *client.Client, spec *command.Spec, onKeys bool) (err error, stays bool)) {
	c.assertHeld()
	var all []*parked
	for _, p := range c.waiting.byClient {
		if !p.wait.Busy && p.wait.Timeout != nil {
			all = append(all, p)
		}
	}
	for _, p := range all {
		if c.waiting.byClient[p.cl] != p {
			continue
		}
		err, stays := why(p.cl, p.spec, len(p.stands) > 0)
		if err == nil {
			continue
		}
		c.meter.failed(p.spec, err)
		c.answerParked(p, unblocking, func(ctx *command.Context) { ctx.Reply.Error(err) })
		if !stays {
			c.Kill(p.cl, true)
		}
	}
}

// expireWaits replies to parked clients whose timeout has passed, at most budget of them. The millisecond of a deadline
// is part of the wait, so no client is answered too early.
func (c *Core) expireWaits(budget int) {
	c.assertHeld()
	w := &c.waiting
	for ; budget > 0 && len(w.timeouts) > 0 && w.timeouts[0].dueMs() < c.nowMs; budget-- {
		p := w.timeouts[0]
		if p.wait.DeadlineMs == 0 || p.wait.DeadlineMs >= c.nowMs {
			c.retryDue(p)
			continue
		}
		c.answerParked(p, unblocking, p.wait.Timeout)
		if w.byClient[p.cl] == p { // Timeout did not reply: the wait must leave the heap's head
			c.unpark(p.cl)
			p.cl.Conn.Resume()
		}
	}
}

// Wake calls a parked client's Retry, for waits that no key ends: WAIT, WAITAOF. The Retry only replies, or it asks
// Readmit itself.
func (c *Core) Wake(cl *client.Client) {
	c.assertHeld()
	if p := c.waiting.byClient[cl]; p != nil && p.wait.Retry != nil {
		c.retry(p)
	}
}

// Continue is Wake for a Retry that does a command's work, which waited for something outside the turn. It waits for
// the end of the open unit. Then the gates are asked again: the user may have lost the right, and a pause may hold the
// command. Turn only.
func (c *Core) Continue(cl *client.Client) {
	c.assertHeld()
	p := c.waiting.byClient[cl]
	c.Between(func() {
		if p != nil && c.waiting.byClient[cl] == p {
			c.retryDue(p)
		}
	})
}

// EndWait ends the wait of a client whose Retry does not reply. PSYNC may reply in a later turn.
func (c *Core) EndWait(cl *client.Client) {
	c.assertHeld()
	if p := c.waiting.byClient[cl]; p != nil {
		p.over = true
	}
}

// Answer lets f reply for a parked client. The client continues if f replied.
func (c *Core) Answer(cl *client.Client, f func(*command.Context)) {
	c.assertHeld()
	if p := c.waiting.byClient[cl]; p != nil {
		c.answerParked(p, unblocking, f)
	}
}

// Reroute replies to clients that wait for keys which this server does not serve any more. Turn only.
func (c *Core) Reroute() {
	c.assertHeld()
	m := c.slots.Load()
	var away []*parked
	var why []error
	for _, p := range c.waiting.byClient {
		if len(p.stands) == 0 || p.wait.Busy {
			continue
		}
		if err := c.routeParked(m, p, []byte(p.stands[0].key.key)); err != nil {
			away, why = append(away, p), append(why, err)
		}
	}
	for i, p := range away {
		if c.waiting.byClient[p.cl] == p {
			c.meter.failed(p.spec, why[i])
			c.answerParked(p, unblocking, func(ctx *command.Context) { ctx.Reply.Error(why[i]) })
		}
	}
}

// Readmit is for a command that worked outside the turn and now wants to write key. It returns the reason why it may
// not, or nil. Since its start, its user may have lost a right, the slot may have moved, and the server may have become
// a replica. Turn only.
func (c *Core) Readmit(ctx *command.Context, key []byte) error {
	p := c.waiting.byClient[ctx.Client]
	p.key = key
	_, err := c.admit(returning, p.cl, callOf(p.cl, p.spec, p.args))
	p.key = nil
	return err
}
