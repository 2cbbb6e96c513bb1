package load

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"spindle/bench/process"
)

// A loop is one run: all connections, on one thread.
//
// System calls are raw. The Go scheduler does not notice them, which does no harm because there is nothing else to run.
type loop struct {
	spec  *Spec
	epoll int
	conns []*conn
	keys  *chooser
	in    []byte // the bytes read last; connections only keep the beginning of a line

	events []unix.EpollEvent

	begin     time.Time // all times count from it
	countFrom time.Duration
	endAt     time.Duration
	counting  bool
	left      int64 // requests not yet sent, with Spec.Requests
	over      bool

	server0, load0 time.Duration
	busyUntil      time.Duration // the server's CPU clock at the end of its last slice
	replies        int64         // all replies, measured or not
	result         Result

	toHear int64   // pushes that listeners have not received yet
	held   []*conn // answered connections that wait for the listeners
}

// A conn is one connection.
//
// Closed loop: one batch was sent at sentAt, and awaited of its replies are missing. Open loop: due has the due time of
// each request without a reply, oldest first.
type conn struct {
	fd       int
	id       int32 // index in loop.conns, which epoll returns
	scan     scanner
	batches  []*batch
	turn     int
	out      []byte // not yet written
	sentAt   time.Duration
	awaited  int64
	due      ring
	inDirty  bool
	outArmed bool // waiting for EPOLLOUT
	listens  bool
}

const (
	readBytes = 256 << 10
	// overrunAt is the number of requests without a reply at which a run with an open loop is aborted.
	overrunAt = 4 << 20
)

// Run executes a Spec on the calling thread.
func Run(spec Spec) (*Result, error) {
	if err := spec.complete(); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if spec.RealTime {
		goFirst()
	}
	l := newLoop(&spec)
	defer l.close()
	if err := l.open(); err != nil {
		return nil, err
	}
	l.begin = time.Now()
	var err error
	if spec.Rate > 0 {
		err = l.runOpen()
	} else {
		err = l.runClosed()
	}
	if err != nil {
		return nil, err
	}
	l.sumReplies()
	return &l.result, nil
}

func newLoop(spec *Spec) *loop {
	return &loop{spec: spec, in: make([]byte, readBytes), events: make([]unix.EpollEvent, 512),
		keys: newChooser(spec.Keys, spec.Seed+1), left: spec.Requests}
}

// sumReplies adds the connections' counts to the result.
func (l *loop) sumReplies() {
	for _, c := range l.conns {
		l.result.Nulls += c.scan.nulls
		if c.scan.errors > 0 && l.result.Errors == 0 {
			l.result.FirstErr = c.scan.firstErr
		}
		l.result.Errors += c.scan.errors
		c.scan.nulls, c.scan.errors = 0, 0
	}
}

func (l *loop) open() (err error) {
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	address, err := resolve(l.spec.Address)
	if err != nil {
		return err
	}
	models, err := variants(l.spec)
	if err != nil {
		return err
	}
	began := time.Now()
	for range l.spec.Idle {
		if err := l.connect(address, nil, nil); err != nil {
			return err
		}
	}
	if l.spec.Idle > 0 {
		l.result.IdleOpen = time.Since(began)
	}
	for i := range l.spec.Connections {
		if err := l.connect(address, models, l.spec.Prelude); err != nil {
			return err
		}
		l.conns[i].turn = i % len(models) // so that not all send the same at once
	}
	for range l.spec.Listeners {
		if err := l.connect(address, models[:0:0], [][]string{l.spec.ListenTo}); err != nil {
			return err
		}
		l.conns[len(l.conns)-1].listens = true
	}
	return nil
}

func resolve(address string) (*unix.SockaddrInet4, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ip := net.ParseIP(host).To4()
	n, err := strconv.Atoi(port)
	if ip == nil || err != nil {
		return nil, fmt.Errorf("%s is no IPv4 address and port", address)
	}
	return &unix.SockaddrInet4{Port: n, Addr: [4]byte(ip)}, nil
}

