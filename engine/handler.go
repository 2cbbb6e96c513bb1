package engine

import (
	"spindle/engine/client"
	"spindle/protocol"
)

// Open implements protocol.Handler: it adds a new client.
func (c *Core) Open(conn protocol.Conn) (session any, refusal []byte) {
	cl, refusal := c.NewClient(conn)
	if cl == nil {
		return nil, refusal
	}
	var names []string
	if c.hooks.Names != nil {
		names = c.hooks.Names(cl)
	}
	c.Do(func() {
		c.enter(cl)
		c.certify(cl, names)
	})
	return cl, nil
}

// Malformed implements protocol.Handler: the bytes that a client has sent are no request. A client under CLIENT REPLY
// OFF or SKIP gets no error. A blocked client gets its pending reply first.
func (c *Core) Malformed(session any, err *protocol.Error) (v protocol.Verdict) {
	cl := session.(*client.Client)
	c.Do(func() {
		if cl.Is(client.Blocked) {
			v = protocol.Wait
			return
		}
		c.meter.countError(err)
		if cl.Is(silenced | client.ReplySkipNext) {
			v = protocol.Leave
		}
	})
	return v
}

// Closed implements protocol.Handler: a client's connection is gone.
func (c *Core) Closed(session any) {
	cl := session.(*client.Client)
	c.Do(func() {
		if c.clients.Get(cl.ID) == cl { // otherwise it was expelled
			c.forget(cl)
		}
	})
}
