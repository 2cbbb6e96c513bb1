package reactor

import (
	"sync"
	"sync/atomic"
	"time"

	"spindle/internal/clock"
	"spindle/protocol"
)

// A loop is what one event loop keeps for its connections. Only its goroutine touches it, save mail, armed and count.
//
// One iteration: the backend gives every ready connection its bytes (conn.received), then calls turn once, which takes
// the mail, goes on with connections that had more to do, and flushes every dirty one: one write a connection. When
// very many are ready the backend has a part of them flushed earlier (relieve).
//
// reactor.T1. Whatever leaves work for turn (a dirty connection, one with more to do, mail) has turn called again: the
// backend after its events, others through notify.
// reactor.T2. armed is true from the first notify until turn begins: one wake a turn, whoever posts.
type loop struct {
	reactor *Reactor
	handler protocol.Handler
	id      int
	host    host

	conns map[*conn]struct{}
	*kit  // lent by the backend to the loops that share it

	dirty  []*conn // with output to flush in this turn
	gated  []*conn // with output that may not leave yet (reactor.G2)
	leased int     // how many of them hold a buffer of replies: messages that many share take none
	ready  []*conn // with more to do although their socket says nothing new
	spare  []*conn
	ran    []sent // requests whose replies have yet to leave
	readAt int64  // nanos, when the first bytes of this iteration were read; 0: none were
	nowMs  int64  // when this iteration, or its first batch's turn, began; 0: not read yet
	wall   clock.Wall

	mailMu  sync.Mutex
	mail    []mail
	read    []mail // the other half of the mailbox
	waiting atomic.Bool
	armed   atomic.Bool

	enlisted atomic.Bool // the gate's opening wakes the loop (reactor.G2)

	ended   bool // under mailMu: nobody will read the mail again
	held    int  // under mailMu: bytes that mail holds
	brimful bool // under mailMu: counted in reactor.brimful, since held is past mailMost

	longReplies *chunkStore

	single bool // no other connection is on it
	runner runner
	atEnd  bool // turn reads the mail: no batch is under way

	stopping bool
	tally    tally
}

func newLoop(r *Reactor, id int) *loop {
	return &loop{reactor: r, handler: r.handler, id: id, conns: map[*conn]struct{}{}, wall: clock.WallFrom(time.Now())}
}

// A kit is what a loop works with and no connection owns between turns.
type kit struct {
	scratch protocol.Scratch
	parser  *protocol.Parser   // for connections without a half-read request
	parsers []*protocol.Parser // more of them
	batch   protocol.Batch
	replies bufferPool
	chunks  chunkPool
}

// newKit makes a kit whose pools keep as much as one of n that a loop is entitled to.
func newKit(n int) *kit {
	k := &kit{}
	k.chunks.most, k.replies.most = chunkIdle/n, replyPooled/n
	k.parser = protocol.NewParser(&k.scratch)
	return k
}

// counters are what loops have done, as Stats reads it.
type counters struct {
	in, out, reads, writes, pooled atomic.Int64
	threadedReads, threadedWrites  atomic.Int64 // on loops beyond the first
}

// A tally is what one loop has done since it last told the counters: once a turn.
type tally struct{ in, out, reads, writes, pooled int64 }

// isExtra says that this is one of several loops, and not the first.
func (l *loop) isExtra() bool { return l.id > 0 && len(l.reactor.loops) > 1 }

func (l *loop) tell() {
	t, to := &l.tally, &l.reactor.count
	if t.reads != 0 {
		to.reads.Add(t.reads)
		if l.isExtra() {
			to.threadedReads.Add(t.reads)
		}
		to.in.Add(t.in)
		t.reads, t.in = 0, 0
	}
	if t.writes != 0 {
		to.writes.Add(t.writes)
		if l.isExtra() {
			to.threadedWrites.Add(t.writes)
		}
		to.out.Add(t.out)
		t.writes, t.out = 0, 0
	}
	if pooled := int64(l.replies.bytes + l.chunks.bytes); pooled != t.pooled {
		to.pooled.Add(pooled - t.pooled)
		t.pooled = pooled
	}
}

