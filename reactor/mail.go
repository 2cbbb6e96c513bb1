package reactor

import (
	"time"

	"spindle/protocol"
)

// A mail is a request to a connection, from another goroutine or from the core in the middle of a batch.
type mail struct {
	kind  mailKind
	c     *conn // nil: the mail is for the loop itself
	turn  uint64
	p     []byte
	reply *protocol.Reply
	fd    int
	run   func() // for mailRun

	to     []protocol.Conn // for mailPostAll: the receivers
	except protocol.Conn   // a receiver that is left out, or nil
}

// size returns how many bytes a mail holds.
func (m *mail) size() int {
	n := mailBytes + len(m.p)
	if m.reply != nil {
		n += m.reply.Len()
	}
	return n
}

const (
	mailBytes = 128      // a mail without what it points to
	mailMost  = 16 << 20 // bytes in a mailbox; past them its senders slow down
)

type mailKind uint8

const (
	mailPost mailKind = iota
	mailPostAll
	mailReply
	mailResume
	mailClose
	mailCloseAfter
	mailWritable
	mailBroken
	mailLimits
	mailRun     // call a function
	mailOpen    // a backend's own loop takes a socket
	mailArrive  // a loop takes an open connection that was on another one
	mailStop    // close every connection when its output has left
	mailStopNow // close every connection
)

// post adds m to the mailbox and makes the loop read it. It returns false, and does nothing, if m is for a connection
// that has left the loop. Any goroutine; it never waits for the loop.
func (l *loop) post(m mail) (here bool) {
	l.mailMu.Lock()
	if m.c != nil && m.c.home.Load() != l { // reactor.V2
		l.mailMu.Unlock()
		return false
	}
	if l.ended {
		l.mailMu.Unlock()
		m.refuse()
		return true
	}
	l.put(m)
	l.mailMu.Unlock()
	l.notify()
	return true
}

// post gives m, which is for c, to c's loop. Any goroutine.
func (c *conn) post(m mail) {
	for !c.home.Load().post(m) {
	}
}

// put adds m to the mailbox. The caller holds mailMu, and calls notify afterwards.
func (l *loop) put(m mail) {
	l.mail = append(l.mail, m)
	if l.held += m.size(); l.held > mailMost && !l.brimful {
		l.brimful = true
		l.reactor.brimful.Add(1)
	}
	if !l.waiting.Load() {
		l.waiting.Store(true)
	}
}

// PostAll implements protocol.Loop.
func (l *loop) PostAll(turn uint64, to []protocol.Conn, except protocol.Conn, p []byte) {
	l.post(mail{kind: mailPostAll, turn: turn, p: p, to: to, except: except})
}

// mails returns how many mails wait.
func (l *loop) mails() int {
	l.mailMu.Lock()
	defer l.mailMu.Unlock()
	return len(l.mail)
}

// slowSteps is how long slowDown waits at most, in milliseconds.
const slowSteps = 20

