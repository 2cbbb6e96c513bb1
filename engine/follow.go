package engine

import (
	"spindle/engine/client"
	"spindle/protocol"
)

// This file is about the server as a replica: what it runs for its primary, and what it does not do on its own.

// Adopt enters a client without a loop: the link to our primary. It may run every command. Turn only.
func (c *Core) Adopt(conn protocol.Conn) *client.Client {
	c.assertHeld()
	cl := &client.Client{
		ID: c.clients.NextID(), Conn: conn, Protocol: 2, LastCommand: "NULL", Flags: client.Primary, Authenticated: true,
		CreatedMs: c.nowMs, LastMs: c.nowMs,
	}
	c.clients.Add(cl)
	c.countLevel(cl)
	return cl
}

// Dismiss is Closed for a client of Adopt, inside the turn.
func (c *Core) Dismiss(cl *client.Client) {
	c.assertHeld()
	if c.clients.Get(cl.ID) == cl {
		c.forget(cl)
	}
}

// Follow is Serve for the link to our primary. Keys past their deadline are valid until the primary removes them, and
// no client reads the replies. applied runs after the last request, before anything else happens in the turn. If that
// request lends the turn, Follow waits for its end, and applied runs there before the functions of Between. After Halt,
// Follow may return false, and applied has not run.
func (c *Core) Follow(b *protocol.Batch, applied func()) (ran bool) {
	var ended chan struct{}
	c.inTurn(batchTurn, func() { ended = c.follow(b.Session.(*client.Client), b, applied) })
	if ended == nil {
		return true
	}
	select {
	case <-ended:
		return true
	case <-c.halted:
		return false
	}
}

// follow runs one of our primary's batches. If its last request has lent the turn, ended is closed after applied has
// run; else ended is nil. Turn only.
func (c *Core) follow(cl *client.Client, b *protocol.Batch, applied func()) (ended chan struct{}) {
	c.replyInto(cl, b.Reply)
	cl.LastMs = c.nowMs
	c.pushes.here = cl
	c.Trusting(func() { c.run(cl, b) })
	c.space.Again(nil) // the batch's bytes are lent
	cl.Note()
	if l := c.lent; l != nil && l.p.cl == cl {
		ended = make(chan struct{})
		l.applied = func() {
			applied()
			close(ended)
		}
	} else {
		applied()
	}
	if c.nanos >= c.duties.at {
		c.runDuties()
	}
	cl.TurnSeen = c.number
	return ended
}

// SetReplica sets whether this server is a replica. A replica hides keys past their deadline until the primary removes
// them, and it evicts no keys. Turn only.
func (c *Core) SetReplica(on bool) {
	c.AssertWhole("the role changes")
	c.space.Replica = on
	c.space.ForgetOwn()
}

// IgnoreMemoryLimit stops evictions, because a primary does them. Turn only.
func (c *Core) IgnoreMemoryLimit(on bool) {
	c.assertHeld()
	c.eviction.ignored = on
}

// OwnKeys returns the number of this replica's keys whose deadline comes from its own clients. Turn only.
func (c *Core) OwnKeys() int {
	c.assertHeld()
	return c.space.OwnKeys()
}
