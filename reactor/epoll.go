package reactor

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
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
	raw    bool // see wait
	ending atomic.Bool
}

const edges = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET

// heldBytes is how much of a held connection's input is read ahead; the rest waits in the socket.
const heldBytes = 64 << 10

func (b *epollBackend) start(r *Reactor) error {
	b.reactor = r
	r.makeLoops(r.threads())
	if need := len(r.loops) + 1; runtime.GOMAXPROCS(0) < need {
		runtime.GOMAXPROCS(need) // see wait
	}
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
	h.raw = !strings.Contains(os.Getenv("GODEBUG"), "asyncpreemptoff=1")
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
		ringBell(h.bell)
	}
	b.running.Wait()
	for _, h := range b.hosts {
		h.loop.end()
		unix.Close(h.bell)
		unix.Close(h.poll)
	}
}

// run is the loop. It is not locked to its thread: that was measured to gain nothing here, and makes every contended turn, and every
// preemption, a hand-over between threads.
func (h *epollHost) run() {
	l := h.loop
	l.armed.Store(true) // E3
	for !h.ending.Load() {
		n := h.wait()
		for i := range n {
			h.event(h.events[i])
			l.relieve()
		}
		l.turn()
		if n == len(h.events) && n < 4096 {
			h.events = make([]unix.EpollEvent, 2*n)
		}
	}
}

// wait returns how many events there are; it sleeps only if nothing else is to be done.
//
// The sleep is first a raw epoll_wait, which keeps the scheduler's processor (P). Through syscall.Syscall the runtime's monitor would take
// the P away each time and poll every 20 µs for the chance: measured at 8 % of the CPU of unpipelined requests. What
// makes it sound:
//
//   - Whoever needs the P, the collector or the monitor after 10 ms, sends the thread a signal, again and again until it is heard. The wait ends with
//     EINTR, and the second wait gives the P away. A loop with nothing to do therefore holds its P for 10 ms at most.
//   - start sees to it that there is one P more than loops, so other goroutines do not wait for those 10 ms.
//   - With GODEBUG=asyncpreemptoff=1 there are no signals, and the raw wait is not used.
func (h *epollHost) wait() int {
	l := h.loop
	if l.pendingTurn() {
		n, _ := epollWait(h.poll, h.events, 0)
		return max(n, 0)
	}
	l.armed.Store(false) // E3
	n := 0
	if !l.waiting.Load() {
		if h.raw {
			n, _ = epollWait(h.poll, h.events, -1)
		}
		if n <= 0 {
			n, _ = unix.EpollWait(h.poll, h.events, -1)
		}
	}
	l.armed.Store(true)
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
	n, full, errno := c.read(h.buffer[:firstRead])
	switch {
	case errno == unix.EAGAIN:
		c.readable = false
		return
	case errno == unix.EINTR:
	case errno != 0 || n == 0:
		c.hangup()
		return
	}
	full = full && c.readOn(h.buffer)
	if c.closed {
		return
	}
	if c.held && c.hungUp {
		c.hangup() // no other event will tell
		return
	}
	if !full && errno == 0 && !c.hungUp {
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

func (h *epollHost) wake() { ringBell(h.bell) }

// watchWrite has nothing to do: the edge comes by itself.
func (h *epollHost) watchWrite(*conn) {}

func (h *epollHost) drop(c *conn) {
	h.conns[c.fd] = nil
	unix.Close(c.fd)
}
