package reactor

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"spindle/internal/invariant"
)

// The epoll backend: a thin loop of our own.
//
// Sockets are entered once, edge-triggered for reading, writing and hangup, and never changed after: no epoll_ctl for a socket that fills up,
// and the kernel need not look again at every socket it reported. Edges oblige us to remember (E1, E2).
//
// E1. readable stays set until a read brought less than was asked for: only then does the next byte raise a new edge.
// E2. A connection that is readable and not read at once is in loop.ready, or held, in which case Resume puts it there.
// E3. While the loop is awake armed is true, so posts cost no wake-up; before it sleeps it clears armed and looks at the mail once more.
type epollBackend struct {
	reactor *Reactor
	hosts   []*epollHost
	running sync.WaitGroup
}

type epollHost struct {
	loop   *loop
	poll   int
	bell   int     // eventfd
	conns  []*conn // by descriptor
	buffer []byte
	events []unix.EpollEvent
	ending atomic.Bool
}

const edges = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET

// heldBytes is how much of a held connection's input is read ahead; the rest waits in the socket.
const heldBytes = 64 << 10

func (b *epollBackend) start(r *Reactor) error {
	b.reactor = r
	r.makeLoops(r.threads())
	for _, l := range r.loops {
		h, err := newEpollHost(l)
		if err != nil {
			return err
		}
		l.host = h
		b.hosts = append(b.hosts, h)
	}
	for _, h := range b.hosts {
		b.running.Add(1)
		go func() {
			defer b.running.Done()
			h.run()
		}()
	}
	return nil
}

func newEpollHost(l *loop) (*epollHost, error) {
	h := &epollHost{loop: l, buffer: make([]byte, readBuffer), events: make([]unix.EpollEvent, 256)}
	var err error
	if h.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	if h.bell, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	// Edge-triggered, so that it never has to be read.
	err = unix.EpollCtl(h.poll, unix.EPOLL_CTL_ADD, h.bell, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(h.bell)})
	if err != nil {
		return nil, fmt.Errorf("epoll_ctl: %w", err)
	}
	return h, nil
}

func (b *epollBackend) adopt(fd int, c *conn) error {
	c.loop.post(mail{kind: mailOpen, c: c})
	return nil
}

func (b *epollBackend) stop() {
	for _, h := range b.hosts {
		h.ending.Store(true)
		h.ring()
	}
	b.running.Wait()
	for _, h := range b.hosts {
		h.loop.end()
		unix.Close(h.bell)
		unix.Close(h.poll)
	}
}

// run is the loop.
func (h *epollHost) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l := h.loop
	l.armed.Store(true) // E3
	for !h.ending.Load() {
		n := h.wait()
		for i := range n {
			h.event(h.events[i])
		}
		l.turn()
		if n == len(h.events) && n < 4096 {
			h.events = make([]unix.EpollEvent, 2*n)
		}
	}
}

// wait returns how many events there are; it sleeps only if nothing else is to be done.
func (h *epollHost) wait() int {
	l := h.loop
	n, errno := epollPoll(h.poll, h.events)
	if n > 0 || l.pendingTurn() {
		return n
	}
	l.armed.Store(false)
	if l.waiting.Load() {
		l.armed.Store(true)
		return 0
	}
	n, err := unix.EpollWait(h.poll, h.events, -1)
	l.armed.Store(true)
	if err != nil && err != unix.EINTR {
		invariant.That(false, "epoll_wait: %v (%v)", err, errno)
	}
	return max(n, 0)
}

// event is what the kernel has to say about one descriptor.
func (h *epollHost) event(ev unix.EpollEvent) {
	if int(ev.Fd) >= len(h.conns) {
		return // the bell
	}
	c := h.conns[ev.Fd]
	if c == nil {
		return // closed by an earlier event of this iteration, or the bell
	}
	if ev.Events&unix.EPOLLOUT != 0 && c.blocked {
		c.writable()
	}
	const ended = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	if ev.Events&(unix.EPOLLIN|ended) == 0 {
		return
	}
	c.readable = true // E1
	if ev.Events&ended != 0 {
		c.hungUp = true
		if c.held || ev.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 && c.closing {
			c.hangup()
			return
		}
	}
	h.readMore(c)
}

// readMore reads once from a socket that may hold bytes.
func (h *epollHost) readMore(c *conn) {
	if c.closed || c.closing || c.held && len(c.pending)-c.served >= heldBytes {
		return
	}
	into := h.buffer
	direct := false
	if c.streaming() && !c.held {
		if room := c.parser.Room(); len(room) > 0 {
			into, direct = room[:min(len(room), flushBound)], true
		}
	}
	n, errno := read(c.fd, into)
	switch {
	case errno == unix.EAGAIN:
		c.readable = false
		return
	case errno == unix.EINTR:
	case errno != 0 || n == 0:
		c.hangup()
		return
	case direct:
		c.readIntoBulk(n)
	default:
		c.OnTraffic(into[:n])
		if invariant.Enabled {
			poison(into[:n:n])
		}
	}
	if c.closed {
		return
	}
	if n < len(into) && errno == 0 && !c.hungUp {
		c.readable = false // E1
		return
	}
	if !c.held || len(c.pending)-c.served < heldBytes {
		h.loop.later(c) // E2
	}
}

// enter takes a socket into the loop.
func (h *epollHost) enter(c *conn) {
	if err := unix.EpollCtl(h.poll, unix.EPOLL_CTL_ADD, c.fd, &unix.EpollEvent{Events: edges, Fd: int32(c.fd)}); err != nil {
		unix.Close(c.fd)
		h.loop.reactor.lost(err)
		return
	}
	if c.fd >= len(h.conns) {
		grown := make([]*conn, max(2*len(h.conns), c.fd+64))
		copy(grown, h.conns)
		h.conns = grown
	}
	h.conns[c.fd] = c
	c.open()
}

func (h *epollHost) wake() { h.ring() }

func (h *epollHost) ring() {
	one := [8]byte{1}
	write(h.bell, one[:])
}

// watchWrite has nothing to do: the edge comes by itself.
func (h *epollHost) watchWrite(*conn) {}

func (h *epollHost) drop(c *conn) {
	h.conns[c.fd] = nil
	unix.Close(c.fd)
}
