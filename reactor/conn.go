package reactor

import (
	"crypto/x509"
	"sync/atomic"

	"spindle/internal/invariant"
	"spindle/protocol"
)

// A conn is one connection, on one loop at a time (move.go). It has three parts, and the file of each draws its states:
// input (input.go), output (output.go) and link (link.go).
//
//	socket ─▶ received ─▶ serve ─▶ Parser.Parse ─▶ run ─▶ Handler.Serve ─▶ deliver ─▶ out ─▶ flush ─▶ socket
//	              │ cannot run yet                                            ▲
//	              └▶ pending: a chunk                     Post, PostReply ────┘ (mailbox)
//
// reactor.C1. Only the loop's goroutine touches a conn, except the atomic fields.
// reactor.C2. After its peer has closed, a connection ends when its complete requests have run and got their replies.
// It ends earlier if one of them waits for an event that may never come. Replies that the gate holds leave first: the
// peer may have closed only its own direction. If the socket breaks, they are dropped.
type conn struct {
	loop *loop                // for the loop's goroutine
	home atomic.Pointer[loop] // the same, for other goroutines (reactor.V1)
	link
	input
	out output

	sink    Sink // of a connection that Dial has opened; nil: a client's
	session any
	limiter protocol.Limiter    // session, if it knows its client's limits
	keeper  protocol.Accountant // session, if it wants to know what the buffers cost
	leveler protocol.Leveler    // session, if its output may wait for replicas

	local, remote  string
	unix, loopback bool

	life    life
	known   bool // has authenticated, or did not have to
	inReady bool // in loop.ready
	paused  bool // nothing is read from it (Direct.Pause)

	readAt   int64         // when its bytes were last read, in nanoseconds
	batch    protocol.Mark // where the running batch's reply begins in out.tail
	seenIn   int           // the last values of usageIn, usageRoom and usageOut
	seenRoom int
	seenOut  int
	host     any    // the backend's own data
	away     *frame // of the batch that is away; nil: none

	class     atomic.Uint32
	lastMoved atomic.Int64 // when bytes last arrived or were sent, Unix ms
	usageIn   atomic.Int64 // bytes read and not served, and the free room after them
	usageRoom atomic.Int64
	usageLent atomic.Int64 // the part of both that the handler has reserved
	usageOut  atomic.Int64
	usageIdle atomic.Int64 // free room of reply buffers, beyond usageOut
	usageOll  atomic.Int64
}

var _ protocol.Conn = (*conn)(nil)

// A life is the stage of a connection, from open to closed.
//
//	          the peer has gone; requests wait to run
//	 open ────────────────────────────────────────────▶ orphaned ── they have run ──▶ closed
//	   │ QUIT, an error, Close(true)                       │ the same                   ▲
//	   ▼                                                   ▼                            │
//	closing ── its output has left ──▶ closed           leaving ── output or requests ──┘
//	                                                               have left or run
//
// Close(false), a limit and a broken socket end the connection at once, from any state. It takes requests only while it
// is open or orphaned.
type life uint8

const (
	lifeOpen life = iota
	lifeOrphaned
	lifeClosing
	lifeLeaving
	lifeClosed
)

// lifeAfter has, for each state, a bit for each state that may follow.
var lifeAfter = [...]uint8{
	lifeOpen:     1<<lifeOrphaned | 1<<lifeClosing | 1<<lifeClosed,
	lifeOrphaned: 1<<lifeOrphaned | 1<<lifeLeaving | 1<<lifeClosed,
	lifeClosing:  1 << lifeClosed,
	lifeLeaving:  1 << lifeClosed,
	lifeClosed:   1 << lifeClosed,
}

// become changes the life. lifeOrphaned is allowed only for an open or orphaned connection.
func (c *conn) become(to life) {
	if invariant.Enabled {
		invariant.That(lifeAfter[c.life]&(1<<to) != 0, "a connection's life goes from %d to %d", c.life, to)
	}
	c.life = to
}

// isOpen reports whether the connection takes requests.
func (c *conn) isOpen() bool { return c.life < lifeClosing }

// isClosing reports whether the connection closes when its output has left.
func (c *conn) isClosing() bool { return c.life == lifeClosing || c.life == lifeLeaving }

// isGone reports whether the peer has gone, and the connection closes when its requests have run (reactor.C2).
func (c *conn) isGone() bool { return c.life == lifeOrphaned || c.life == lifeLeaving }

// readMail carries out a mail for the connection.
func (c *conn) readMail(m *mail) {
	c.loop.assertOn()
	switch m.kind {
	case mailPost:
		before := c.out.bytes
		c.out.post(&c.loop.replies, m.p)
		c.out.hold(c.loop.reactor.options.Gate, c.waitFor(m), before)
		c.written()
	case mailReply:
		if m.reply.Full() { // a part of it is missing
			m.refuse()
			c.cut(protocol.Class(c.class.Load()))
			return
		}
		before, wait := c.out.bytes, c.waitFor(m)
		c.out.postReply(&c.loop.replies, m.reply)
		c.out.hold(c.loop.reactor.options.Gate, wait, before)
		c.written()
	case mailResume:
		c.unreplied = false
		switch {
		case c.isHeld():
			c.resume()
		case c.isGone():
			c.loop.later(c)
		}
	case mailClose:
		c.close()
	case mailCloseAfter:
		c.closeAfterOutput()
	case mailWritable:
		c.writable()
	case mailBroken:
		c.breaks()
	case mailLimits:
		c.overLimit()
	case mailOpen:
		c.loop.host.(opener).enter(c)
	case mailArrive:
		c.loop.host.(mover).arrive(c)
	}
}

