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
// One iteration: the backend gives every ready connection its bytes (conn.received), then calls turn once, which takes the
// mail, goes on with connections that had more to do, and flushes every dirty one: one write a connection. When very many are ready the
// backend has a part of them flushed earlier (relieve).
//
// reactor.T1. Whatever leaves work for turn (a dirty connection, one with more to do, mail) has turn called again: the backend after its
// events, others through notify.
// reactor.T2. armed is true from the first notify until turn begins: one wake a turn, whoever posts.
type loop struct {
	reactor *Reactor
	handler protocol.Handler
	id      int
	host    host

	conns map[*conn]struct{}
	*kit  // lent by the backend to the loops that share it

	dirty []*conn // with output to flush in this turn
	ready []*conn // with more to do although their socket says nothing new
	spare []*conn
	nowMs int64 // when this iteration, or its first batch's turn, began; 0: not read yet
	wall  clock.Wall

	mailMu  sync.Mutex
	mail    []mail
	read    []mail // the other half of the mailbox
	waiting atomic.Bool
	armed   atomic.Bool
	ended   bool // under mailMu: nobody will read the mail again

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

	longReplies *chunkStore
}

// newKit makes a kit whose pools keep as much as one of n that a loop is entitled to.
func newKit(n int) *kit {
	k := &kit{longReplies: &chunkStore{}}
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
	if l.waiting.Load() {
		l.readMail(nil, 0)
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
	l.nowMs = 0
	l.tell()
}

// flushDirty writes what the dirty connections have to send.
func (l *loop) flushDirty() {
	for i := 0; i < len(l.dirty); i++ { // closing one may post to others, but dirties none
		c := l.dirty[i]
		l.dirty[i] = nil
		c.flush()
	}
	l.dirty = l.dirty[:0]
}

// crowd is how many connections with replies to what they sent wait for the end of an iteration at most; what is posted to others comes on top.
// Each holds a buffer: of a thousand at once most fell
// out of the cache, and those that the pool has no room for were allocated anew. That was 14 % of a request (bench: connections).
const crowd = 64

// relieve flushes the dirty connections once they are a crowd. After each event, and never within one.
func (l *loop) relieve() {
	if len(l.dirty) >= crowd {
		l.flushDirty()
	}
}

// pendingTurn says whether turn has something to do.
func (l *loop) pendingTurn() bool {
	return len(l.dirty) > 0 || len(l.ready) > 0 || l.waiting.Load()
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
}

type mailKind uint8

const (
	mailPost mailKind = iota
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
	if !l.waiting.Load() {
		l.waiting.Store(true)
	}
	l.mailMu.Unlock()
	l.notify()
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

// readMail does what the mailbox asks. at is the connection whose batch of turn number turn has just been run, if any: posts to
// it that were decided in an earlier turn go before its reply (the order rule of protocol.Conn).
func (l *loop) readMail(at *conn, turn uint64) {
	l.mailMu.Lock()
	mails := l.mail
	l.mail = l.read[:0]
	l.read = nil // a handler may post and be read again below us: it then finds no second half
	l.waiting.Store(false)
	l.mailMu.Unlock()
	for i := range mails {
		m := &mails[i]
		switch {
		case m.c == nil:
			l.readOwn(m)
		case m.c.closed && m.kind != mailOpen:
			m.refuse()
		case m.c == at && m.turn < turn && (m.kind == mailPost || m.kind == mailReply):
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
	mails := l.mail
	l.mail = nil
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
