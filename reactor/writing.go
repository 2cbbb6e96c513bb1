package reactor

import (
	"time"

	"golang.org/x/sys/unix"
)

// This file writes the output to the socket.

// written is called when the connection's output has grown. It marks the connection for the next flush, which comes at
// the iteration's end or earlier. It also marks one whose link holds bytes of crypto/tls, which no flush has sent while
// a batch was away.
func (c *conn) written() {
	if c.out.bytes == 0 && !c.holdsOutput() {
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

// flush writes the connection's output, at the end of an iteration or earlier in a crowd.
func (c *conn) flush() {
	c.loop.assertOn()
	c.out.dirty = false
	if c.life == lifeClosed || c.out.blocked || c.away != nil {
		return
	}
	if s := c.loop.sender; s != nil && c.tls == nil && c.life == lifeOpen && s.send(c) {
		return
	}
	c.flushNow()
}

// A sender is a host that sends the replies of an iteration together.
type sender interface {
	// send takes c's output, if it is one run of bytes that may leave. The loop may return it through unsent, before
	// the loop serves or writes anything else.
	send(c *conn) bool
	// sendNow sends the outputs that send has taken.
	sendNow()
}

// flushNow writes as much as the socket takes.
func (c *conn) flushNow() { c.flushed(c.out.flush(&c.link, &c.loop.replies)) }

// flushed handles the result of a flush: n bytes were sent.
func (c *conn) flushed(n int, result flushed) {
	l := c.loop
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
		if c.isClosing() && c.mustEnd() {
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
		l.later(c) // goOn closes it
	}
	c.noteOutput()
}

// mustEnd reports whether a closing connection ends although the gate holds its output. Otherwise it ends when the
// output has left, or when its socket breaks.
func (c *conn) mustEnd() bool {
	if c.loop.reactor.options.Gate.Never(c.out.marks[0].turn) {
		return true
	}
	w, ok := c.loop.host.(breakWatcher)
	return ok && w.watchBreak(c) != nil
}

// A breakWatcher is a host that reports nothing of a socket whose peer has sent its end.
type breakWatcher interface {
	// watchBreak makes the loop call c.breaks once the socket takes no more bytes. On the loop.
	watchBreak(c *conn) error
}

// unsent puts back the bytes of p that the socket has not taken: all but the first result bytes. If result is an errno,
// it puts back all.
func (c *conn) unsent(p piece, result int) {
	l := c.loop
	n := max(0, result)
	l.tally.out -= int64(len(p.b) - n)
	if n == 0 {
		l.tally.writes--
	}
	p.b = p.b[n:]
	c.out.putBack(p)
	switch errno := unix.Errno(-min(0, result)); errno {
	case 0, unix.EAGAIN, unix.EINTR:
		c.flushed(0, flushedFull)
	default:
		c.flushed(0, flushedDead)
	}
}

// writable is called by the backend when the socket takes bytes again.
func (c *conn) writable() {
	c.loop.assertOn()
	if c.life == lifeClosed || !c.out.blocked {
		return
	}
	c.out.blocked = false
	c.markDirty()
}