// connect opens one connection and sends its prelude. If models is empty, the connection stays idle.
func (l *loop) connect(address *unix.SockaddrInet4, models []*batch, prelude [][]string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if err := unix.Connect(fd, address); err != nil {
		unix.Close(fd)
		return fmt.Errorf("connecting to %s: %w", l.spec.Address, err)
	}
	if models == nil {
		return nil // the connection lives until the process ends
	}
	c := &conn{fd: fd, id: int32(len(l.conns))}
	for _, m := range models {
		c.batches = append(c.batches, m.clone())
	}
	l.conns = append(l.conns, c)
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	for _, words := range prelude {
		if err := l.ask(c, words); err != nil {
			return err
		}
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	return l.arm(unix.EPOLL_CTL_ADD, c, unix.EPOLLIN)
}

// ask sends one request over a blocking connection, and waits for its reply.
func (l *loop) ask(c *conn, words []string) error {
	request := &batch{}
	if err := request.add(Request(words...)); err != nil {
		return err
	}
	c.out = append(c.out[:0], request.bytes...)
	if err := l.write(c); err != nil {
		return err
	}
	readable := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}
	for replies := int64(0); replies == 0; {
		// The scheduler notices this call. A raw read that blocks would delay a garbage collection. The server may be
		// in this process, so its reply would be delayed too.
		if _, err := unix.Poll(readable, -1); err != nil && err != unix.EINTR {
			return err
		}
		n, err := l.read(c)
		if err != nil {
			return err
		}
		replies += n
	}
	if c.scan.errors > 0 {
		return fmt.Errorf("%s: %s", words[0], c.scan.firstErr)
	}
	c.scan.nulls = 0
	return nil
}

func (l *loop) arm(op int, c *conn, events uint32) error {
	event := unix.EpollEvent{Events: events, Fd: c.id}
	return unix.EpollCtl(l.epoll, op, c.fd, &event)
}

func (l *loop) close() {
	for _, c := range l.conns {
		unix.Close(c.fd)
	}
	if l.epoll > 0 {
		unix.Close(l.epoll)
	}
}

func (l *loop) now() time.Duration { return time.Since(l.begin) }

// runClosed keeps one batch of every connection in flight.
func (l *loop) runClosed() error {
	l.countFrom = l.spec.Warmup
	if l.countFrom == 0 {
		if err := l.count(0); err != nil {
			return err
		}
	}
	for _, c := range l.conns {
		if c.listens {
			continue
		}
		if err := l.sendBatch(c, l.now()); err != nil {
			return err
		}
	}
	for !l.over {
		n, err := epollWait(l.epoll, l.events, 100*time.Millisecond)
		if err != nil {
			return err
		}
		now := l.now()
		if err := l.tick(now); err != nil {
			return err
		}
		for i := 0; i < n && !l.over; i++ {
			c, replies, err := l.serve(&l.events[i])
			if err != nil {
				return err
			}
			if c.listens {
				if l.toHear -= replies; l.toHear < 0 {
					return errUnasked
				}
				if err := l.releaseHeld(); err != nil {
					return err
				}
				continue
			}
			if replies == 0 {
				continue
			}
			if replies > c.awaited {
				return errUnasked
			}
			now = l.now()
			l.record(now-c.sentAt, replies, now)
			if c.awaited -= replies; c.awaited > 0 {
				continue
			}
			if l.held = append(l.held, c); l.toHear > 0 {
				continue
			}
			if err := l.releaseHeld(); err != nil {
				return err
			}
		}
	}
	l.held = l.held[:0]
	return nil
}

// releaseHeld sends the next batches on connections that have all replies, once all listeners have their pushes.
func (l *loop) releaseHeld() error {
	if l.toHear > 0 {
		return nil
	}
	for i := 0; i < len(l.held) && !l.over; i++ {
		if err := l.sendBatch(l.held[i], l.now()); err != nil {
			return err
		}
	}
	l.held = l.held[:0]
	return nil
}

var errUnasked = errors.New("a reply without a request")

// serve writes and reads for an event and returns the number of replies.
func (l *loop) serve(event *unix.EpollEvent) (c *conn, replies int64, err error) {
	c = l.conns[event.Fd]
	if event.Events&unix.EPOLLOUT != 0 {
		if err := l.write(c); err != nil {
			return c, 0, err
		}
	}
	if event.Events&^unix.EPOLLOUT != 0 {
		replies, err = l.read(c)
	}
	if !c.listens {
		l.replies += replies
	}
	return c, replies, err
}

