package reactor

import (
	"golang.org/x/sys/unix"

	"spindle/internal/invariant"
)

// How many bytes are read at once.
const (
	// firstRead bounds a socket's first read in an iteration. It is short, so that little of a long argument is copied
	// from a buffer. The rest of the argument is read into its place.
	firstRead = 32 << 10
	// readBuffer bounds each later read. There is one if the read before it filled its buffer and a long argument is
	// awaited.
	readBuffer = 64 << 10
	// readOnBound is a rough bound of all these reads together, before the loop serves other connections.
	readOnBound = 128 << 10
	// afterArgument is how much is read after a streamed argument: its end and the next request's beginning. If the
	// next request has a long argument too, more bytes would have to be copied.
	afterArgument = 4 << 10
)

// read reads once from the socket and serves the bytes. It reads into a streamed argument's memory if there is one,
// otherwise into buffer. full means that more bytes may be there. 0 bytes without an error mean that the peer has
// ended.
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
	room, buffer = room[:min(len(room), flushBound)], buffer[:afterArgument]
	if n, full, errno = c.readTwo(room, buffer); errno != 0 || n == 0 {
		return n, false, errno
	}
	c.readIntoBulk(min(n, len(room)))
	if behind := n - len(room); behind > 0 {
		c.loop.tally.reads-- // both counted as reads, but they were one
		c.traffic(buffer[:behind])
	}
	return n, full, 0
}

// readOn reads more of a long argument, after a read has filled its buffer. It reports whether more bytes may be there.
// An end or an error shows again in the next iteration. Short requests wait for that iteration, because thousands fit
// into a buffer.
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

// traffic is OnTraffic for bytes in a buffer of the loop (reactor.L2, reactor.L4).
func (c *conn) traffic(data []byte) {
	c.OnTraffic(data)
	if invariant.Enabled && c.away == nil {
		poison(data[:len(data):len(data)])
	}
}
