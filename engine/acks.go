package engine

import (
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// showsData reports whether a reply of the command may show the data set. Only such replies wait for replicas. Replies
// to PING, INFO, CONFIG, PUBLISH and PSYNC do not wait. An operator, a Sentinel or a replica must be able to reach a
// server that lacks replicas. A Sentinel would take a server for dead if a PUBLISH before its PING had to wait.
func showsData(spec *command.Spec) bool {
	return spec.Flags&(command.Write|command.ReadOnly|command.MayReplicate) != 0 && spec.Flags&command.PubSub == 0
}

// noteAcks records that a command of cl has run (engine.Q2). EXEC shows data if one of its commands did. An EXEC that
// has run no command shows that a watched key has changed.
func (c *Core) noteAcks(cl *client.Client, spec *command.Spec) {
	shows := showsData(spec)
	if spec.Has(command.RunsQueue) {
		shows, c.acks.inner = !c.acks.inner, false
	}
	if shows {
		cl.AckShown = max(cl.AckShown, cl.AckLevel())
	}
}

// OnAckLevels sets f, which the core calls in a turn when the levels in use may have changed. Call it before the first
// turn.
func (c *Core) OnAckLevels(f func()) { c.acks.changed = f }

// AckClients returns the number of clients whose replies wait for level replicas. The level of min-replicas-to-ack
// counts as one client more, even if none is connected. Turn only.
func (c *Core) AckClients(level int) int {
	c.assertHeld()
	n := c.acks.clients[level]
	if level == int(c.acks.common) {
		n++
	}
	return n
}

// SetCommonAcks sets the level of all clients for which neither CLIENT ACK nor a user's rule sets one. Turn only.
func (c *Core) SetCommonAcks(level uint8) {
	c.assertHeld()
	c.acks.common = level
	if c.gate != nil {
		c.gate.SetCommonLevel(int(level))
	}
	for cl := range c.clients.All {
		c.setLevel(cl)
	}
	c.levelsChanged()
}

// SetAcks is CLIENT ACK: cl's replies wait for level replicas. With -1, the level comes from cl's user. Turn only.
func (c *Core) SetAcks(cl *client.Client, level int) {
	c.assertHeld()
	cl.AckWish = int8(level + 1)
	if c.clients.Get(cl.ID) == cl {
		c.setLevel(cl)
		c.levelsChanged()
	}
}

// levelOf returns cl's level (engine.Q1).
func (c *Core) levelOf(cl *client.Client) uint8 {
	if cl.AckWish > 0 {
		return uint8(cl.AckWish - 1)
	}
	if u, ok := cl.User.(*acl.User); ok {
		if n := u.Rights().Acks(); n >= 0 {
			return uint8(n)
		}
	}
	return c.acks.common
}

// setLevel keeps engine.Q1 for a client in the registry.
func (c *Core) setLevel(cl *client.Client) {
	was, now := cl.AckLevel(), c.levelOf(cl)
	if cl.Is(client.Primary) {
		now = 0
	}
	if now < was && c.stack.depth > 1 { // the running transaction may have shown data before
		cl.AckShown = max(cl.AckShown, was)
	}
	c.acks.clients[was]--
	c.acks.clients[now]++
	cl.SetAckLevel(now)
}

// countLevel counts a client that has just entered.
func (c *Core) countLevel(cl *client.Client) {
	c.acks.clients[0]++
	cl.SetAckLevel(0)
	if c.setLevel(cl); cl.AckLevel() != 0 {
		c.levelsChanged()
	}
}

// forgetLevel stops counting a client that leaves.
func (c *Core) forgetLevel(cl *client.Client) {
	c.acks.clients[cl.AckLevel()]--
	cl.SetAckLevel(0)
}

func (c *Core) levelsChanged() {
	if c.acks.changed != nil {
		c.acks.changed()
	}
}

// Gate returns the gate that holds back the replies of turns. It may be nil. Any goroutine.
func (c *Core) Gate() *protocol.Gate { return c.gate }
