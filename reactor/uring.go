package reactor

import (
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"spindle/reactor/uring"
)

// The io_uring backend lets the kernel read the sockets itself, into a ring of buffers. One system call for each
// iteration sends the replies, and brings the bytes that have arrived.
//
//	           Enter                          Enter
//	sockets ─▶ buffers ─▶ OnTraffic ─▶ turn ─▶ sockets
//	              ▲ Give, when the batch has returned
//
// A connection under TLS is read as with epoll, after its events. So is a bare connection whose receive has stopped:
// while its client sends faster than it is served, or while it sends a long argument.
//
// reactor.U1. A socket whose receive is armed may be read directly, too, but only after all completions of the last
// Enter. So its bytes stay in order (uring.R1).
// reactor.U2. Bytes that arrive for a connection that is away stay in their buffers, in order, until it is back.
// reactor.U3. A reply belongs to the kernel only from the end of a flush to the end of the next Enter or Submit. No
// connection is served, closed or written to meanwhile.
// reactor.U4. A descriptor for which requests were filled is closed by a later request (uring.R2).
type uringHost struct {
	*doorbell
	loop    *loop
	ring    *uring.Ring
	sockets []*uringSocket
	serial  uint64
	sends   []sending
}

// A uringSocket is the state of the ring for one connection.
type uringSocket struct {
	c        *conn
	serial   uint64
	receives bool // a receive is armed
	stopping bool // it is being cancelled
	polled   bool // events are reported
	watched  bool // room to write is reported, once
	breaks   bool // the watcher has it
	kept     []kept
}

// A kept is bytes in a buffer (reactor.U2).
type kept struct{ buffer, n int }

// A sending is a reply that belongs to the kernel (reactor.U3).
type sending struct {
	c *conn
	piece
}

// keptMost bounds the buffers that are kept for a connection that is away. Beyond it, the connection's receive stops.
const keptMost = 2

// The upper bits of a completion's user are the kind of its request. The lower ones are a socket and its serial number,
// or an index in sends.
const (
	ofNothing = iota // cancelled, closed, or handled already
	ofReceive
	ofEvents
	ofRoom
	ofSend
	ofBell
	ofDoor
)

const (
	kindShift   = 60
	serialShift = 32
	serialMask  = 1<<(kindShift-serialShift) - 1
)

func (s *uringSocket) user(kind uint64) uint64 {
	return kind<<kindShift | s.serial<<serialShift | uint64(uint32(s.c.fd))
}

func newUringHost(l *loop) (ownHost, error) {
	b, err := newDoorbell()
	if err != nil {
		return nil, err
	}
	h := &uringHost{doorbell: b, loop: l}
	l.buffer, l.sender = make([]byte, readBuffer), h
	if h.ring, err = uring.New(); err != nil {
		return nil, err
	}
	return h, nil
}

func (h *uringHost) lead(a *acceptor) error {
	h.door.leads.Store(a)
	h.loop.post(mail{kind: mailRun, run: h.watchDoor}) // a notify alone is lost while the loop is awake (reactor.P1)
	return nil
}

func (h *uringHost) close() {
	h.loop.end()
	h.ring.Close()
}

// run runs the loop. It stays on its thread, because the kernel accepts requests of a ring from one thread alone.
func (h *uringHost) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := h.ring.Enable(); err != nil {
		panic(err) // New has made it
	}
	l := h.loop
	l.armed.Store(true) // reactor.P1
	h.ring.PollEdges(h.bell, unix.POLLIN, ofBell<<kindShift)
	for !h.ending.Load() {
		h.wait()
		for {
			done, ok := h.ring.Completion()
			if !ok {
				break
			}
			h.complete(&done)
			l.relieve()
		}
		l.turn()
		if h.door.waiting {
			h.sendNow() // no connection is opened while the kernel has replies (reactor.U3)
			if h.door.answer(l) {
				h.watchDoor()
			}
		}
	}
	for h.exchange(false, false); h.ring.Ready(); h.exchange(false, false) { // the last sockets are closed
		for ok := true; ok; _, ok = h.ring.Completion() {
		}
	}
}

// wait passes all requests to the kernel and receives. It sleeps only if the loop has nothing else to do, as
// epollHost.wait does.
func (h *uringHost) wait() {
	l := h.loop
	if l.pendingTurn() {
		h.exchange(false, false)
		return
	}
	l.armed.Store(false) // reactor.P1
	switch {
	case len(l.away) > 0 && !l.rest(), l.isCalled(): // reactor.Y3
		h.exchange(false, false)
	default:
		if h.raw && !l.sleeps && l.gap < giveFrom {
			h.exchange(true, false)
		}
		if !h.ring.Ready() {
			h.exchange(true, true)
		}
	}
	l.armed.Store(true)
}

