package reactor

import (
	"crypto/tls"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// TLS handshakes run outside the loops, each on its own goroutine, because crypto/tls waits in them.
//
// reactor.H1. A connection in its handshake counts in Reactor.open, so maxclients bounds the number of handshakes.
// reactor.H2. At most Handshakers of them compute at a time. A handshake that waits for its peer holds no slot.
// reactor.H3. A handshake ends within the limit, whatever its peer does. Then its descriptor belongs to the loop, or is
// closed.
// reactor.H4. No handshake begins after close, and close returns when the last one has ended.
type handshakes struct {
	reactor *Reactor
	limit   time.Duration
	slots   chan struct{}
	quit    chan struct{} // closed by close
	config  atomic.Pointer[tls.Config]

	mu      sync.Mutex
	running map[*handshake]struct{}
	closed  bool
	over    sync.WaitGroup

	begun  atomic.Int64
	failed atomic.Int64
}

// handshakeLimit is how long a handshake may take after the accept.
const handshakeLimit = 10 * time.Second

// Handshakers returns how many handshakes may compute at a time. They need as many threads in addition to the loops'.
func Handshakers() int { return max(1, min(4, runtime.NumCPU()/2)) }

func newHandshakes(r *Reactor) *handshakes {
	h := &handshakes{
		reactor: r, limit: r.options.HandshakeLimit, slots: make(chan struct{}, Handshakers()),
		quit: make(chan struct{}), running: map[*handshake]struct{}{},
	}
	if h.limit <= 0 {
		h.limit = handshakeLimit
	}
	h.config.Store(r.options.TLS)
	return h
}

// A handshake is the TLS handshake of one connection.
type handshake struct {
	of      *handshakes
	conn    *conn
	file    *os.File // the socket, in the form for which Go's own poller waits
	until   time.Time
	holding bool // it holds a slot
}

// begin starts c's handshake. It returns at once.
func (h *handshakes) begin(c *conn) {
	s := &handshake{of: h, conn: c, until: time.Now().Add(h.limit)}
	h.mu.Lock()
	defer h.mu.Unlock()
	config := h.config.Load()
	if h.closed || config == nil {
		unix.Close(c.fd)
		h.reactor.forget()
		return
	}
	h.start(s)
	c.tls.conn = tls.Server(c.tls, config)
	go s.run()
}

// greet starts the handshake of a connection that Dial has opened. It returns at once.
func (h *handshakes) greet(c *conn, config *tls.Config, until time.Time) {
	s := &handshake{of: h, conn: c, until: until}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		unix.Close(c.fd)
		c.lost(errStopping)
		return
	}
	h.start(s)
	c.tls.conn = tls.Client(c.tls, config)
	go s.run()
}

// start counts a handshake and gives its connection a TLS link. The caller holds mu.
func (h *handshakes) start(s *handshake) {
	c := s.conn
	s.file = os.NewFile(uintptr(c.fd), "")
	_ = s.file.SetDeadline(s.until)
	h.running[s] = struct{}{}
	h.over.Add(1)
	if h.begun.Add(1); len(h.running) == 1 && h.reactor.options.Handshaking != nil {
		go h.reactor.options.Handshaking()
	}
	c.tls = &tlsLink{of: &c.link, shaking: s}
}

// run does the handshake and gives the connection to its loop.
func (s *handshake) run() {
	h, c := s.of, s.conn
	defer h.over.Done()
	err := c.tls.conn.Handshake()
	s.release()
	h.mu.Lock()
	delete(h.running, s)
	h.mu.Unlock()
	if err == nil {
		err = s.handOver()
	}
	if err == nil {
		return
	}
	s.file.Close()
	h.failed.Add(1)
	if c.sink != nil {
		c.lost(err)
		return
	}
	h.reactor.options.Logf(Verbose, "Error accepting a client connection: %s (addr=%s laddr=%s)", reasonOf(err),
		c.remote, c.local)
	h.reactor.forget()
}

// reasonOf returns why a handshake has failed, without the part of the error that names the package.
func reasonOf(err error) string {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "the TLS handshake took too long"
	}
	return strings.TrimPrefix(err.Error(), "tls: ")
}

// handOver removes the socket from Go's poller and gives the connection to its loop. The socket gets another number by
// that, because Go only releases a descriptor by closing it.
func (s *handshake) handOver() error {
	c := s.conn
	fd, err := unix.FcntlInt(uintptr(c.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	s.file.Close()
	// The server sends nothing after the handshake, so its acknowledgement would be delayed by some 40 ms. A client
	// with Nagle's algorithm would wait for it before its first request.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
	c.fd = fd
	c.tls.shaking = nil
	if c.sink != nil {
		c.loop.post(mail{kind: mailOpen, c: c})
		return nil
	}
	s.of.reactor.back.adopt(c)
	return nil
}

// read waits for the peer. The handshake holds no slot meanwhile.
func (s *handshake) read(p []byte) (int, error) {
	s.release()
	n, err := s.file.Read(p)
	if err == nil {
		err = s.acquire()
	}
	return n, err
}

func (s *handshake) write(p []byte) (int, error) {
	s.release()
	n, err := s.file.Write(p)
	if err == nil {
		err = s.acquire()
	}
	return n, err
}

// acquire waits for a slot, but not past the limit.
func (s *handshake) acquire() error {
	select {
	case <-s.of.quit:
		return errStopping
	default:
	}
	select {
	case s.of.slots <- struct{}{}:
	default:
		timer := time.NewTimer(time.Until(s.until))
		defer timer.Stop()
		select {
		case s.of.slots <- struct{}{}:
		case <-s.of.quit:
			return errStopping
		case <-timer.C:
			return os.ErrDeadlineExceeded
		}
	}
	s.holding = true
	return nil
}

func (s *handshake) release() {
	if s.holding {
		s.holding = false
		<-s.of.slots
	}
}

var errStopping = errors.New("the server stops")

// close ends all handshakes and waits for that. It is called once.
func (h *handshakes) close() {
	h.mu.Lock()
	h.closed = true
	close(h.quit)
	for s := range h.running {
		_ = s.file.SetDeadline(time.Unix(1, 0))
	}
	h.mu.Unlock()
	h.over.Wait()
}

// count returns how many handshakes are running.
func (h *handshakes) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.running)
}