// sendBatch sends c's next batch, or the part of it that is left to send in the run.
func (l *loop) sendBatch(c *conn, now time.Duration) error {
	b := c.batches[c.turn]
	if c.turn++; c.turn == len(c.batches) {
		c.turn = 0
	}
	n := int64(len(b.ends))
	if l.spec.Requests > 0 {
		if n = min(n, l.left); n == 0 {
			if l.allAnswered() {
				return l.finish(now)
			}
			return nil
		}
		l.left -= n
	}
	b.fill(l.keys, &l.spec.Deadlines)
	c.out = append(c.out[:0], b.bytes[:b.ends[n-1]]...)
	c.sentAt, c.awaited = now, n
	l.toHear += n * int64(l.spec.Listeners)
	return l.write(c)
}

func (l *loop) allAnswered() bool {
	if l.toHear > 0 {
		return false
	}
	for _, c := range l.conns {
		if c.awaited > 0 {
			return false
		}
	}
	return true
}

// runOpen sends at fixed times. It sleeps only when no request is due for a while, because a wake-up costs as much as a
// request.
func (l *loop) runOpen() error {
	l.countFrom = l.spec.Warmup
	if l.countFrom == 0 {
		if err := l.count(0); err != nil {
			return err
		}
	}
	gap := time.Duration(float64(time.Second) * float64(l.spec.Pipeline) / l.spec.Rate)
	gap = max(gap, 1)
	if gap > spinBelow {
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("timer slack: %w", err)
		}
	}
	dirty := make([]*conn, 0, len(l.conns))
	unanswered, next, turn := int64(0), time.Duration(0), 0
	for !l.over {
		now := l.now()
		if err := l.tick(now); err != nil {
			return err
		}
		for next <= now && !l.over {
			c := l.conns[turn]
			if turn++; turn == len(l.conns) {
				turn = 0
			}
			sent := l.queue(c, next)
			if sent == 0 { // all requests (Spec.Requests) were sent
				if unanswered == 0 {
					return l.finish(now)
				}
				break
			}
			unanswered += sent
			if !c.inDirty {
				c.inDirty = true
				dirty = append(dirty, c)
			}
			next += gap
		}
		for _, c := range dirty {
			c.inDirty = false
			if !c.outArmed {
				if err := l.write(c); err != nil {
					return err
				}
			}
			for i := c.due.len() - int(c.awaited); i < c.due.len(); i++ {
				if at := c.due.at(i); l.counting && at >= l.countFrom {
					l.result.SendDelay.Record(l.now()-at, 1)
				}
			}
			c.awaited = 0 // in an open loop: queued since the last write
		}
		dirty = dirty[:0]
		if unanswered > overrunAt {
			l.result.Overrun = true
			return l.finish(now)
		}
		wait := next - l.now()
		if wait < spinBelow {
			wait = 0
		} else {
			wait -= spinBelow / 2
		}
		n, err := epollWait(l.epoll, l.events, wait)
		if err != nil {
			return err
		}
		for i := 0; i < n && !l.over; i++ {
			c, replies, err := l.serve(&l.events[i])
			if err != nil {
				return err
			}
			if replies > int64(c.due.len()) {
				return errUnasked
			}
			now := l.now()
			for range replies {
				if at := c.due.pop(); at >= l.countFrom {
					l.record(now-at, 1, now)
				}
			}
			unanswered -= replies
		}
	}
	return nil
}

// spinBelow is the length below which a wait is too short for a sleep.
const spinBelow = 50 * time.Microsecond

// queue appends c's next batch to c's unwritten bytes and returns the batch's number of requests.
func (l *loop) queue(c *conn, due time.Duration) int64 {
	b := c.batches[c.turn]
	if c.turn++; c.turn == len(c.batches) {
		c.turn = 0
	}
	n := int64(len(b.ends))
	if l.spec.Requests > 0 {
		if n = min(n, l.left); n == 0 {
			return 0
		}
		l.left -= n
	}
	b.fill(l.keys, &l.spec.Deadlines)
	c.out = append(c.out, b.bytes[:b.ends[n-1]]...)
	c.awaited += n
	for range n {
		c.due.push(due)
	}
	return n
}

