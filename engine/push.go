package engine

import (
	"spindle/engine/client"
	"spindle/protocol"
)

// keptPending is the size up to which the buffer pushes.pending is kept for the next command.
const keptPending = 64 << 10

// Push sends p to cl after all earlier replies and pushes. p must not change after the call. It may be sent to many
// clients.
func (c *Core) Push(cl *client.Client, p []byte) {
	c.assertHeld()
	switch {
	case cl.Is(client.Replica): // a stream, not a reply: nothing waits for it, and it is not copied
		cl.Conn.Post(c.number, p)
	case c.pushes.parked:
		c.pushes.deferred = append(c.pushes.deferred, push{to: cl, resp2: p})
	case c.lent != nil && c.lent.p.cl == cl:
		c.lent.pushes = append(c.lent.pushes, p...)
	case readingOf(cl) != nil:
		w := readingOf(cl)
		w.pushes = append(w.pushes, p...)
	case cl == c.Here():
		c.pushHere(p)
	default:
		cl.Conn.Post(c.mark(), p)
	}
}

// mark returns what pushes of now wait for at the gate: the end of this turn, or of the open unit (engine.O5).
func (c *Core) mark() uint64 {
	if c.lent == nil && c.stack.depth < 2 {
		return c.number
	}
	return c.unitMark()
}

// unitMark returns the mark of the open unit.
func (c *Core) unitMark() uint64 {
	if !c.gated {
		c.gated = true
		c.gate.UnitOpened(c.number)
	}
	return protocol.OfUnit(c.number)
}

// PushAll is Push to an audience. Each client gets the bytes for its protocol. mine means that Here is in the audience.
func (c *Core) PushAll(to *client.Audience, mine bool, resp2, resp3 []byte) {
	c.assertHeld()
	if c.pushes.parked {
		c.pushes.deferred = append(c.pushes.deferred, push{all: to, mine: mine, resp2: resp2, resp3: resp3})
		return
	}
	here := c.Here()
	if !mine || here == nil {
		to.Send(c.mark(), nil, resp2, resp3)
		return
	}
	if here.Protocol == 3 {
		c.pushHere(resp3)
	} else {
		c.pushHere(resp2)
	}
	to.Send(c.mark(), here, resp2, resp3)
}

// PushEach is Push to each client of the list. A client may be in it twice. Clients on one loop get one mail.
//
// Lifetime: the list is lent.
func (c *Core) PushEach(to []*client.Client, p []byte) {
	c.assertHeld()
	if len(to) == 1 || c.pushes.parked {
		for _, cl := range to {
			c.Push(cl, p)
		}
		return
	}
	type group struct {
		loop protocol.Loop
		to   []protocol.Conn
	}
	var groups []group
next:
	for i, cl := range to {
		loop := cl.Conn.Loop()
		if loop == nil || cl == c.Here() || cl.Is(client.Busy) || cl.Is(client.Replica) || c.lent != nil &&
			cl == c.lent.p.cl {
			c.Push(cl, p)
			continue
		}
		for j := range groups {
			if groups[j].loop == loop {
				groups[j].to = append(groups[j].to, cl.Conn)
				continue next
			}
		}
		groups = append(groups, group{loop, append(make([]protocol.Conn, 0, len(to)-i), cl.Conn)})
	}
	for _, g := range groups {
		g.loop.PostAll(c.mark(), g.to, nil, p)
	}
}

// pushHere is Push to the client that Here returns.
func (c *Core) pushHere(p []byte) {
	ps := &c.pushes
	switch {
	case c.lent != nil && c.lent.p.cl == c.Here():
		c.lent.pushes = append(c.lent.pushes, p...)
	case c.stack.depth > 0 || len(ps.pending) > 0 || ps.here.Flags&silenced != 0:
		ps.pending = append(ps.pending, p...)
	default:
		ps.here.Out.Raw(p)
	}
}

// flushPushes appends the pushes of the batch's client to itself after its reply.
func (c *Core) flushPushes(cl *client.Client) {
	cl.Out.Raw(c.pushes.pending)
	c.dropPending()
}

// dropPending clears the pending pushes, which the caller has copied.
func (c *Core) dropPending() {
	if cap(c.pushes.pending) > keptPending {
		c.pushes.pending = nil
	}
	c.pushes.pending = c.pushes.pending[:0]
}

// sendDeferred sends the pushes that were made during the reply to a parked client.
func (c *Core) sendDeferred() {
	ps := &c.pushes
	ps.parked = false
	for i := range ps.deferred {
		if d := &ps.deferred[i]; d.all != nil {
			c.PushAll(d.all, d.mine, d.resp2, d.resp3)
		} else {
			c.Push(d.to, d.resp2)
		}
		ps.deferred[i] = push{}
	}
	ps.deferred = ps.deferred[:0]
}

// postReply sends a parked client its reply, and after it the pushes of its command.
func (c *Core) postReply(cl *client.Client, r *protocol.Reply, pushed []byte) {
	cl.Flags &^= client.Caching
	if cl.Flags&silenced != 0 {
		r.Reset()
		cl.Flags &^= client.ReplySkip
	}
	if len(pushed) > 0 {
		r.Raw(pushed)
	}
	if r.Len() == 0 {
		r.Discard()
		return
	}
	r.Seal()
	cl.Conn.PostReply(c.number, r)
}

// silenced holds the flags of a client that wants no replies, or no reply to the command that runs.
const silenced = client.ReplyOff | client.ReplySkip

// unheard holds the flags of a client whose command, now that it has run, gets no reply. CLIENT REPLY SKIP itself gets
// none either.
const unheard = silenced | client.ReplySkipNext | client.Replica
