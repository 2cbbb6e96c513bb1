package replication

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"spindle/engine/client"
	"spindle/internal/clock"
	"spindle/protocol"
)

// An upstream is the connection to a primary, with the state of its reader. One goroutine reads. Another one writes,
// because a turn must not wait for a socket. To the core it is the connection of a client that gets no replies.
type upstream struct {
	address    string
	context    context.Context
	hangUp     context.CancelFunc
	conn       net.Conn // set before in is used
	in         *bufio.Reader
	fd         int
	cutOff     atomic.Bool // the connection has ended
	local, far string

	heard     atomic.Int64  // when the last bytes came, by clock.Steady
	waits     atomic.Bool   // the reader is waiting for the peer
	read      atomic.Int64  // bytes of the stream
	unapplied atomic.Int64  // the part of read that was not applied
	resume    chan struct{} // signalled when the core serves the client's requests again

	mu      sync.Mutex
	out     []byte
	written sync.Cond // out has bytes, or the connection is closed
	closed  bool

	// Turn only:
	next    next           // what comes after the lines
	id      string         // the history of the full copy
	offset  int64          // of the full copy; -1: unknown
	cl      *client.Client // runs the stream's commands
	refused error          // why this server does not understand a command, before which the stream ends
	ran     bool           // that command has written, or was in a transaction, which has run
	asked   bool           // the peer wants an acknowledgement of the present batch
	open    bool           // the stream is inside a transaction
}

type next uint8

const (
	nextLine next = iota
	nextCopy
	nextStream
)

const (
	lineMax     = 32 << 10  // the longest line of a handshake
	outboundMax = 256 << 10 // bytes that the peer has not read; beyond them, it gets no more
)

var errLongLine = errors.New("a line of the handshake is too long")

func newUpstream(address string) *upstream {
	w := &upstream{address: address, far: address, resume: make(chan struct{}, 1), fd: -1}
	w.written.L = &w.mu
	w.waits.Store(true)
	w.context, w.hangUp = context.WithCancel(context.Background())
	return w
}

// connect dials, and starts the writing goroutine. stop closes the connection.
func (w *upstream) connect(dial Dialer, source string) (stop func(), err error) {
	conn, err := dial(w.context, w.address, source)
	if err != nil {
		return nil, err
	}
	w.conn = conn
	w.learnAddresses()
	forget := context.AfterFunc(w.context, func() { conn.Close() })
	w.in = bufio.NewReaderSize(heard{w}, lineMax)
	w.heard.Store(clock.Steady())
	go w.write()
	return func() {
		conn.Close()
		forget()
	}, nil
}

// learnAddresses notes the addresses that CLIENT LIST shows.
func (w *upstream) learnAddresses() {
	conn := w.conn
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

// heard reads the connection, and notes when bytes arrive.
type heard struct{ w *upstream }

func (h heard) Read(p []byte) (int, error) {
	h.w.waits.Store(true)
	n, err := h.w.conn.Read(p)
	h.w.cutOff.Store(err != nil) // a load that has failed may still read
	h.w.waits.Store(false)
	if n > 0 {
		h.w.heard.Store(clock.Steady())
	}
	return n, err
}

// line reads a line and returns it without its end.
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

// killed reports whether this side has closed the connection.
func (w *upstream) killed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// post queues p for writing. Any goroutine.
func (w *upstream) post(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.out) > outboundMax {
		return
	}
	w.out = append(w.out, p...)
	w.written.Signal()
}

// write is the loop of the writing goroutine.
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
			return // the reader gets the same error
		}
	}
}

// beat sends the peer an empty line each second while a copy is loaded, so that the peer does not time out.
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

// The remaining methods implement protocol.Conn.

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
func (w *upstream) LastActive() int64 { // Unix ms, as of other clients
	return time.Now().UnixMilli() - (clock.Steady() - w.heard.Load())
}

// Resume implements protocol.Conn.
func (w *upstream) Resume() {
	select {
	case w.resume <- struct{}{}:
	default:
	}
}

// Close implements protocol.Conn. There is no output to wait for.
func (w *upstream) Close(bool) {
	w.hangUp()
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.written.Broadcast()
}
