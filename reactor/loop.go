package reactor

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"spindle/internal/clock"
	"spindle/protocol"
)

// A loop is one event loop's state. Only its goroutine touches it, except mail, armed and count.
//
// In one iteration the backend gives each ready connection its bytes (conn.OnTraffic). Then it calls turn once. turn
// reads the mail, serves connections that had more to do, and flushes each dirty one with one write. When very many are
// ready the backend flushes a part of them earlier (relieve).
//
// reactor.T1. After work is left for turn (a dirty connection, one with more to do, mail) turn is called again. The
// backend does so after its events, other goroutines do so through notify.
// reactor.T2. armed is true from the first notify until turn begins. So there is one wake a turn, however many mails
// come.
type loop struct {
	reactor *Reactor
	handler protocol.Handler
	id      int
	host    host
	sender  sender // the host, if it is one; else nil

	conns map[*conn]struct{}
	*kit  // lent by the backend to the loops that share it

	dirty  []*conn // with output to flush in this turn
	gated  []*conn // with output that may not leave yet (reactor.G2)
	leased int     // how many of them hold a reply buffer: shared messages need none
	ready  []*conn // with more to do, although no event announces it
	spare  []*conn
	ran    []sent // requests whose replies are not sent yet
	readAt int64  // when this iteration's first bytes were read, or its turn began, in nanoseconds; 0: not yet
	nowMs  int64  // when this iteration, or its first batch's turn, began; 0: not read yet
	wall   clock.Wall

	mailMu  sync.Mutex
	mail    []mail
	read    []mail // the other half of the mailbox
	waiting atomic.Bool
	armed   atomic.Bool

	enlisted atomic.Bool // the loop is woken when the gate opens (reactor.G2)

	ended   bool // under mailMu: the mail is not read any more
	held    int  // under mailMu: bytes that mail holds
	brimful bool // under mailMu: counted in reactor.brimful, since held is past mailMost

	longReplies *chunkStore

	combiner protocol.Combiner // nil: batches are never published
	outbox   *protocol.Outbox
	combines bool     // batches are published if the turn is taken
	sleeps   bool     // it serves only connections that cannot move (chooser.go)
	moving   *removal // connections that shall move to other loops; nil: none
	away     []*frame // frames of the batches that are away
	frames   []*frame // spare ones

	single bool // it has only one connection for its whole life
	runner runner
	atEnd  bool // turn reads the mail: no batch is running

	measured  bool         // busy is measured
	repliedAt int64        // when replies were last sent, in nanoseconds
	busyUntil int64        // when the last measured iteration ended
	busy      atomic.Int64 // how long it has worked, in nanoseconds
	open      atomic.Int32 // its connections

	lastRead int64 // readAt of the last iteration that has read
	gap      int64 // between the last two of them, in nanoseconds

	stopping bool
	tally    tally
}

func newLoop(r *Reactor, id int) *loop {
	return &loop{reactor: r, handler: r.handler, id: id, conns: map[*conn]struct{}{}, wall: clock.WallFrom(time.Now()),
		gap: math.MaxInt64}
}

// A kit has the tools of a loop that no connection owns between turns.
type kit struct {
	*frame
	parsers []*protocol.Parser // spare ones
	replies bufferPool
	chunks  chunkPool
}

// newKit makes one of n kits that share a loop's allowance: its pools keep 1/n of it.
func newKit(n int) *kit {
	k := &kit{frame: newFrame()}
	k.chunks.most, k.replies.most = chunkIdle/n, replyPooled/n
	return k
}

// counters are the loops' counts, as Stats reads them.
type counters struct {
	in, out, reads, writes, pooled atomic.Int64
	threadedReads, threadedWrites  atomic.Int64 // on loops beyond the first
}

// A tally has the counts of one loop since it last added them to the counters, which it does once a turn.
type tally struct{ in, out, reads, writes, pooled, open int64 }

// isExtra reports whether this is one of several loops, and not the first.
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
	if open := int64(len(l.conns)); open != t.open {
		l.open.Store(int32(open))
		t.open = open
	}
}

// turn ends an iteration: it reads the mail, serves unfinished connections, and writes once to each dirty one.
func (l *loop) turn() {
	l.assertOn()
	if l.measured && l.pendingTurn() {
		l.beganAt() // to send is work, too, if nothing was read
	}
	if len(l.away) > 0 {
		l.bringBack()
	}
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
	if l.moving != nil {
		l.moveSome()
	}
	l.endIteration()
}

// endIteration ends an iteration's times, clock and counts. A backend that skips turn calls it itself. Otherwise the
// next request would be timed from this iteration's first byte (reactor.D2).
func (l *loop) endIteration() {
	l.timeReplies()
	if l.readAt != 0 {
		if l.measured {
			l.noteBusy()
		}
		l.gap, l.lastRead = l.readAt-l.lastRead, l.readAt
	}
	l.nowMs, l.readAt = 0, 0
	l.tell()
}

// busyGap is the longest time between two iterations that counts as work: the loop asks the kernel for events and reads
// the first socket. 10 µs are enough for that, and a loop that sleeps is seldom back so soon.
const busyGap = int64(10 * time.Microsecond)

// noteBusy adds an iteration that has read bytes, or had other work, to busy. Accepting is not counted.
// Cost: if replies were timed, no reading of the clock.
func (l *loop) noteBusy() {
	from, to := l.readAt, l.repliedAt
	if to < from {
		to = l.wall.Nanos()
	}
	if from-l.busyUntil < busyGap {
		from = l.busyUntil
	}
	l.busy.Store(l.busy.Load() + to - from)
	l.busyUntil = to
}

// flushDirty writes the output of the dirty connections.
func (l *loop) flushDirty() {
	for i := 0; i < len(l.dirty); i++ { // closing one may post to others, but dirties none
		c := l.dirty[i]
		l.dirty[i] = nil
		c.flush()
	}
	l.dirty, l.leased = l.dirty[:0], 0
	l.timeReplies()
}

// crowd bounds the connections whose replies wait for the end of an iteration, because each holds a buffer. Posts to
// other connections are not counted. Of a thousand buffers most fell out of the cache, and the pool had no room for
// all. That cost 14 % of a request (bench: connections).
const crowd = 64

// relieve flushes the dirty connections once they are a crowd. It is called after each event, and never within one.
func (l *loop) relieve() {
	if l.leased >= crowd {
		l.flushDirty()
		if l.sender != nil {
			l.sender.sendNow()
		}
	}
}

// pendingTurn reports whether turn has something to do.
func (l *loop) pendingTurn() bool {
	return len(l.dirty) > 0 || len(l.ready) > 0 || l.waiting.Load() || l.mayPass() || len(l.away) > 0 && l.hasBack() ||
		l.moving != nil
}

// isCalled reports whether another goroutine has left something to do, perhaps while armed was true (reactor.P1).
func (l *loop) isCalled() bool { return l.waiting.Load() || l.mayPass() }

// notify makes the loop call turn soon (reactor.T1, reactor.T2). Any goroutine.
func (l *loop) notify() {
	if !l.armed.Load() && l.armed.CompareAndSwap(false, true) {
		l.host.wake()
	}
}

// now returns the time of this iteration in Unix ms. It is read once, here or by the first batch's turn.
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

// end refuses all later mail, and releases the waiting mail.
func (l *loop) end() {
	l.mailMu.Lock()
	l.ended = true
	mails := l.empty()
	l.mailMu.Unlock()
	for i := range mails {
		mails[i].refuse()
	}
}

// takeParser returns a free parser.
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
