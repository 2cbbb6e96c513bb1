package reactor

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"spindle/protocol"
)

// This file has connections that this side opens, and the operations of a handler on a connection on its own loop. A
// proxy needs both.
//
//	Dial ─▶ a goroutine connects, and greets under TLS ─▶ mail ─▶ the loop: Sink.Up ─▶ Received … ─▶ Down
//	                    │ it fails
//	                    └──────────────────────────────▶ mail ─▶ the loop: Sink.Down
//
// reactor.B1. A Sink is called on its loop only. Down is called exactly once, and it is the last call.
// reactor.B2. Such a connection takes no requests, and it is not counted in Stats' connections. Its owner bounds what
// is queued on it (Direct.Buffered).

// A Sink receives the events of a connection that Dial has opened. The loop calls it (reactor.B1).
type Sink interface {
	// Up reports that the connection is open. d is valid until Down.
	Up(d Direct)
	// Received gets bytes that have arrived. They are lent until it returns.
	Received(p []byte)
	// Down reports that the connection has ended, or why it could not be opened.
	Down(err error)
}

// A Direct is a connection as its own loop's goroutine sees it. Only that goroutine may call the methods that
// protocol.Conn does not have.
type Direct interface {
	protocol.Conn
	// Append adds a copy of p to the output. It is sent at the end of the iteration, with the bytes of other calls.
	Append(p []byte)
	// Share adds p itself to the output. p must not change afterwards.
	Share(p []byte)
	// Buffered returns how many bytes of the output the kernel has not taken yet.
	Buffered() int
	// Abandon drops the output that the kernel has not taken. It is never sent.
	Abandon()
	// Pause has the loop read no more from a connection that Dial has opened, until Continue. Some bytes may still come:
	// those that the kernel has handed over already.
	Pause()
	Continue()
	// Owe sets whether replies to requests that Serve has accepted are still to come. While they are, the connection
	// stays open after its peer has stopped sending.
	Owe(replies bool)
}

// ErrPeerEnded is the error for Sink.Down when the peer has closed the connection.
var ErrPeerEnded = errors.New("the peer has closed the connection")

// A Dialing says where to connect, and how.
type Dialing struct {
	Network string // "tcp" or "unix"
	Address string // "127.0.0.1:6379", or a path
	TLS     *tls.Config
	Limit   time.Duration // for connecting and for the TLS handshake, each; 0: 10 seconds
}

// DirectOf returns c as its own loop sees it. c must be a connection of this package.
func DirectOf(c protocol.Conn) Direct { return c.(*conn) }

// Loops returns the loops that connections share. With netpoll there are none, and Dial cannot be used.
func (r *Reactor) Loops() []protocol.Loop {
	loops := make([]protocol.Loop, len(r.loops))
	for i, l := range r.loops {
		loops[i] = l
	}
	return loops
}

// Run makes the loop call f soon. Any goroutine. After the reactor has stopped f is not called.
func Run(on protocol.Loop, f func()) { on.(*loop).post(mail{kind: mailRun, run: f}) }

// Dial opens a connection on a loop of this reactor. It returns at once. Any goroutine.
func (r *Reactor) Dial(on protocol.Loop, d Dialing, to Sink) {
	if d.Limit <= 0 {
		d.Limit = handshakeLimit
	}
	r.gone.Add(1)
	go func() {
		if err := r.dial(on.(*loop), d, to); err != nil {
			Run(on, func() { to.Down(err) })
			r.gone.Done()
		}
	}()
}

// dial connects, and gives the socket to its loop or to a handshake.
func (r *Reactor) dial(l *loop, d Dialing, to Sink) error {
	ctx, cancel := context.WithTimeout(r.running, d.Limit)
	defer cancel()
	var dialer net.Dialer
	made, err := dialer.DialContext(ctx, d.Network, d.Address)
	if err != nil {
		return err
	}
	fd, err := takeSocket(made)
	if err != nil {
		return err
	}
	c := &conn{link: link{fd: fd}, sink: to, local: made.LocalAddr().String(), remote: d.Address,
		unix: d.Network == "unix"}
	c.setLoop(l)
	c.class.Store(uint32(protocol.ClassReplica)) // its owner limits its output (reactor.B2)
	if d.TLS != nil {
		r.shaking.greet(c, d.TLS, time.Now().Add(d.Limit))
		return nil
	}
	l.post(mail{kind: mailOpen, c: c})
	return nil
}

// takeSocket takes the socket of made from Go's poller, and closes made.
func takeSocket(made net.Conn) (fd int, err error) {
	defer made.Close()
	raw, err := made.(syscall.Conn).SyscallConn()
	if err != nil {
		return -1, err
	}
	var dup error
	if err = raw.Control(func(at uintptr) { fd, dup = unix.FcntlInt(at, unix.F_DUPFD_CLOEXEC, 0) }); err == nil {
		err = dup
	}
	if err != nil {
		return -1, fmt.Errorf("fcntl: %w", err)
	}
	setKeepAlive(fd, 15)
	return fd, nil
}

// Append implements Direct.
func (c *conn) Append(p []byte) {
	c.loop.assertOn()
	if c.life == lifeClosed || len(p) == 0 {
		return
	}
	if len(p) >= pieceCopy {
		p = bytes.Clone(p)
		c.out.post(&c.loop.replies, p)
	} else {
		c.out.copyIn(&c.loop.replies, p)
	}
	c.written()
}

// Share implements Direct.
func (c *conn) Share(p []byte) {
	c.loop.assertOn()
	if c.life == lifeClosed || len(p) == 0 {
		return
	}
	c.out.post(&c.loop.replies, p)
	c.written()
}

// Buffered implements Direct.
func (c *conn) Buffered() int { return c.out.bytes }

// Abandon implements Direct.
func (c *conn) Abandon() {
	c.loop.assertOn()
	if c.life != lifeClosed {
		c.out.abandon(&c.loop.replies)
	}
}

// Pause implements Direct.
func (c *conn) Pause() {
	c.loop.assertOn()
	c.paused = true
}

// Continue implements Direct.
func (c *conn) Continue() {
	c.loop.assertOn()
	if c.paused && c.life != lifeClosed {
		c.loop.later(c) // reactor.E2
	}
	c.paused = false
}

// Owe implements Direct.
func (c *conn) Owe(replies bool) {
	c.loop.assertOn()
	if c.owes == replies {
		return
	}
	c.owes = replies
	if !replies && c.isGone() {
		c.loop.later(c)
	}
}

// lost tells the sink that the connection never reached its loop. The socket is closed.
func (c *conn) lost(err error) {
	to, gone := c.sink, &c.loop.reactor.gone
	Run(c.loop, func() { to.Down(err) })
	gone.Done()
}