// giveFrom is the time between two requests, in nanoseconds, from which it costs less to give the P away at once. At
// 20 requests a second the CPU of a request fell from 1.8 to 0.65 ms. At 100 it would be greater.
const giveFrom = int64(20 * time.Millisecond)

// exchange passes the requests to the kernel, and receives.
func (h *uringHost) exchange(wait, giving bool) {
	h.ring.Enter(wait, giving)
	h.sent()
}

// complete handles one completion.
func (h *uringHost) complete(done *uring.Completion) {
	switch done.User >> kindShift {
	case ofBell:
		if !done.More() {
			h.ring.PollEdges(h.bell, unix.POLLIN, ofBell<<kindShift)
		}
		return
	case ofDoor:
		h.door.waiting = true
		return
	case ofNothing:
		return
	}
	s := h.find(done.User)
	switch done.User >> kindShift {
	case ofReceive:
		h.received(s, done)
	case ofEvents:
		if s != nil {
			if s.polled = done.More(); !s.polled && s.c.tls != nil {
				h.watchEvents(s)
			}
			h.event(s.c.fd, uint32(max(done.Result, 0)))
		}
	case ofRoom:
		if s != nil {
			s.watched = false
			h.event(s.c.fd, unix.EPOLLOUT)
		}
	}
}

// find returns the socket of a completion, unless it has been closed.
func (h *uringHost) find(user uint64) *uringSocket {
	if fd := int(uint32(user)); fd < len(h.sockets) {
		if s := h.sockets[fd]; s != nil && s.serial == user>>serialShift&serialMask {
			return s
		}
	}
	return nil
}

func (h *uringHost) watchDoor() {
	h.ring.Poll(h.door.leads.Load().poll, unix.POLLIN, ofDoor<<kindShift)
}

// watchEvents requests events of the socket: under TLS all of them, otherwise only the peer's end, once.
func (h *uringHost) watchEvents(s *uringSocket) {
	if s.polled {
		return
	}
	s.polled = true
	if s.c.tls != nil {
		h.ring.PollEdges(s.c.fd, unix.POLLIN|unix.POLLRDHUP, s.user(ofEvents))
		return
	}
	h.ring.Poll(s.c.fd, unix.POLLRDHUP, s.user(ofEvents))
}

// enter registers c's socket with the loop and opens c.
func (h *uringHost) enter(c *conn) {
	if c.fd >= len(h.sockets) {
		grown := make([]*uringSocket, max(2*len(h.sockets), c.fd+64))
		copy(grown, h.sockets)
		h.sockets = grown
	}
	h.serial = (h.serial + 1) & serialMask
	s := &uringSocket{c: c, serial: h.serial}
	h.sockets[c.fd] = s
	c.open()
	switch {
	case c.life == lifeClosed:
	case c.tls != nil: // TLS may hold requests already (reactor.S3)
		h.watchEvents(s)
		c.announced()
		h.loop.later(c)
	default:
		h.receive(s)
	}
}

// drop forgets c and closes its socket.
func (h *uringHost) drop(c *conn) {
	s := h.sockets[c.fd]
	h.sockets[c.fd] = nil
	if s.breaks {
		h.loop.reactor.watcher.remove(c)
	}
	for _, k := range s.kept {
		h.ring.Buffers.Give(k.buffer)
	}
	if !s.receives && !s.polled && !s.watched {
		unix.Close(c.fd)
		return
	}
	if s.receives {
		h.ring.Cancel(s.user(ofReceive))
	}
	if s.polled {
		h.ring.Cancel(s.user(ofEvents))
	}
	if s.watched {
		h.ring.Cancel(s.user(ofRoom))
	}
	h.ring.CloseFile(c.fd) // reactor.U4
}

// watchWrite requests an event when the socket takes bytes again.
func (h *uringHost) watchWrite(c *conn) {
	if s := h.sockets[c.fd]; !s.watched {
		s.watched = true
		h.ring.Poll(c.fd, unix.POLLOUT, s.user(ofRoom))
	}
}

// watchBreak implements breakWatcher. A poll of the ring would report only that the peer sends no more.
func (h *uringHost) watchBreak(c *conn) error {
	h.sockets[c.fd].breaks = true
	return h.loop.reactor.watcher.add(c, 0)
}

// receive arms the socket's receive.
func (h *uringHost) receive(s *uringSocket) {
	s.receives, s.stopping = true, false
	h.ring.Receive(s.c.fd, s.user(ofReceive))
}

// hold stops the socket's receive. Later bytes stay in the socket.
func (h *uringHost) hold(s *uringSocket) {
	if s.receives && !s.stopping {
		s.stopping = true
		h.ring.Cancel(s.user(ofReceive))
	}
}