// turn ends an iteration: mail, unfinished connections, and one write for each dirty one.
func (l *loop) turn() {
	l.assertOn()
	if l.mayPass() {
		l.passGate()
	}
	if l.waiting.Load() {
		l.atEnd = true
		l.readMail(nil, 0)
		l.atEnd = false
	}
	if len(l.ready) > 0 {
		ready := l.ready
		l.ready, l.spare = l.spare[:0], nil
		for i, c := range ready {
			ready[i] = nil
			c.goOn()
			l.relieve()
		}
		l.spare = ready[:0]
	}
	l.flushDirty()
	l.endIteration()
}

// endIteration closes the books of an iteration: times, clock and counts. A backend calls it itself when it leaves out
// turn for want of work; else the next request would be timed from this iteration's first byte (reactor.D2).
func (l *loop) endIteration() {
	l.timeReplies()
	l.nowMs, l.readAt = 0, 0
	l.tell()
}

// flushDirty writes what the dirty connections have to send.
func (l *loop) flushDirty() {
	for i := 0; i < len(l.dirty); i++ { // closing one may post to others, but dirties none
		c := l.dirty[i]
		l.dirty[i] = nil
		c.flush()
	}
	l.dirty, l.leased = l.dirty[:0], 0
	l.timeReplies()
}

// crowd is how many connections with replies to what they sent wait for the end of an iteration at most; what is posted
// to others comes on top. Each holds a buffer: of a thousand at once most fell out of the cache, and those that the
// pool has no room for were allocated anew. That was 14 % of a request (bench: connections).
const crowd = 64

// relieve flushes the dirty connections once they are a crowd. After each event, and never within one.
func (l *loop) relieve() {
	if l.leased >= crowd {
		l.flushDirty()
	}
}

// pendingTurn says whether turn has something to do.
func (l *loop) pendingTurn() bool {
	return len(l.dirty) > 0 || len(l.ready) > 0 || l.waiting.Load() || l.mayPass()
}

// notify has turn called soon (reactor.T1, reactor.T2). Any goroutine.
func (l *loop) notify() {
	if !l.armed.Load() && l.armed.CompareAndSwap(false, true) {
		l.host.wake()
	}
}

// now is the time of this iteration in Unix ms, read once, here or by the first batch's turn.
func (l *loop) now() int64 {
	if l.nowMs == 0 {
		_, l.nowMs = l.wall.Now()
	}
	return l.nowMs
}

func (l *loop) later(c *conn) {
	if !c.inReady {
		c.inReady = true
		l.ready = append(l.ready, c)
	}
}

// A mail is what another goroutine, or the core in the middle of a batch, wants of a connection.
type mail struct {
	kind  mailKind
	c     *conn // nil: the loop itself is meant
	turn  uint64
	p     []byte
	reply *protocol.Reply
	fd    int

	to     []protocol.Conn // mailPostAll: the receivers
	except protocol.Conn   // who of them is not meant, or nil
}

// size is what a mail holds, in bytes.
func (m *mail) size() int {
	n := mailBytes + len(m.p)
	if m.reply != nil {
		n += m.reply.Len()
	}
	return n
}

const (
	mailBytes = 128      // a mail without what it points to
	mailMost  = 16 << 20 // bytes in a mailbox, past which whoever fills it slows down
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
	mailLimits
	mailOpen    // a backend's own loop takes a socket
	mailStop    // close every connection when its output has left
	mailStopNow // close every connection
)

// post puts m into the mailbox and has it read. Any goroutine; never waits for the loop.
func (l *loop) post(m mail) {
	l.mailMu.Lock()
	if l.ended {
		l.mailMu.Unlock()
		m.refuse()
		return
	}
	l.mail = append(l.mail, m)
	if l.held += m.size(); l.held > mailMost && !l.brimful {
		l.brimful = true
		l.reactor.brimful.Add(1)
	}
	if !l.waiting.Load() {
		l.waiting.Store(true)
	}
	l.mailMu.Unlock()
	l.notify()
}

// PostAll implements protocol.Loop.
func (l *loop) PostAll(turn uint64, to []protocol.Conn, except protocol.Conn, p []byte) {
	l.post(mail{kind: mailPostAll, turn: turn, p: p, to: to, except: except})
}

// slowSteps is how long slowDown waits at most, in milliseconds.
const slowSteps = 20