// slowDown lets another loop read a mailbox that is past its bound, before this one runs the next batch (R5). The
// caller holds no turn. The wait is bounded, because two loops may have filled each other's mailbox.
func (l *loop) slowDown() {
	for range slowSteps {
		if l.reactor.brimful.Load() == 0 || l.waiting.Load() {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// empty takes all mails out of the box. The caller holds mailMu.
func (l *loop) empty() (mails []mail) {
	mails = l.mail
	l.mail, l.held = nil, 0
	if l.brimful {
		l.brimful = false
		l.reactor.brimful.Add(-1)
	}
	return mails
}

// refuse releases the memory of a mail that is not read.
func (m *mail) refuse() {
	if m.reply != nil {
		releaseLent(m.reply)
	}
}

func releaseLent(r *protocol.Reply) {
	for _, piece := range r.Lent {
		if piece.Release != nil {
			piece.Release()
		}
	}
	r.Lent = nil
}

// readMail carries out the waiting mails. at is the connection whose batch has just run in turn, if any. Posts to it of
// earlier turns go before its reply (the order rule of protocol.Conn).
func (l *loop) readMail(at *conn, turn uint64) {
	l.mailMu.Lock()
	mails := l.empty()
	l.mail = l.read[:0]
	l.read = nil // a handler may post, so that readMail runs again inside this call: it then finds no second half
	l.waiting.Store(false)
	l.mailMu.Unlock()
	l.handle(mails, at, turn)
	if cap(mails) <= 4096 {
		l.read = mails[:0]
	}
}

// handle carries out the mails, and clears them. at and turn are as for readMail.
func (l *loop) handle(mails []mail, at *conn, turn uint64) {
	for i := 0; i < len(mails); i++ {
		m := &mails[i]
		switch {
		case m.kind == mailPostAll:
			n := l.spread(mails[i:], at, turn)
			clear(mails[i : i+n-1])
			i += n - 1
		case m.c == nil:
			l.readOwn(m)
		case m.c.away != nil:
			m.c.away.keepFor(*m)
		case m.c.life == lifeClosed && m.kind != mailOpen:
			m.refuse()
		case m.c == at && protocol.TurnOf(m.turn) < turn && (m.kind == mailPost || m.kind == mailReply):
			at.before(m)
		default:
			m.c.readMail(m)
		}
		mails[i] = mail{}
	}
}

// joinMost bounds the bytes of the messages to the same receivers that are joined.
const joinMost = 64 << 10

// spread sends the first of mails to its receivers, joined with the next mails for the same receivers. Each receiver
// gets one piece, and one write. spread returns how many mails it has joined.
func (l *loop) spread(mails []mail, at *conn, turn uint64) (n int) {
	first := &mails[0]
	size := len(first.p)
	for n = 1; n < len(mails) && mails[n].goesWith(first) && size+len(mails[n].p) <= joinMost; n++ {
		size += len(mails[n].p)
	}
	p := first.p
	alone := n > 1 && len(first.to) == 1 && size < pieceCopy // a single receiver gets them in its reply buffer
	if n > 1 && !alone {
		p = make([]byte, 0, size)
		for i := range mails[:n] {
			p = append(p, mails[i].p...)
		}
	}
	for _, to := range first.to {
		c := to.(*conn)
		switch {
		case c.life == lifeClosed || to == first.except:
		case c.away != nil:
			for i := range mails[:n] {
				c.away.keepFor(mail{kind: mailPost, c: c, turn: mails[i].turn, p: mails[i].p})
			}
		case c == at:
			for i := range mails[:n] {
				c.takeShared(&mails[i], turn)
			}
		default:
			before := c.out.bytes
			if alone {
				for i := range mails[:n] {
					c.out.copyIn(&l.replies, mails[i].p)
				}
			} else {
				c.out.post(&l.replies, p)
			}
			c.out.hold(l.reactor.options.Gate, c.waitFor(&mails[n-1]), before)
			c.written()
		}
		if l.atEnd {
			l.relieve()
		}
	}
	return n
}

// goesWith reports whether m has the same receivers as other.
func (m *mail) goesWith(other *mail) bool {
	return m.kind == mailPostAll && m.except == other.except && len(m.to) == len(other.to) && len(m.to) > 0 &&
		&m.to[0] == &other.to[0]
}

// takeShared adds a message for many to the output of the connection whose batch of that turn has just run.
func (c *conn) takeShared(m *mail, turn uint64) {
	post := mail{kind: mailPost, c: c, turn: m.turn, p: m.p}
	if protocol.TurnOf(m.turn) < turn {
		c.before(&post)
	} else {
		c.readMail(&post)
	}
}

// readOwn carries out mail for the loop itself.
func (l *loop) readOwn(m *mail) {
	switch m.kind {
	case mailStop:
		l.stopping = true
		l.forAll(mailCloseAfter)
	case mailRun:
		m.run()
	case mailStopNow:
		l.forAll(mailClose)
	}
}

// forAll makes each connection read a mail of this kind.
func (l *loop) forAll(kind mailKind) {
	for c := range l.conns {
		if m := (mail{kind: kind, c: c}); c.away != nil {
			c.away.keepFor(m)
		} else {
			c.readMail(&m)
		}
	}
}