// received handles the bytes of a receive. s is nil if the socket has been closed.
func (h *uringHost) received(s *uringSocket, done *uring.Completion) {
	buffer, given := done.Buffer()
	switch {
	case given && (s == nil || done.Result <= 0):
		h.ring.Buffers.Give(buffer)
	case given && s.c.away != nil:
		h.keep(s, kept{buffer, int(done.Result)})
	case given:
		h.serve(s, kept{buffer, int(done.Result)}, done.Rest())
	}
	if s == nil {
		return
	}
	if s.receives = done.More(); !s.receives && s.c.life != lifeClosed {
		h.receivedLast(s, int(done.Result))
	}
}

// receivedLast handles the last completion of a receive. A result of 0 is the peer's end, and one below 0 is an errno.
func (h *uringHost) receivedLast(s *uringSocket, result int) {
	c, errno := s.c, unix.Errno(max(0, -result))
	if errno == unix.ECANCELED {
		h.watchEvents(s)
	}
	switch {
	case result > 0 && c.flow == flowing && !c.paused && c.isOpen(): // it has brought its share of bytes
		h.receive(s)
	case result > 0, errno == unix.ECANCELED, errno == unix.ENOBUFS, errno == unix.EINVAL && h.ring.Unbind():
		c.announced() // a read finds more, and receives again if it does not
		if c.away == nil {
			h.loop.later(c)
		}
	case c.away != nil:
		c.away.events |= unix.EPOLLRDHUP
	case errno == 0 && c.isClosing(): // the peer may still take the output
		h.watchEvents(s)
	default:
		c.hungUp, c.broken = true, errno != 0
		c.hangup()
	}
}

// serve serves the bytes of a buffer. rest means that the socket holds more.
func (h *uringHost) serve(s *uringSocket, k kept, rest bool) {
	c := s.c
	c.OnTraffic(h.ring.Buffers.Bytes(k.buffer, k.n))
	if c.away != nil {
		c.away.room = k.buffer + 1 // takeBack returns the buffer
		return
	}
	h.ring.Buffers.Give(k.buffer)
	switch {
	case c.life == lifeClosed:
	case !c.isOpen(), c.paused, c.isHeld() && len(c.pending)-c.served >= heldBytes:
		h.hold(s)
	case rest && c.awaitsLong(): // it is read into its memory
		c.announced()
		h.loop.later(c)
	}
}

// keep keeps bytes of a connection that is away (reactor.U2).
func (h *uringHost) keep(s *uringSocket, k kept) {
	s.kept = append(s.kept, k)
	s.c.away.events |= unix.EPOLLIN
	if len(s.kept) >= keptMost {
		h.hold(s)
	}
}

// takeBack returns the buffer of a batch that is back to the kernel.
func (h *uringHost) takeBack(buffer int) { h.ring.Buffers.Give(buffer) }

// event handles events of a socket, as bits of poll(2), which epoll shares.
func (h *uringHost) event(fd int, events uint32) {
	s := h.sockets[fd]
	if s == nil {
		return
	}
	c := s.c
	for c.away == nil && len(s.kept) > 0 {
		k := s.kept[0]
		s.kept = slices.Delete(s.kept, 0, 1)
		if h.serve(s, k, false); c.life == lifeClosed {
			return
		}
	}
	if c.reported(events) {
		h.loop.later(c) // reactor.U1
	}
}

// readMore implements reader.
func (h *uringHost) readMore(c *conn) {
	c.readMore(h.loop.buffer[:firstRead], h.loop.buffer)
	if c.life == lifeClosed || c.tls != nil || c.readable || !c.isOpen() {
		return
	}
	if s := h.sockets[c.fd]; !s.receives {
		h.receive(s)
	}
}

// send implements sender.
func (h *uringHost) send(c *conn) bool {
	p, ok := c.out.takeWhole()
	if ok {
		h.ring.Send(c.fd, p.b, ofSend<<kindShift|uint64(len(h.sends)))
		h.sends = append(h.sends, sending{c, p})
		c.flushed(len(p.b), flushedAll)
	}
	return ok
}

// sendNow implements sender.
func (h *uringHost) sendNow() {
	if len(h.sends) > 0 {
		h.ring.Submit()
		h.sent()
	}
}

// sent releases the replies that were sent, and puts back the bytes that sockets have not taken (uring.R3).
func (h *uringHost) sent() {
	if len(h.sends) == 0 {
		return
	}
	for done := range h.ring.Unread {
		if done.User>>kindShift == ofSend {
			s := &h.sends[done.User&serialMask]
			s.c.unsent(s.piece, int(done.Result))
			s.piece, done.User = piece{}, ofNothing
		}
	}
	for i := range h.sends {
		h.sends[i].free(&h.loop.replies)
	}
	clear(h.sends)
	h.sends = h.sends[:0]
}
