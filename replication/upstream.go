package replication

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/clock"
	"spindle/protocol"
)

// An upstream is the connection to a primary. A goroutine of its own reads: lines, then perhaps a full copy, then the
// stream, which it runs in turns. Another one writes, because a turn must not wait for a socket.
//
// To the core it is the connection of a client whom nobody answers.
type upstream struct {
	f          *Follower
	address    string
	context    context.Context
	hangUp     context.CancelFunc
	conn       net.Conn // set before in is used
	in         *bufio.Reader
	fd         int
	cutOff     bool // nothing more comes; the reading goroutine's
	local, far string

	heard     atomic.Int64  // when the last bytes came, by clock.Steady
	waits     atomic.Bool   // for the peer. If not, we are at work on what it has sent
	read      atomic.Int64  // bytes of the stream
	unapplied atomic.Int64  // those of them that were not applied
	resume    chan struct{} // the core has the client's requests served again

	mu      sync.Mutex
	out     []byte
	written sync.Cond // out has something, or the wire is closed
	closed  bool

	next    next           // what comes behind the lines; turn only
	id      string         // of the full copy
	offset  int64          // of it; -1: unknown
	cl      *client.Client // whose requests the stream is
	refused error          // what a command met that this server does not understand: the stream ends before it
	ran     bool           // it was in a transaction, which has run
	asked   bool           // the peer wants an acknowledgement of the batch that is run
	open    bool           // the stream is inside a transaction
}

type next uint8

const (
	nextLine next = iota
	nextCopy
	nextStream
)

const (
	lineMax     = 32 << 10  // and the longest line of a handshake
	streamKept  = 1 << 20   // how much room for requests a long one leaves behind
	outboundMax = 256 << 10 // what a peer does not read: past it, it hears no more
)

var (
	errLongLine = errors.New("a line of the handshake is too long")
	errReplaced = errors.New("the link was given up")
)

// dial connects. Turn only; the goroutines tell the follower what comes of it.
func dial(f *Follower, host string, port int) *upstream {
	w := &upstream{f: f, address: net.JoinHostPort(host, strconv.Itoa(port)), resume: make(chan struct{}, 1), fd: -1}
	w.written.L = &w.mu
	w.waits.Store(true)
	w.far = w.address
	w.context, w.hangUp = context.WithCancel(context.Background())
	go w.run(f.settings.Source.Get())
	return w
}

// A Dialer opens the connection of a replica to its primary, from a local address unless source is empty. It may wait;
// the end of ctx ends that. The connection may be read and written at once, by a goroutine each.
type Dialer func(ctx context.Context, address, source string) (net.Conn, error)

// Dial is the Dialer for connections in the clear.
func Dial(ctx context.Context, address, source string) (net.Conn, error) {
	var d net.Dialer
	if source != "" {
		ip, err := net.ResolveIPAddr("ip", source)
		if err != nil {
			return nil, err
		}
		d.LocalAddr = &net.TCPAddr{IP: ip.IP, Zone: ip.Zone}
	}
	return d.DialContext(ctx, "tcp", address)
}

// do runs g in a turn in which no unit is open, unless the link has been given up: what the primary says may change the
// role, the history and the sinks.
func (w *upstream) do(g func(nowMs int64)) (still bool) {
	w.f.core.DoBetween(func() {
		if still = w.f.wire == w; still {
			g(w.f.core.SteadyMs())
		}
	})
	return still
}

