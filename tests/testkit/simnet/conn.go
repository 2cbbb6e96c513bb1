package simnet

import "slices"

// A Conn is one end of a connection. Each end has its own Conn.
type Conn struct {
	Local, Remote *Host

	peer     *Conn
	net      *Net
	life     int // the life of Local when the connection was opened
	closed   bool
	received func(message any)
	ended    func()
	early    []any // messages that came before Handle
	lastAt   int64 // when the last message from the peer arrives
	held     []any // messages from the peer, held back by a cut
	heldEnd  bool
	opening  bool // sent messages wait until the connection is accepted
}

// Dial opens a connection from h, which can be used at once. If no host listens there, or the host cannot be reached,
// the connection ends later.
func (h *Host) Dial(to string, port int, received func(message any), ended func()) *Conn {
	n := h.net
	remote := n.find(to)
	c := &Conn{Local: h, Remote: remote, net: n, life: h.life, received: received, ended: ended}
	if remote == nil {
		n.After(n.latency(), c.end)
		return c
	}
	peer := &Conn{Local: remote, Remote: h, net: n, peer: c, opening: true}
	c.peer = peer
	h.conns = append(h.conns, c)
	began := n.now
	var open func()
	open = func() {
		accept := remote.listeners[port]
		switch {
		case c.closed || h.down || h.life != c.life:
		case !n.Reaches(h, remote):
			if n.now-began > connectPatienceMs {
				c.end()
				return
			}
			n.After(connectRetryMs, open)
		case remote.down || accept == nil:
			c.end()
		default:
			peer.life, peer.opening = remote.life, false
			remote.conns = append(remote.conns, peer)
			accept(peer)
			peer.flush()
		}
	}
	n.After(n.latency()+h.LagMs+remote.LagMs, open)
	return c
}

const (
	connectPatienceMs = 120_000
	connectRetryMs    = 500
)

// Handle sets the functions that handle the messages and the end of an accepted connection.
func (c *Conn) Handle(received func(message any), ended func()) {
	c.received, c.ended = received, ended
	early := c.early
	c.early = nil
	for _, m := range early {
		c.deliver(m)
	}
}

// Send sends a message to the peer.
func (c *Conn) Send(message any) {
	if !c.closed && c.peer != nil && !c.peer.closed {
		c.peer.carry(message, false)
	}
}

// carry transports a message, or the end of the connection, to c.
func (c *Conn) carry(message any, end bool) {
	if c.opening || len(c.held) > 0 || c.heldEnd || !c.net.Reaches(c.peer.Local, c.Local) {
		if end {
			c.heldEnd = true
		} else {
			c.held = append(c.held, message)
		}
		return
	}
	c.lastAt = max(c.lastAt, c.net.now+c.net.latency()+c.Local.LagMs+c.peer.Local.LagMs)
	c.net.After(c.lastAt-c.net.now, func() { c.arrive(message, end) })
}

// flush delivers the messages that a cut has delayed.
func (c *Conn) flush() {
	if c.peer == nil || c.opening || !c.net.Reaches(c.peer.Local, c.Local) {
		return
	}
	held, end := c.held, c.heldEnd
	c.held, c.heldEnd = nil, false
	for _, m := range held {
		c.carry(m, false)
	}
	if end {
		c.carry(nil, true)
	}
}

// arrive delivers a message, or the end of the connection, at c's host.
func (c *Conn) arrive(message any, end bool) {
	if c.closed || c.Local.life != c.life {
		return
	}
	c.Local.do(c.life, func() {
		if end {
			c.end()
		} else {
			c.deliver(message)
		}
	})
}

func (c *Conn) deliver(message any) {
	switch {
	case c.closed:
	case c.received == nil:
		c.early = append(c.early, message)
	default:
		c.received(message)
	}
}

// end handles the end of the connection that the peer has caused.
func (c *Conn) end() {
	if c.closed {
		return
	}
	c.forget()
	if c.ended != nil {
		c.Local.do(c.life, c.ended)
	}
}

// Close closes the connection from this end.
func (c *Conn) Close() {
	if c.closed {
		return
	}
	c.forget()
	if c.peer != nil && !c.peer.closed {
		c.peer.carry(nil, true)
	}
}

// Reset closes both ends of the connection at once.
func (c *Conn) Reset() {
	peer := c.peer
	c.end()
	if peer != nil {
		peer.end()
	}
}

// abandon closes the connection when its host goes down.
func (c *Conn) abandon() {
	c.closed = true
	if c.peer != nil && !c.peer.closed {
		c.peer.carry(nil, true)
	}
}

func (c *Conn) forget() {
	c.closed = true
	c.Local.conns = slices.DeleteFunc(c.Local.conns, func(x *Conn) bool { return x == c })
}

// Conns returns the open connections of a host.
func (h *Host) Conns() []*Conn { return slices.Clone(h.conns) }
