package reactor

import "time"

// The way of the output to the socket.

// written marks the connection for the next flush, at the latest at the iteration's end, once its output has grown.
func (c *conn) written() {
	if c.out.bytes == 0 {
		return
	}
	if c.out.bytes > replySize && c.overLimit() {
		return
	}
	if c.out.blocked {
		if len(c.out.tail.B) >= replySize {
			c.out.seal(&c.loop.replies) // so that it does not grow by copying
		}
		c.noteOutput()
		return
	}
	if c.out.bytes >= flushBound/4 {
		c.flushNow()
		return
	}
	c.markDirty()
}

func (c *conn) markDirty() {
	if !c.out.dirty {
		c.out.dirty = true
		c.loop.dirty = append(c.loop.dirty, c)
		if c.out.tail.B != nil {
			c.loop.leased++
		}
	}
}

// flush writes what the connection has to send: at the end of an iteration, or sooner in a crowd.
func (c *conn) flush() {
	c.loop.assertOn()
	c.out.dirty = false
	if c.life == lifeClosed || c.out.blocked || c.away != nil {
		return
	}
	c.flushNow()
}

// flushNow writes what the socket takes.
func (c *conn) flushNow() {
	l := c.loop
	n, result := c.out.flush(&c.link, &l.replies)
	if n > 0 {
		l.tally.writes++
		l.tally.out += int64(n)
		c.moved() // a client that receives a long reply is not idle
	}
	switch result {
	case flushedAll:
		c.out.softSince = time.Time{}
		if c.isClosing() {
			c.close()
			return
		}
	case flushedSome:
		l.later(c)
	case flushedHeld:
		if c.isClosing() && l.reactor.options.Gate.Never(c.out.marks[0].turn) {
			c.close()
			return
		}
		l.await(c)
	case flushedFull:
		c.out.blocked = true
		l.host.watchWrite(c)
	case flushedDead:
		c.out.abandon(&l.replies) // the peer will not read it
		if c.isClosing() {
			c.close()
			return
		}
		c.become(lifeOrphaned)
		l.later(c) // which closes it
	}
	c.noteOutput()
}

// writable is the backend's report that the socket takes bytes again.
func (c *conn) writable() {
	c.loop.assertOn()
	if c.life == lifeClosed || !c.out.blocked {
		return
	}
	c.out.blocked = false
	c.markDirty()
}
