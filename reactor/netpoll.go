package reactor

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cloudwego/netpoll"
	"golang.org/x/sys/unix"
)

// The netpoll backend: netpoll's pollers read, and a goroutine serves each connection that has something to say.
//
// Each connection is a loop of its own: whoever has work for it (a goroutine with bytes, one started for its mail)
// holds the loop's lock while it works. Replies are written to the descriptor at the end of each such visit; nothing
// is gathered across connections. It exists for comparison: a goroutine per readiness is what most Go servers do.
//
// netpoll's connections are not used. They read whatever arrives, however far behind the server is, into buffers of
// up to 8 MB that nobody counts. So sockets are registered with the pollers themselves, and the poller's goroutine
// reads one buffer, which belongs to the goroutine it starts.
//
// reactor.N1. While that goroutine is on its way, or the connection is held and has enough input, nothing more is read:
// the socket is taken out of the poller when it has another event, and put back when the connection takes input again.
// reactor.N2. A descriptor is closed after its operator has been freed: the poller does not touch it any more.
type netpollBackend struct {
	reactor *Reactor
	mu      sync.Mutex
	loops   map[*loop]struct{}
	kits    sync.Pool // of *kit
	buffers sync.Pool // of *[firstRead]byte
	polls   []netpoll.Poll
	next    atomic.Uint32 // poll of the next connection

	bell      int // eventfd: look whether the acceptor has closed
	accepting sync.WaitGroup

	longReplies chunkStore // of all loops: the garbage collector may drop a kit, and unmaps nothing
}

type netpollHost struct {
	back *netpollBackend
	loop *loop
	conn *conn
	mu   sync.Mutex // held by whoever works for the connection

	poll     netpoll.Poll
	operator *netpoll.FDOperator
	inputMu  sync.Mutex // before the two below; the poller holds it only for an instant
	input    inputState
	out      bool // the operator is out of the poller (reactor.N1)
}

// An inputState says who may read a connection's socket.
type inputState uint8

const (
	inputTaken  inputState = iota // the poller reads what arrives
	inputHanded                   // a goroutine with bytes is on its way
	inputServed                   // the bytes have been served; the end of the visit decides
)

func (b *netpollBackend) start(r *Reactor) (err error) {
	b.reactor, b.bell = r, -1
	b.loops = map[*loop]struct{}{}
	netpollLogf.Store(&r.options.Logf)
	logsNetpoll.Do(func() { netpoll.Configure(netpoll.Config{LoggerOutput: netpollLog{}}) })
	netpoll.Configure(netpoll.Config{PollerNum: r.threads()})
	b.kits.New = func() any { return newKit(netpollKits) }
	b.buffers.New = func() any { return new([firstRead]byte) }
	b.polls, err = netpollPolls(r.threads())
	return err
}

// netpollKits share what one loop's pools may keep: there are about as many kits as goroutines that work at a time.
const netpollKits = 32

var errNetpoll = errors.New("this version of netpoll hides its pollers")

// netpollPolls are netpoll's pollers. It gives them to its own connections in turn and shows them to nobody, so one
// connection of each is asked.
//
// Errors: errNetpoll, if a netpoll.Connection is not made as this expects.
func netpollPolls(n int) (polls []netpoll.Poll, err error) {
	for range n {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("socketpair: %w", err)
		}
		defer unix.Close(pair[1])
		nc, err := netpoll.NewFDConnection(pair[0])
		if err != nil {
			unix.Close(pair[0])
			return nil, err
		}
		defer nc.Close()
		poll := pollOf(nc)
		if poll == nil {
			return nil, errNetpoll
		}
		polls = append(polls, poll)
	}
	return polls, nil
}

// pollOf reads the poller in nc's operator, two fields that netpoll does not export; nil if there is none.
func pollOf(nc netpoll.Connection) netpoll.Poll {
	v := reflect.Indirect(reflect.ValueOf(nc))
	if v.Kind() != reflect.Struct {
		return nil
	}
	operator := v.FieldByName("operator")
	if !operator.IsValid() || operator.Type() != reflect.TypeFor[*netpoll.FDOperator]() || operator.IsNil() {
		return nil
	}
	poll := operator.Elem().FieldByName("poll")
	if !poll.IsValid() || poll.Type() != reflect.TypeFor[netpoll.Poll]() {
		return nil
	}
	return *(*netpoll.Poll)(unsafe.Pointer(poll.UnsafeAddr()))
}

