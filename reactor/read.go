package reactor

import (
	"golang.org/x/sys/unix"

	"spindle/internal/invariant"
)

// How much is read at once.
const (
	// firstRead is what a socket's first read in an iteration may bring. It is short, so that of a long argument little
	// goes through a buffer, from which it is copied: the rest is read where it belongs.
	firstRead = 32 << 10
	// readBuffer is what those that follow may bring, if it filled its buffer and a long argument is awaited, and
	readBuffer = 64 << 10
	// readOnBound what all of them may, more or less, before the loop looks at the others.
	readOnBound = 128 << 10
	// behindArgument is how much is read behind a streamed argument: its end and the next request's beginning. More
	// would have to be copied, if that has a long argument too.
	behindArgument = 4 << 10
)

// read reads once from the socket, and serves what came: of a streamed argument straight into its memory, else into
// buffer. full says that more may be there. With 0 bytes and no error the peer has ended.
func (c *conn) read(buffer []byte) (n int, full bool, errno unix.Errno) {
	n, full, errno = c.readOnce(buffer)
	if c.holdsOutput() && c.life != lifeClosed && !c.out.blocked { // crypto/tls has answered, and the socket was full
		c.markDirty()
	}
	return n, full, errno
}

func (c *conn) readOnce(buffer []byte) (n int, full bool, errno unix.Errno) {
	var room []byte
	if c.streaming() && !c.isHeld() {
		room = c.parser.Room()
	}
	if len(room) == 0 {
		if n, full, errno = c.link.read(buffer); errno == 0 && n > 0 {
			c.traffic(buffer[:n])
		}
		return n, full, errno
	}
	room, buffer = room[:min(len(room), flushBound)], buffer[:behindArgument]
	if n, full, errno = c.readTwo(room, buffer); errno != 0 || n == 0 {
		return n, false, errno
	}
	c.readIntoBulk(min(n, len(room)))
	if behind := n - len(room); behind > 0 {
		c.loop.tally.reads-- // it was one
		c.traffic(buffer[:behind])
	}
	return n, full, 0
}

// readOn goes on where a read has filled its buffer and a long argument is awaited, and says whether more may be there:
// an end or an error shows again in the next iteration. Short requests wait for that, too: thousands of them fit into a
// buffer.
func (c *conn) readOn(buffer []byte) (more bool) {
	for left := readOnBound; left > 0 && c.awaitsLong() && c.flow == flowing && c.isOpen(); {
		n, full, errno := c.read(buffer)
		if errno == unix.EAGAIN {
			return false
		}
		if errno != 0 || n == 0 {
			return true
		}
		if !full {
			return false
		}
		left -= n
	}
	return true
}

// traffic is OnTraffic of bytes in a buffer of the loop's (reactor.L2, reactor.L4).
func (c *conn) traffic(data []byte) {
	c.OnTraffic(data)
	if invariant.Enabled {
		poison(data[:len(data):len(data)])
	}
}
