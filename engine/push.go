package engine

import (
	"spindle/engine/client"
	"spindle/protocol"
)

// A push goes to a client that has not asked for it now: a message of pub/sub, an invalidation.
//
// engine.O1. A client gets replies and pushes in the order in which they were decided.
// engine.O2. What a command pushes to its own client comes right behind that command's reply; in a transaction
// behind EXEC's, in a script behind the script's. A command that was parked or has lent the turn replies later, and so
// do its pushes.
// engine.O3. CLIENT REPLY OFF and SKIP do not hold for pushes.
// engine.O4. The stream of a replica goes by mail also while the replica's own batch is run.
// engine.O5. What a transaction or a script pushes is in its receivers' outputs at once, and counts there. The gate
// holds it back until the unit has ended, and until its effects are on disk where clients wait for that.
//
// Nearly all pushes go by mail. The client whose batch is run is the exception: mail would come behind the whole batch.
type pushes struct {
	here     *client.Client // whose batch is run; nil: none
	pending  []byte         // for here, until the reply of the command that runs is complete
	parked   bool           // a parked client is answered: pushes wait for its reply
	deferred []push         // those pushes
}

// A push that waits: to one client or to an audience.
type push struct {
	to           *client.Client
	all          *client.Audience
	mine         bool
	resp2, resp3 []byte
}

// keptPending is how much room of pushes.pending one command leaves to the next.
const keptPending = 64 << 10

// Push sends p to cl behind everything decided so far. Nobody writes to p afterwards; it may go to many.
func (c *Core) Push(cl *client.Client, p []byte) {
	c.assertHeld()
	switch {
	case cl.Is(client.Replica): // a stream, not an answer: nothing waits for it, and it is not copied
		cl.Conn.Post(c.number, p)
	case c.pushes.parked:
		c.pushes.deferred = append(c.pushes.deferred, push{to: cl, resp2: p})
	case c.lent != nil && c.lent.p.cl == cl:
		c.lent.pushes = append(c.lent.pushes, p...)
	case cl == c.Here():
		c.pushHere(p)
	default:
		cl.Conn.Post(c.mark(), p)
	}
}

// mark is what pushes of now wait for at the gate: this turn, or the end of the open unit (engine.O5).
func (c *Core) mark() uint64 {
	if c.lent == nil && c.stack.depth < 2 {
		return c.number
	}
	return c.unitMark()
}

// unitMark is the mark of the open unit.
func (c *Core) unitMark() uint64 {
	if !c.gated {
		c.gated = true
		c.gate.UnitOpened(c.number)
	}
	return protocol.OfUnit(c.number)
}

// PushAll is Push to an audience: to each client what its protocol has. mine says that Here is in it.
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

// PushEach is Push to each of them. They may come twice. Those on one loop get one mail.
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
		if loop == nil || cl == c.Here() || cl.Is(client.Replica) || c.lent != nil && cl == c.lent.p.cl {
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

// Current is whose command runs: of commands inside commands the client's who has sent the outermost. nil: none runs.
func (c *Core) Current() *client.Client {
	c.assertHeld()
	if c.stack.depth == 0 {
		return nil
	}
	return c.stack.frames[0].Client
}

// Here is the client whose pushes do not go by mail: whose batch is run, or whose command goes on after it has
// lent the turn. nil: there is none.
func (c *Core) Here() *client.Client {
	c.assertHeld()
	if c.pushes.here == nil && c.lent != nil {
		return c.lent.p.cl
	}
	return c.pushes.here
}

// pushHere is Push to Here.
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

// flushPushes puts what the command of the batch's client has pushed to that client behind its reply.
func (c *Core) flushPushes(cl *client.Client) {
	cl.Out.Raw(c.pushes.pending)
	c.takePending()
}

// takePending forgets the pending pushes, which the caller has copied.
func (c *Core) takePending() {
	if cap(c.pushes.pending) > keptPending {
		c.pushes.pending = nil
	}
	c.pushes.pending = c.pushes.pending[:0]
}

// sendDeferred sends what was pushed while a parked client was answered.
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

// postReply gives a parked client its reply, and behind it what its command has pushed to it.
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