// slowDown lets another loop read a mailbox that is past its bound, before this one runs the next batch (R5). No turn
// is held, and the wait ends: two loops may have filled each other's.
func (l *loop) slowDown() {
	for range slowSteps {
		if l.reactor.brimful.Load() == 0 || l.waiting.Load() {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// empty takes the mail out of the box. Under mailMu.
func (l *loop) empty() (mails []mail) {
	mails = l.mail
	l.mail, l.held = nil, 0
	if l.brimful {
		l.brimful = false
		l.reactor.brimful.Add(-1)
	}
	return mails
}

// refuse gives back what a mail that nobody will read holds.
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

// readMail does what the mailbox asks. at is the connection whose batch of turn number turn has just been run, if any:
// posts to it that were decided in an earlier turn go before its reply (the order rule of protocol.Conn).
func (l *loop) readMail(at *conn, turn uint64) {
	l.mailMu.Lock()
	mails := l.empty()
	l.mail = l.read[:0]
	l.read = nil // a handler may post and be read again below us: it then finds no second half
	l.waiting.Store(false)
	l.mailMu.Unlock()
	for i := 0; i < len(mails); i++ {
		m := &mails[i]
		switch {
		case m.kind == mailPostAll:
			n := l.spread(mails[i:], at, turn)
			clear(mails[i : i+n-1])
			i += n - 1
		case m.c == nil:
			l.readOwn(m)
		case m.c.life == lifeClosed && m.kind != mailOpen:
			m.refuse()
		case m.c == at && protocol.TurnOf(m.turn) < turn && (m.kind == mailPost || m.kind == mailReply):
			at.before(m)
		default:
			m.c.readMail(m)
		}
		mails[i] = mail{}
	}
	if cap(mails) <= 4096 {
		l.read = mails[:0]
	}
}

// joinMost is how many bytes of messages to the same receivers become one.
const joinMost = 64 << 10

// spread gives the first of mails to its receivers, together with those behind it that go to the same ones. Each
// receiver then has one piece, and one write. It returns how many mails these were.
func (l *loop) spread(mails []mail, at *conn, turn uint64) (n int) {
	first := &mails[0]
	size := len(first.p)
	for n = 1; n < len(mails) && mails[n].goesWith(first) && size+len(mails[n].p) <= joinMost; n++ {
		size += len(mails[n].p)
	}
	p := first.p
	alone := n > 1 && len(first.to) == 1 && size < pieceCopy // who is alone gets them in a buffer that costs nothing
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
			c.out.hold(l.reactor.options.Gate, mails[n-1].turn, before)
			c.written()
		}
		if l.atEnd {
			l.relieve()
		}
	}
	return n
}

// goesWith says that m goes to the receivers of other.
func (m *mail) goesWith(other *mail) bool {
	return m.kind == mailPostAll && m.except == other.except && len(m.to) == len(other.to) && len(m.to) > 0 &&
		&m.to[0] == &other.to[0]
}

// takeShared takes a message for many at the connection whose batch of that turn has just been run.
func (c *conn) takeShared(m *mail, turn uint64) {
	post := mail{kind: mailPost, c: c, turn: m.turn, p: m.p}
	if protocol.TurnOf(m.turn) < turn {
		c.before(&post)
	} else {
		c.readMail(&post)
	}
}

// readOwn takes mail for the loop itself.
func (l *loop) readOwn(m *mail) {
	switch m.kind {
	case mailStop:
		l.stopping = true
		for c := range l.conns {
			c.closeAfterOutput()
		}
	case mailStopNow:
		for c := range l.conns {
			c.close()
		}
	}
}

// end refuses mail from here on and gives back what is still there.
func (l *loop) end() {
	l.mailMu.Lock()
	l.ended = true
	mails := l.empty()
	l.mailMu.Unlock()
	for i := range mails {
		mails[i].refuse()
	}
}

// takeParser gives a parser that is nobody's.
func (l *loop) takeParser() *protocol.Parser {
	if n := len(l.parsers); n > 0 {
		p := l.parsers[n-1]
		l.parsers = l.parsers[:n-1]
		return p
	}
	return protocol.NewParser(&l.scratch)
}

func (l *loop) giveParser(p *protocol.Parser) {
	p.Reset()
	if len(l.parsers) < 256 {
		l.parsers = append(l.parsers, p)
	}
}
