package reactor

import "spindle/protocol"

// A long last argument is streamed: its bytes go straight into the memory where it will stay.

// streaming reports whether a big argument is being read into its own memory.
func (c *conn) streaming() bool { return c.parser != nil && c.parser.Streaming() }

// stream begins to read a big last argument into memory that the handler lends.
func (c *conn) stream(p *protocol.Parser, head []byte) {
	if b := c.reserve(p.Expects(head)); b != nil {
		p.Stream(head, b)
		c.enlarge()
	}
}

// reserve returns memory for an argument. It returns nil if the client has got an error; the connection then closes.
func (c *conn) reserve(size int) *protocol.Bulk {
	b, err := c.loop.handler.Reserve(c.session, size)
	if err != nil {
		if held := c.malformed(err); held {
			c.close()
		}
		return nil
	}
	if b == nil {
		b = &protocol.Bulk{Data: make([]byte, size)}
	}
	return b
}

// enlarge gets more memory for a streamed argument that needs it. If none is available it ends the stream and returns
// false.
func (c *conn) enlarge() bool {
	size := c.parser.Cramped()
	if size == 0 {
		return true
	}
	b := c.reserve(size)
	if b == nil {
		c.endStream()
		return false
	}
	c.parser.Enlarge(b)
	return true
}

// feed passes the arrived bytes to a streamed argument, and runs the request when the argument is complete. It returns
// the bytes after the argument.
func (c *conn) feed(data []byte) []byte {
	p := c.parser
	p.Use(&c.loop.scratch)
	for {
		n, complete := p.Feed(data)
		data = data[n:]
		if complete {
			c.runStreamed(len(data))
			return data
		}
		if p.Cramped() == 0 {
			return data
		}
		if !c.enlarge() {
			return nil
		}
	}
}

// readIntoBulk notes that n bytes of a streamed argument were read straight into its memory.
func (c *conn) readIntoBulk(n int) {
	l := c.loop
	l.tally.reads++
	l.tally.in += int64(n)
	c.readAt = l.beganAt()
	c.moved()
	c.parser.Advance(n)
	c.enlarge()
	c.noteInput()
}

// runStreamed runs the request whose last argument was streamed. A request that does not finish stays in the parser
// until Resume.
func (c *conn) runStreamed(unread int) {
	p := c.parser
	done, _ := c.run(p.Requests, nil, unread, false)
	if done == 0 && c.isOpen() {
		c.replay = true
		return
	}
	c.endStream()
}

// endStream frees the argument's memory unless a handler has taken it.
func (c *conn) endStream() {
	p := c.parser
	if p == nil || !p.Streaming() {
		return
	}
	if b := p.Served(); !b.Taken && b.Release != nil {
		b.Release(b)
	}
	c.parser = nil
	c.loop.giveParser(p)
}