// run is the reading goroutine.
func (w *upstream) run(source string) {
	defer w.Close(false)
	conn, err := w.f.parts.Dial(w.context, w.address, source)
	if err != nil {
		w.do(func(now int64) { w.f.link.Lost(now, plainError(err)) })
		return
	}
	w.conn = conn
	w.name(conn)
	stop := context.AfterFunc(w.context, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	go w.write()
	w.in = bufio.NewReaderSize(heard{w}, lineMax)
	w.heard.Store(clock.Steady())
	if !w.do(func(now int64) { w.f.link.Connected(now) }) {
		return
	}
	if err := w.readAll(); err != nil {
		w.do(func(now int64) {
			if w.killed() {
				w.f.link.Hurry(now) // an operator's CLIENT KILL is no failure of the peer's
			}
			w.f.link.Lost(now, plainError(err))
		})
	}
}

// name notes what CLIENT LIST shows.
func (w *upstream) name(conn net.Conn) {
	w.local, w.far = conn.LocalAddr().String(), conn.RemoteAddr().String()
	if wrapped, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = wrapped.NetConn()
	}
	if raw, ok := conn.(syscall.Conn); ok {
		if c, err := raw.SyscallConn(); err == nil {
			_ = c.Control(func(fd uintptr) { w.fd = int(fd) })
		}
	}
}

// plainError is an error of the network in the system's own words.
func plainError(err error) string {
	var number syscall.Errno
	if errors.As(err, &number) {
		text := number.Error()
		return strings.ToUpper(text[:1]) + text[1:]
	}
	return err.Error()
}

// heard reads the connection and notes when something came.
type heard struct{ w *upstream }

func (h heard) Read(p []byte) (int, error) {
	h.w.waits.Store(true)
	n, err := h.w.conn.Read(p)
	h.w.cutOff = err != nil
	h.w.waits.Store(false)
	if n > 0 {
		h.w.heard.Store(clock.Steady())
	}
	return n, err
}

// readAll reads until the link is lost.
func (w *upstream) readAll() error {
	for {
		line, err := w.line()
		if err != nil {
			return err
		}
		step := nextLine
		if !w.do(func(now int64) {
			w.f.link.Line(line, now)
			if w.f.wire == w {
				step = w.next
			}
		}) {
			return errReplaced
		}
		switch step {
		case nextCopy:
			if err := w.copy(); err != nil {
				return nil // it was told
			}
			return w.stream()
		case nextStream:
			return w.stream()
		}
	}
}

// line reads a line, without its end.
func (w *upstream) line() (string, error) {
	line, err := w.in.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		return "", errLongLine
	}
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}

// copy reads a full copy and has it put in place. An error was told to the link.
func (w *upstream) copy() error {
	err := w.takeCopy()
	if err != nil {
		w.do(func(now int64) {
			w.f.parts.Changed()
			why := "the full copy failed: " + plainError(err)
			if w.cutOff && !w.killed() {
				why = "the primary broke off the full copy; its log says why"
				w.f.parts.Log.Warning("The primary broke off the full copy after %d bytes: its log says why.", w.f.copied.Load())
			}
			w.f.link.Failed(now, w.cutOff && w.f.copied.Load() > 0, why)
		})
	}
	return err
}

// killed says that this side has closed the connection.
func (w *upstream) killed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

func (w *upstream) takeCopy() error {
	log := w.f.parts.Log
	line := ""
	for line == "" { // the peer is at work
		var err error
		if line, err = w.line(); err != nil {
			log.Warning("I/O error reading bulk count from MASTER: %s", plainError(err))
			return err
		}
		w.f.copies.Add(int64(len(line) + len("\r\n")))
	}
	c := &Copy{Stream: w.in, Size: -1}
	mark, marked := strings.CutPrefix(line, "$EOF:")
	switch {
	case strings.HasPrefix(line, "-"):
		log.Warning("MASTER aborted replication with an error: %s", line[1:])
		return errReplaced
	case line[0] != '$':
		log.Warning("Bad protocol from MASTER, the first byte is not '$' (we received '%s'), are you sure the host and "+
			"port are right?", line)
		return errReplaced
	case marked && len(mark) == len(noID):
		c.Mark = mark
	default:
		n, err := strconv.ParseInt(line[1:], 10, 64)
		if err != nil || n < 0 {
			log.Warning("Bad protocol from MASTER, it announces a copy of '%s' bytes", line[1:])
			return errReplaced
		}
		c.Size = n
		c.Stream = io.LimitReader(w.in, n)
	}
	c.Stream = &counted{c.Stream, [2]*atomic.Int64{&w.f.copied, &w.f.copies}}
	if !w.do(func(int64) {
		w.f.size = max(c.Size, 0)
		c.Same = w.f.known && w.f.feed.ID == w.id
	}) {
		return errReplaced
	}
	stopBeats := w.beat()
	defer stopBeats()
	w.f.taking.Lock() // a copy that was given up is put away first
	defer w.f.taking.Unlock()
	taken := false
	err := w.f.parts.Taker.Take(c, func() (still bool) {
		if still = w.f.wire == w; still {
			w.f.known = false
			w.f.feed.shown.Store(0) // what is here now counts for nothing until the copy is in place
			w.f.feed.dismissReplicas()
		}
		return still
	}, func(db int) {
		if taken = w.f.wire == w; taken {
			w.f.taken(w, db)
		}
	})
	if err == nil && !taken {
		return errReplaced
	}
	return err
}