// record counts replies if the warm-up is over.
func (l *loop) record(latency time.Duration, replies int64, now time.Duration) {
	if !l.counting || l.over {
		return
	}
	l.result.Latency.Record(latency, replies)
	l.result.Requests += replies
	if l.spec.Interval > 0 {
		slot := int((now - l.countFrom) / l.spec.Interval)
		for len(l.result.Timeline) <= slot {
			l.result.Timeline = append(l.result.Timeline, Point{At: time.Duration(len(l.result.Timeline)) * l.spec.Interval})
		}
		p := &l.result.Timeline[slot]
		p.Requests += replies
		p.Max = max(p.Max, latency)
	}
}

// stopped ends the run of this process early. Only the generator's process sets it.
var stopped atomic.Bool

// tick begins and ends the measured time.
func (l *loop) tick(now time.Duration) error {
	if !l.counting && now >= l.countFrom {
		return l.count(now)
	}
	if (l.endAt > 0 && now >= l.endAt || stopped.Load()) && !l.over {
		return l.finish(now)
	}
	return nil
}

func (l *loop) count(now time.Duration) (err error) {
	l.counting = true
	if l.server0, l.load0, err = l.clocks(); err != nil {
		return err
	}
	l.countFrom = now
	l.result.Began = l.begin.Add(now).UnixNano()
	if l.spec.Duration > 0 {
		l.endAt = now + l.spec.Duration
	}
	return nil
}

func (l *loop) finish(now time.Duration) error {
	server, load, err := l.clocks()
	if err != nil {
		return err
	}
	l.over = true
	l.result.Elapsed, l.result.ServerCPU, l.result.LoadCPU = now-l.countFrom, server-l.server0, load-l.load0
	return nil
}

func (l *loop) clocks() (server, load time.Duration, err error) {
	if l.spec.Server != 0 {
		if server, err = process.CPUTime(l.spec.Server); err != nil {
			return 0, 0, err
		}
	}
	var ts unix.Timespec
	err = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts)
	return server, time.Duration(ts.Nano()), err
}

// read reads the available bytes and returns the number of replies that they complete.
func (l *loop) read(c *conn) (int64, error) {
	n, errno := rawRead(c.fd, l.in)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return 0, nil
	case errno != 0:
		return 0, fmt.Errorf("reading from the server: %w", errno)
	case n == 0:
		return 0, errors.New("the server closed a connection")
	}
	replies := c.scan.feed(l.in[:n])
	if c.scan.broken {
		return 0, fmt.Errorf("not RESP: %.80q", l.in[:n])
	}
	return replies, nil
}

// write writes c's unwritten bytes. Bytes that the socket does not accept are written at the next EPOLLOUT.
func (l *loop) write(c *conn) error {
	for len(c.out) > 0 {
		n, errno := rawWrite(c.fd, c.out)
		if errno == unix.EINTR {
			continue
		}
		if errno == unix.EAGAIN {
			if c.outArmed {
				return nil
			}
			c.outArmed = true
			return l.arm(unix.EPOLL_CTL_MOD, c, unix.EPOLLIN|unix.EPOLLOUT)
		}
		if errno != 0 {
			return fmt.Errorf("writing to the server: %w", errno)
		}
		if n == len(c.out) {
			c.out = c.out[:0]
		} else {
			c.out = append(c.out[:0], c.out[n:]...)
		}
	}
	if c.outArmed {
		c.outArmed = false
		return l.arm(unix.EPOLL_CTL_MOD, c, unix.EPOLLIN)
	}
	return nil
}

// A ring is a queue of times.
type ring struct {
	items      []time.Duration
	head, size int
}

func (r *ring) len() int { return r.size }

func (r *ring) at(i int) time.Duration { return r.items[(r.head+i)&(len(r.items)-1)] }

func (r *ring) push(t time.Duration) {
	if r.size == len(r.items) {
		grown := make([]time.Duration, max(16, 2*r.size))
		for i := range r.size {
			grown[i] = r.at(i)
		}
		r.items, r.head = grown, 0
	}
	r.items[(r.head+r.size)&(len(r.items)-1)] = t
	r.size++
}

func (r *ring) pop() time.Duration {
	t := r.items[r.head]
	r.head = (r.head + 1) & (len(r.items) - 1)
	r.size--
	return t
}
