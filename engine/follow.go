package engine

import (
	"spindle/engine/client"
	"spindle/protocol"
)

// This server as a replica: what it runs for its primary, and what it does not do on its own.

// Adopt enters a client that no loop has brought: the link to our primary. It may do everything. Turn only.
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

// Dismiss is Closed for a client of Adopt's, inside the turn.
func (c *Core) Dismiss(cl *client.Client) {
	c.assertHeld()
	if c.clients.Get(cl.ID) == cl {
		c.forget(cl)
	}
}

// Follow is Serve for the link to our primary: keys past their deadline are valid until it removes them, and no client
// reads the replies. applied runs after the last request, when nothing else of the turn has been decided.
func (c *Core) Follow(b *protocol.Batch, applied func()) {
	c.inTurn(batchTurn, func() { c.follow(b.Session.(*client.Client), b, applied) })
}

// follow runs a batch of our primary's. Turn only.
func (c *Core) follow(cl *client.Client, b *protocol.Batch, applied func()) {
	cl.Out, cl.LastMs = b.Reply, c.nowMs
	c.pushes.here = cl
	c.Trusting(func() { c.run(cl, b) })
	c.space.Again(nil) // the batch's bytes are lent
	cl.Note()
	applied()
	if c.nanos >= c.duties.at {
		c.runDuties()
	}
	cl.TurnSeen = c.number
}

// SetReplica says whether this server is one: then keys past their deadline are hidden and stay until the primary
// removes them, and nothing is evicted. Turn only.
func (c *Core) SetReplica(on bool) {
	c.AssertWhole("the role changes")
	c.space.Replica = on
	c.space.ForgetOwn()
}

// IgnoreMemoryLimit has nothing evicted, because a primary does that. Turn only.
func (c *Core) IgnoreMemoryLimit(on bool) {
	c.assertHeld()
	c.eviction.ignored = on
}

// OwnKeys is how many keys of this replica have their deadline from its own clients. Turn only.
func (c *Core) OwnKeys() int {
	c.assertHeld()
	return c.space.OwnKeys()
}
