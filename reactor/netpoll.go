package reactor

import (
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"spindle/reactor/netpoll"
)

// The netpoll backend uses netpoll's pollers to watch sockets, and a goroutine for each connection that has bytes.
//
// Each connection has its own loop. A goroutine with work for it (bytes, or its mail) visits the loop: it holds the
// loop's lock, and then writes the replies. No replies are gathered across connections. The backend exists for
// comparison, because most Go servers use a goroutine for each readiness.
//
// The poller's goroutine reads one buffer, which belongs to the goroutine that it starts.
//
// reactor.N1. Nothing more is read while that goroutine is on its way, or while a held connection has enough input. At
// its next event the socket leaves the poller. It comes back when the connection takes input again.
type netpollBackend struct {
	reactor *Reactor
	mu      sync.Mutex
	loops   map[*loop]struct{}
	kits    sync.Pool // of *kit
	buffers sync.Pool // of *[firstRead]byte
	pollers []netpoll.Poller
	next    atomic.Uint32 // poller of the next connection

	bell      int // eventfd: wakes the goroutine to check whether the acceptor has closed
	accepting sync.WaitGroup

	longReplies chunkStore // of all loops: the garbage collector may drop a kit, and unmaps nothing
}

type netpollHost struct {
	back *netpollBackend
	loop *loop
	conn *conn
	mu   sync.Mutex // held during a visit

	socket  netpoll.Socket
	inputMu sync.Mutex // guards the two below; the poller holds it only for an instant
	input   inputState
	out     bool // the socket is out of the poller (reactor.N1)
}

// An inputState says which goroutine may read a connection's socket.
type inputState uint8

const (
	inputTaken  inputState = iota // the poller reads the bytes that arrive
	inputHanded                   // a goroutine with bytes is on its way
	inputServed                   // the bytes have been served; the end of the visit decides
)

// netpollKits is how many kits share one loop's allowance for pools. There are about as many kits as goroutines that
// work at a time.
const netpollKits = 32

func (b *netpollBackend) start(r *Reactor) (err error) {
	b.reactor, b.bell = r, -1
	b.loops = map[*loop]struct{}{}
	b.kits.New = func() any { return newKit(netpollKits) }
	b.buffers.New = func() any { return new([firstRead]byte) }
	b.pollers, err = netpoll.Pollers(r.threads(), func(format string, args ...any) {
		r.options.Logf(Debug, format, args...)
	})
	return err
}

func (b *netpollBackend) each(f func(*loop)) {
	b.mu.Lock()
	loops := make([]*loop, 0, len(b.loops))
	for l := range b.loops {
		loops = append(loops, l)
	}
	b.mu.Unlock()
	for _, l := range loops {
		f(l)
	}
}

// accept accepts on a goroutine, because the pollers only watch connections.
func (b *netpollBackend) accept(a *acceptor) (err error) {
	if b.bell, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	wait := []unix.PollFd{{Fd: int32(a.poll), Events: unix.POLLIN}, {Fd: int32(b.bell), Events: unix.POLLIN}}
	b.accepting.Go(func() {
		for open := true; open; open = a.accept() {
			unix.Poll(wait, -1)
		}
	})
	return nil
}

func (b *netpollBackend) adopt(c *conn) {
	l := newLoop(b.reactor, c.fd)
	l.longReplies = &b.longReplies
	l.single = true
	h := &netpollHost{back: b, loop: l, conn: c}
	l.host = h
	c.setLoop(l)
	b.mu.Lock()
	b.loops[l] = struct{}{}
	b.mu.Unlock()
	h.socket = b.pollers[int(b.next.Add(1))%len(b.pollers)].Enter(c.fd, h.readable, h.ending)
	h.visit(c.open)
	h.visit(func() {
		if c.life == lifeClosed { // refused
			return
		}
		if err := h.socket.Watch(); err != nil {
			c.close()
			return
		}
		if c.tls != nil { // TLS may hold requests already (reactor.S3)
			c.announced()
			l.later(c)
		}
	})
}

// readable is called by the poller when there are bytes, or the end.
func (h *netpollHost) readable() error {
	h.inputMu.Lock()
	defer h.inputMu.Unlock()
	if h.input != inputTaken {
		h.out = true
		return h.socket.Detach()
	}
	if h.conn.tls != nil { // the poller must not wait for its records
		h.input = inputHanded
		go h.visit(h.trafficTLS)
		return nil
	}
	buffer := h.back.buffers.Get().(*[firstRead]byte)
	n, _, errno := h.conn.link.read(buffer[:])
	if errno == unix.EAGAIN || errno == unix.EINTR {
		h.back.buffers.Put(buffer)
		return nil
	}
	h.input = inputHanded
	go h.visit(func() {
		h.traffic(buffer, n)
		h.back.buffers.Put(buffer)
	})
	return nil
}