// waitFor returns what the bytes of a post must wait for. The stream of a replica does not wait for replicas, nor does
// a reply that shows no data.
func (c *conn) waitFor(m *mail) wait {
	w := wait{turn: m.turn}
	noData := m.kind == mailReply && m.reply.NoData
	if c.leveler != nil && !noData && protocol.Class(c.class.Load()) != protocol.ClassReplica {
		w.level = c.leveler.AckLevel()
		w.reply = m.kind == mailReply && w.level > 0
	}
	return w
}

// resume lets the loop serve the undone requests, when the connection comes up in loop.ready and not during another
// batch.
func (c *conn) resume() {
	c.setFlow(flowMore)
	c.loop.later(c)
}

// open announces the connection to the handler. On the loop, once the backend knows the socket.
func (c *conn) open() {
	c.loop.assertOn()
	l := c.loop
	l.conns[c] = struct{}{}
	c.moved()
	if c.sink != nil {
		if c.sink.Up(c); l.stopping && c.life != lifeClosed {
			c.close()
		}
		return
	}
	session, refusal := l.handler.Open(c)
	c.session = session
	c.limiter, _ = session.(protocol.Limiter)
	c.keeper, _ = session.(protocol.Accountant)
	c.leveler, _ = session.(protocol.Leveler)
	if session == nil {
		l.reactor.rejected.Add(1)
		if len(refusal) > 0 {
			c.tell(refusal)
		}
		c.close()
		return
	}
	if l.stopping {
		c.close()
	}
}

// closeAfterOutput accepts no more requests, and closes the connection when the present output has been sent.
func (c *conn) closeAfterOutput() {
	if c.life == lifeClosed {
		return
	}
	if c.isOpen() {
		c.become(c.life + lifeClosing)
	}
	if c.out.bytes == 0 && !c.holdsOutput() {
		c.close()
		return
	}
	if !c.out.blocked {
		c.markDirty()
	}
}

// close ends the connection at once. Output of this iteration is still sent if the socket takes it without waiting.
func (c *conn) close() {
	c.loop.assertOn()
	if c.life == lifeClosed {
		return
	}
	if c.out.dirty && !c.out.blocked {
		n, _ := c.out.flush(&c.link, &c.loop.replies)
		c.loop.tally.out += int64(n)
	}
	c.discard()
}

// discard is like close, but does not write the last output.
func (c *conn) discard() {
	l := c.loop
	invariant.That(c.away == nil, "reactor.Y1: a connection ends while its batch is away")
	c.become(lifeClosed)
	c.out.abandon(&l.replies)
	c.endStream()
	if c.parser != nil {
		l.giveParser(c.parser)
		c.parser = nil
	}
	if c.pending != nil {
		l.chunks.giveBack(c.pending)
	}
	c.pending, c.served = nil, 0
	delete(l.conns, c)
	if c.tls != nil {
		c.tls.end()
	}
	l.host.drop(c)
	if c.session != nil {
		l.handler.Closed(c.session)
	}
	c.noteInput()
	c.noteOutput()
	if c.sink != nil {
		c.sink.Down(ErrPeerEnded)
		l.reactor.gone.Done()
		return
	}
	l.reactor.forget()
}

// hangup is called by the backend when the peer has closed or the connection has broken.
func (c *conn) hangup() {
	c.unreplied = c.unreplied && !c.broken // no client reads the reply
	if c.waits() && c.isOpen() {
		c.become(lifeOrphaned) // goOn closes it
		return
	}
	c.part()
}

// breaks ends a connection whose socket takes no more bytes.
func (c *conn) breaks() {
	c.broken = true
	c.hangup()
}

// part ends a connection whose peer has gone: at once, or after the replies that the gate holds (reactor.C2).
func (c *conn) part() {
	if len(c.out.marks) > 0 && c.life != lifeClosing && !c.broken {
		c.hungUp = true
		c.closeAfterOutput()
		return
	}
	c.close()
}

func (c *conn) FD() int            { return c.fd }
func (c *conn) LocalAddr() string  { return c.local }
func (c *conn) RemoteAddr() string { return c.remote }
func (c *conn) Unix() bool         { return c.unix }
func (c *conn) Loopback() bool     { return c.loopback }

// PeerCertificate implements protocol.PeerCertificate.
func (c *conn) PeerCertificate() *x509.Certificate {
	if c.tls == nil {
		return nil
	}
	state := c.tls.conn.ConnectionState()
	if len(state.VerifiedChains) == 0 {
		return nil
	}
	return state.PeerCertificates[0]
}

// Secure reports whether the connection is under TLS, for protocol.IsSecure.
func (c *conn) Secure() bool      { return c.tls != nil }
func (c *conn) LastActive() int64 { return c.lastMoved.Load() }

func (c *conn) Post(turn uint64, p []byte) {
	c.post(mail{kind: mailPost, c: c, turn: turn, p: p})
}

// Loop implements protocol.Conn.
func (c *conn) Loop() protocol.Loop {
	l := c.home.Load()
	if l.single {
		return nil
	}
	return l
}

func (c *conn) PostReply(turn uint64, r *protocol.Reply) {
	c.post(mail{kind: mailReply, c: c, turn: turn, reply: r})
}

func (c *conn) Resume() { c.post(mail{kind: mailResume, c: c}) }

func (c *conn) Close(afterOutput bool) {
	kind := mailClose
	if afterOutput {
		kind = mailCloseAfter
	}
	c.post(mail{kind: kind, c: c})
}