// each calls f with the loop of every connection.
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

// accept accepts on a goroutine: netpoll's pollers only watch what has an operator.
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
	h := &netpollHost{back: b, loop: l, conn: c, poll: b.polls[int(b.next.Add(1))%len(b.polls)]}
	l.host, c.loop = h, l
	b.mu.Lock()
	b.loops[l] = struct{}{}
	b.mu.Unlock()
	h.operator = h.poll.Alloc()
	h.operator.FD, h.operator.OnRead, h.operator.OnHup = c.fd, h.readable, h.ending
	h.visit(c.open)
	h.visit(func() {
		if c.life == lifeClosed { // refused
			return
		}
		if err := h.poll.Control(h.operator, netpoll.PollReadable); err != nil {
			c.close()
			return
		}
		if c.tls != nil { // which may hold requests already (reactor.S3)
			c.announced()
			l.later(c)
		}
	})
}

// readable is the poller's word that bytes have arrived, or the end. On its goroutine, which must not wait for a turn.
func (h *netpollHost) readable(p netpoll.Poll) error {
	h.inputMu.Lock()
	defer h.inputMu.Unlock()
	if h.input != inputTaken {
		h.out = true
		return p.Control(h.operator, netpoll.PollDetach)
	}
	if h.conn.tls != nil { // whose records the poller must not wait for
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

// ending comes after readable, when the peer has ended. The poller has then taken the operator out; what was sent
// before the end is still to be read. It runs on a goroutine of its own.
func (h *netpollHost) ending(p netpoll.Poll) error {
	h.visit(func() {
		switch c := h.conn; {
		case c.life == lifeClosed:
			return
		case c.flow == flowHeld:
			c.hangup()
			return
		}
		p.Control(h.operator, netpoll.PollDetach) // the poller does so the first time only
		h.inputMu.Lock()
		defer h.inputMu.Unlock()
		h.out = true
		if h.input == inputTaken {
			h.input = inputServed
		}
	})
	return nil
}

// traffic serves what the poller has read; n is not above 0 when the peer is gone.
func (h *netpollHost) traffic(buffer *[firstRead]byte, n int) {
	c := h.conn
	switch {
	case c.life == lifeClosed:
	case n <= 0:
		c.hangup()
	default:
		c.traffic(buffer[:n])
		if n == len(buffer) {
			c.readOn(buffer[:])
		}
	}
	h.inputServed()
}

// trafficTLS reads and serves what has arrived under TLS.
func (h *netpollHost) trafficTLS() {
	if c := h.conn; c.life != lifeClosed {
		c.announced()
		h.readMore(c)
	}
	h.inputServed()
}

// readMore implements reader, for connections under TLS: others are never readable here.
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

// takeInput has the poller read again, once the connection takes input (reactor.N1). At the end of a visit.
func (h *netpollHost) takeInput() {
	c := h.conn
	if c.life == lifeClosed || c.isGone() || c.isHeld() && len(c.pending)-c.served >= heldBytes {
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
	if err := h.poll.Control(h.operator, netpoll.PollReadable); err != nil {
		c.close()
	}
}

// visit works for the connection.
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
		h.mu.Unlock()
		if !l.waiting.Load() { // a post that came too late for turn has armed a visit of its own
			return
		}
		work = func() {}
	}
}

func (h *netpollHost) wake() {
	go h.visit(func() { h.loop.armed.Store(false) })
}

func (h *netpollHost) watchWrite(c *conn) {
	if err := h.back.reactor.watcher.add(c); err != nil {
		c.close()
	}
}

func (h *netpollHost) drop(c *conn) {
	b := h.back
	b.reactor.watcher.remove(c)
	b.mu.Lock()
	delete(b.loops, h.loop)
	b.mu.Unlock()
	h.poll.Control(h.operator, netpoll.PollDetach)
	h.poll.Free(h.operator) // waits for the poller to leave it (reactor.N2)
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

// netpollLog keeps netpoll's words about peers that went away out of the operator's sight.
type netpollLog struct{}

// netpoll has one logger and reads it without a lock, so it is set once, and leads to the reactor that started last.
var (
	logsNetpoll sync.Once
	netpollLogf atomic.Pointer[func(Level, string, ...any)]
)

func (netpollLog) Write(line []byte) (int, error) {
	(*netpollLogf.Load())(Debug, "%s", bytes.TrimSpace(line))
	return len(line), nil
}
