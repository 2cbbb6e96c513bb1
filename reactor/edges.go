package reactor

import (
	"golang.org/x/sys/unix"
)

// This file has the edges: how the loops of gnet and epoll read their sockets.
//
// A socket is registered once, edge-triggered, for bytes and for the peer's end. After it has been full for the first
// time it also reports room to write. So the kernel need not check again each socket that it has reported.
//
// reactor.E1. readable stays set until a read brings less than was asked for. Only then the next byte makes an event.
// reactor.E2. A connection that is readable and not read at once is in loop.ready, or held, or paused. Resume and
// Continue move it to loop.ready.
// reactor.E3. An event may be for a socket that was closed earlier in the iteration, and whose descriptor is in use
// again. A read or a write shows whether there are bytes or room. To learn of the peer's end, the loop asks the socket
// itself.

// sockets are the connections of one loop, by descriptor. On the loop.
type sockets struct {
	loop  *loop
	poll  poller
	conns []*conn
}

// A poller reports edges of descriptors.
type poller interface {
	Add(fd int) error       // for bytes and for the peer's end
	AddWrites(fd int) error // also for room to write; fd must have been added
	Remove(fd int)          // reports fd no more, except in the present iteration
}

// heldBytes bounds the input that is read from a held connection. The rest waits in the socket.
const heldBytes = 64 << 10

func newSockets(l *loop, p poller) sockets {
	l.buffer = make([]byte, readBuffer)
	return sockets{loop: l, poll: p}
}

// enter registers c's socket with the poller and opens c.
func (s *sockets) enter(c *conn) {
	if err := s.poll.Add(c.fd); err != nil {
		unix.Close(c.fd)
		if c.sink != nil {
			c.lost(err)
			return
		}
		s.loop.reactor.lost(err)
		return
	}
	s.keep(c)
	c.open()
	if c.tls != nil && c.life != lifeClosed { // TLS may hold requests already (reactor.S3)
		c.announced()
		s.loop.later(c)
	}
}

// keep adds c to the connections of the loop.
func (s *sockets) keep(c *conn) {
	if c.fd >= len(s.conns) {
		grown := make([]*conn, max(2*len(s.conns), c.fd+64))
		copy(grown, s.conns)
		s.conns = grown
	}
	s.conns[c.fd] = c
}

// release implements mover.
func (s *sockets) release(c *conn) {
	s.conns[c.fd] = nil
	s.poll.Remove(c.fd)
}

// arrive implements mover. Adding a socket to the poller reports also what came before (reactor.V5).
func (s *sockets) arrive(c *conn) {
	s.loop.conns[c] = struct{}{}
	c.writes = false
	s.keep(c)
	if err := s.poll.Add(c.fd); err != nil {
		c.close()
		return
	}
	if s.loop.stopping {
		c.closeAfterOutput()
	}
}

// drop forgets c and closes its socket.
func (s *sockets) drop(c *conn) {
	s.conns[c.fd] = nil
	unix.Close(c.fd)
}

// watchWrite requests an event when c's socket takes bytes again. It does so once, the first time that the socket is
// full.
func (s *sockets) watchWrite(c *conn) {
	if c.writes {
		return
	}
	c.writes = true
	if err := s.poll.AddWrites(c.fd); err != nil {
		c.close()
	}
}

const ended = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR

// event handles the kernel's report about one descriptor.
func (s *sockets) event(fd int, events uint32) {
	if fd >= len(s.conns) || s.conns[fd] == nil {
		return // closed by an earlier event of this iteration
	}
	// A connection that has more to do waits for its place in loop.ready (reactor.C2).
	if c := s.conns[fd]; c.reported(events) && c.flow != flowMore {
		s.readMore(c)
	}
}

// reported handles a poller's events for c's socket. It reports whether the socket must be read.
func (c *conn) reported(events uint32) (reads bool) {
	if c.away != nil {
		c.away.events |= events // reactor.Y1
		return false
	}
	fd := c.fd
	if events&unix.EPOLLOUT != 0 && c.out.blocked {
		c.writable()
	}
	if events&(unix.EPOLLIN|ended) == 0 {
		return false
	}
	c.announced() // reactor.E1
	if events&ended != 0 {
		if events = endOf(fd); events != 0 { // reactor.E3
			c.hungUp, c.broken = true, c.broken || events&(unix.EPOLLHUP|unix.EPOLLERR) != 0
			if c.flow == flowHeld || events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 && c.isClosing() {
				c.hangup()
				return false
			}
		}
	}
	return true
}

// endOf asks the socket whether the peer has ended. It returns bits of ended, which poll(2) shares with epoll.
func endOf(fd int) uint32 {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	if n, err := unix.Poll(p[:], 0); n != 1 || err != nil {
		return 0
	}
	return uint32(uint16(p[0].Revents)) & ended
}

// readMore implements reader.
func (s *sockets) readMore(c *conn) { c.readMore(s.loop.buffer[:firstRead], s.loop.buffer) }

// readMore reads from a socket that may hold bytes: once into first, and more into rest if a long argument is awaited.
func (c *conn) readMore(first, rest []byte) {
	if !c.isOpen() || c.paused || c.isHeld() && len(c.pending)-c.served >= heldBytes {
		return
	}
	n, full, errno := c.read(first)
	switch {
	case errno == unix.EAGAIN:
		c.readable = false
		return
	case errno == unix.EINTR:
	case errno != 0:
		c.breaks()
		return
	case n == 0:
		c.hangup()
		return
	}
	full = full && c.readOn(rest)
	if c.life == lifeClosed {
		return
	}
	if c.flow == flowHeld && c.hungUp {
		c.hangup() // there will be no other event
		return
	}
	if !full && errno == 0 && !c.hungUp {
		c.readable = false // reactor.E1
		return
	}
	if !c.isHeld() || len(c.pending)-c.served < heldBytes {
		c.loop.later(c) // reactor.E2
	}
}