// ending is called by the poller when the peer has ended. The poller has removed the socket. Bytes sent before the end
// must still be read.
func (h *netpollHost) ending() {
	h.visit(func() {
		switch c := h.conn; {
		case c.life == lifeClosed:
			return
		case c.flow == flowHeld:
			c.hangup()
			return
		}
		_ = h.socket.Detach() // the poller does so the first time only
		h.inputMu.Lock()
		defer h.inputMu.Unlock()
		h.out = true
		if h.input == inputTaken {
			h.input = inputServed
		}
	})
}

// traffic serves the n bytes that the poller has read. If n is not above 0, the peer is gone.
func (h *netpollHost) traffic(buffer *[firstRead]byte, n int) {
	c := h.conn
	switch {
	case c.life == lifeClosed:
	case n < 0:
		c.breaks()
	case n == 0 && c.isClosing(): // the peer may still take the output; the watcher reports a break
		c.hungUp = true
	case n == 0:
		c.hangup()
	default:
		c.traffic(buffer[:n])
		if n == len(buffer) {
			c.readOn(buffer[:])
		}
	}
	h.inputServed()
}

// trafficTLS reads and serves the bytes that have arrived under TLS.
func (h *netpollHost) trafficTLS() {
	if c := h.conn; c.life != lifeClosed {
		c.announced()
		h.readMore(c)
	}
	h.inputServed()
}

// readMore implements reader, for connections under TLS. Other connections are never readable here.
func (h *netpollHost) readMore(c *conn) {
	buffer := h.back.buffers.Get().(*[firstRead]byte)
	c.readMore(buffer[:], buffer[:])
	h.back.buffers.Put(buffer)
}

func (h *netpollHost) inputServed() {
	h.inputMu.Lock()
	h.input = inputServed
	h.inputMu.Unlock()
}

// takeInput makes the poller read again, once the connection takes input (reactor.N1). It is called at the end of a
// visit.
func (h *netpollHost) takeInput() {
	c := h.conn
	if c.life == lifeClosed || c.isGone() || c.hungUp || c.isHeld() && len(c.pending)-c.served >= heldBytes {
		return
	}
	h.inputMu.Lock()
	again := h.input == inputServed && h.out
	if h.input == inputServed {
		h.input, h.out = inputTaken, false
	}
	h.inputMu.Unlock()
	if !again {
		return
	}
	if err := h.socket.Watch(); err != nil {
		c.close()
	}
}

// visit runs work and then a turn, on the caller's goroutine, which is the loop's goroutine meanwhile.
func (h *netpollHost) visit(work func()) {
	l := h.loop
	for {
		h.mu.Lock()
		l.kit = h.back.kits.Get().(*kit)
		l.tally.pooled = int64(l.replies.bytes + l.chunks.bytes)
		work()
		for l.pendingTurn() {
			l.turn()
		}
		h.takeInput()
		l.endIteration()
		h.back.kits.Put(l.kit)
		l.kit = nil
		l.runner.leave()
		h.mu.Unlock()
		if !l.waiting.Load() { // a post that came too late for turn has armed its own visit
			return
		}
		work = func() {}
	}
}

func (h *netpollHost) wake() {
	go h.visit(func() { h.loop.armed.Store(false) })
}

func (h *netpollHost) watchWrite(c *conn) {
	if err := h.back.reactor.watcher.add(c, unix.EPOLLOUT); err != nil {
		c.close()
	}
}

// watchBreak implements breakWatcher.
func (h *netpollHost) watchBreak(c *conn) error { return h.back.reactor.watcher.add(c, 0) }

func (h *netpollHost) drop(c *conn) {
	b := h.back
	b.reactor.watcher.remove(c)
	b.mu.Lock()
	delete(b.loops, h.loop)
	b.mu.Unlock()
	h.socket.Free()
	unix.Close(c.fd)
	go h.loop.end()
}

func (b *netpollBackend) stop() {
	if b.bell >= 0 {
		ringBell(b.bell)
		b.accepting.Wait()
		unix.Close(b.bell)
	}
}