// A counted reader adds what is read through it to both of n.
type counted struct {
	r io.Reader
	n [2]*atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	for _, sum := range c.n {
		sum.Add(int64(n))
	}
	return n, err
}

// beat has the peer read an empty line each second, while a copy is taken: it must not give up.
func (w *upstream) beat() (stop func()) {
	ticker, over := time.NewTicker(time.Second), make(chan struct{})
	go func() {
		for {
			select {
			case <-over:
				return
			case <-ticker.C:
				w.post([]byte{'\n'})
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(over)
	}
}

// stream runs the primary's commands until the link is lost.
//
//	buf   [ applied | of an open transaction | read, incomplete | room ]
//	      0         applied                  parsed             len    cap
func (w *upstream) stream() error {
	buf, applied, parsed := make([]byte, 0, 2*lineMax), 0, 0
	parser, reply := protocol.NewParser(nil), &protocol.Reply{}
	for {
		switch {
		case applied == len(buf):
			if cap(buf) > streamKept {
				buf = make([]byte, 0, 2*lineMax)
			}
			buf, applied, parsed = buf[:0], 0, 0
		case len(buf) == cap(buf) && applied > len(buf)/2:
			n := copy(buf, buf[applied:])
			buf, parsed, applied = buf[:n], parsed-applied, 0
		case len(buf) == cap(buf):
			buf = append(make([]byte, 0, max(2*cap(buf), parsed+parser.Need())), buf...)
		}
		n, err := w.in.Read(buf[len(buf):cap(buf)])
		if err != nil {
			return err
		}
		buf = buf[:len(buf)+n]
		w.read.Add(int64(n))
		w.unapplied.Add(int64(n))
		if parser.Need() > len(buf)-parsed {
			continue
		}
		for more := true; more; more = parser.More() {
			consumed, refusal := parser.Parse(buf[parsed:])
			if refusal != nil {
				w.f.parts.Log.Warning("Protocol error (%s) from client: the link to the master", refusal.Text)
				return refusal
			}
			if applied, err = w.apply(buf, applied, parsed, consumed, parser.Requests, reply); err != nil {
				return err
			}
			parsed += consumed
		}
	}
}

// apply runs requests, which end at buf[parsed+consumed], and hands on what of buf was applied. It says how far that
// goes.
func (w *upstream) apply(buf []byte, applied, parsed, consumed int, requests []protocol.Request,
	reply *protocol.Reply) (int, error) {
	from, end, at := applied, parsed+consumed, 0
	if len(requests) == 0 {
		if w.open || parsed+consumed == applied || applied < parsed {
			return applied, nil
		}
		from = end // blank lines
		if !w.do(func(int64) { w.handOn(buf[applied:from]) }) {
			return applied, errReplaced
		}
		return from, nil
	}
	for at < len(requests) {
		b := protocol.Batch{Session: w.cl, Requests: requests[at:], Reply: reply}
		stuck, gone := false, false
		w.f.core.Follow(&b, func() {
			stuck, gone = w.cl.Is(client.Blocked), w.cl.Is(client.CloseASAP) || w.f.wire != w
			if gone {
				return
			}
			upTo, done := from, b.Done
			if w.refused != nil && !w.ran {
				done-- // the last one that was looked at
			}
			for _, r := range b.Requests[:done] {
				w.note(r.Args[0])
				w.f.feed.spot(w.cl.DB, r.Args)
				if !w.open {
					upTo = parsed + r.End
				}
			}
			if at+done == len(requests) && !w.open {
				upTo = end
			}
			w.handOn(buf[from:upTo])
			from = upTo
			if w.asked {
				w.asked = false
				w.f.link.Asked(w.f.core.SteadyMs())
			}
			if w.refused != nil {
				gone = true
				w.stop()
			}
		})
		if reply.Reset(); cap(reply.B) > streamKept {
			reply.B = nil
		}
		if gone {
			return from, errReplaced
		}
		if at += b.Done; stuck && at < len(requests) {
			select {
			case <-w.resume:
			case <-w.context.Done():
				return from, errReplaced
			}
		}
	}
	return from, nil
}

// note follows transactions.
func (w *upstream) note(name []byte) {
	switch {
	case command.Is(name, "MULTI"):
		w.open = true
	case command.Is(name, "EXEC"), command.Is(name, "DISCARD"):
		w.open = false
	}
}

// handOn says that p was applied. Turn only.
func (w *upstream) handOn(p []byte) {
	if len(p) > 0 {
		w.unapplied.Add(-int64(len(p)))
		w.f.feed.forward(p)
	}
}

// send writes a command, some time.
func (w *upstream) send(words ...string) {
	args := make([][]byte, len(words))
	for i, word := range words {
		args[i] = []byte(word)
	}
	w.post(protocol.AppendCommand(nil, args))
}

// post has p written. Any goroutine.
func (w *upstream) post(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.out) > outboundMax {
		return
	}
	w.out = append(w.out, p...)
	w.written.Signal()
}

// write is the writing goroutine.
func (w *upstream) write() {
	var out []byte
	for {
		w.mu.Lock()
		for len(w.out) == 0 && !w.closed {
			w.written.Wait()
		}
		out, w.out = w.out, out[:0]
		closed := w.closed
		w.mu.Unlock()
		if closed {
			return
		}
		if _, err := w.conn.Write(out); err != nil {
			return // the reading side hears of it
		}
	}
}

// The wire as protocol.Conn.

func (w *upstream) FD() int            { return w.fd }
func (w *upstream) LocalAddr() string  { return w.local }
func (w *upstream) RemoteAddr() string { return w.far }
func (w *upstream) Unix() bool         { return false }
func (w *upstream) Loopback() bool {
	return strings.HasPrefix(w.far, "127.") || strings.HasPrefix(w.far, "[::1]")
}
func (w *upstream) Post(uint64, []byte)                   {}
func (w *upstream) PostReply(_ uint64, r *protocol.Reply) { r.Reset() }
func (w *upstream) Chunks() protocol.Chunks               { return nil }
func (w *upstream) Loop() protocol.Loop                   { return nil }
func (w *upstream) SetClass(protocol.Class)               {}
func (w *upstream) Usage() protocol.Usage                 { return protocol.Usage{} }
func (w *upstream) LastActive() int64 { // in Unix ms, as of the other clients
	return time.Now().UnixMilli() - (clock.Steady() - w.heard.Load())
}

// Resume implements protocol.Conn.
func (w *upstream) Resume() {
	select {
	case w.resume <- struct{}{}:
	default:
	}
}

// Close implements protocol.Conn: there is no output to wait for.
func (w *upstream) Close(bool) {
	w.hangUp()
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.written.Broadcast()
}
