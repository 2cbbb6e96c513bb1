package reactor

import (
	"sync/atomic"
	"time"

	"spindle/internal/invariant"
	"spindle/protocol"
)

// A conn is one connection, on one loop for its whole life. It has three parts, each with its states drawn: input
// (input.go), output (output.go) and link (link.go).
//
//	socket ─▶ received ─▶ serve ─▶ Parser.Parse ─▶ run ─▶ Handler.Serve ─▶ deliver ─▶ out ─▶ flush ─▶ socket
//	              │ cannot go on yet                                          ▲
//	              └▶ pending: a chunk                     Post, PostReply ────┘ (mailbox)
//
// reactor.C1. Only the loop's goroutine touches a conn, save the fields marked atomic.
// reactor.C2. A peer that has gone ends the connection when the complete requests that were read have run, or when one
// of them waits for something that may never come.
type conn struct {
	loop *loop
	link
	input
	out output

	session any
	limiter protocol.Limiter    // session, if it knows its client's limits
	keeper  protocol.Accountant // session, if it wants to know what the buffers cost

	local, remote  string
	unix, loopback bool

	life    life
	known   bool // has given its password, or was not asked for one
	inReady bool // in loop.ready

	readAt   int64         // nanos, when bytes of it were last read
	batch    protocol.Mark // where the batch's reply begins in out.tail, while it is run
	seenIn   int           // what usageIn, usageRoom and usageOut were set to
	seenRoom int
	seenOut  int
	host     any // the backend's own

	class     atomic.Uint32
	lastMoved atomic.Int64 // when bytes last arrived or left, Unix ms
	usageIn   atomic.Int64 // bytes read and not served, and the room behind them
	usageRoom atomic.Int64
	usageLent atomic.Int64 // of both, what the handler has reserved
	usageOut  atomic.Int64
	usageIdle atomic.Int64 // what reply buffers have room for beyond usageOut
	usageOll  atomic.Int64
}

var _ protocol.Conn = (*conn)(nil)

// A life says how near a connection is to its end.
//
//	          the peer has gone; requests wait to run
//	 open ────────────────────────────────────────────▶ orphaned ── they have run ──▶ closed
//	   │ QUIT, an error, Close(true)                       │ the same                   ▲
//	   ▼                                                   ▼                            │
//	closing ── its output has left ──▶ closed           leaving ── output or requests ──┘
//	                                                               have left or run
//
// Close(false), a limit and a broken socket end it at once, from any state. While open or orphaned it takes requests.
type life uint8

const (
	lifeOpen life = iota
	lifeOrphaned
	lifeClosing
	lifeLeaving
	lifeClosed
)

// lifeAfter has a bit for each state that may follow a state.
var lifeAfter = [...]uint8{
	lifeOpen:     1<<lifeOrphaned | 1<<lifeClosing | 1<<lifeClosed,
	lifeOrphaned: 1<<lifeOrphaned | 1<<lifeLeaving | 1<<lifeClosed,
	lifeClosing:  1 << lifeClosed,
	lifeLeaving:  1 << lifeClosed,
	lifeClosed:   1 << lifeClosed,
}

// become changes the life. lifeOrphaned is for an open connection, or one that is orphaned already.
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

// servedAtOnce is how many batches of one connection run before the loop looks at the others.
const servedAtOnce = 16

// OnTraffic is where the backend gives bytes that arrived: the walk of a request begins here.
//
// Lifetime: data is the backend's; nothing points into it when OnTraffic returns (reactor.L1, reactor.L2).
func (c *conn) OnTraffic(data []byte) {
	c.loop.assertOn()
	l := c.loop
	l.tally.reads++
	l.tally.in += int64(len(data))
	c.readAt = l.beganAt()
	if !c.isOpen() {
		c.moved()
		return
	}
	for len(data) > 0 && c.isOpen() {
		switch {
		case c.excess != nil:
			c.discardExcess(data)
			data = nil
		case c.isHeld() || c.replay:
			c.keep(data)
			data = nil
		case c.streaming():
			data = c.feed(data)
		case c.served < len(c.pending):
			n := c.lacking(len(data))
			c.keep(data[:n])
			c.servePending()
			data = data[n:]
		default:
			c.keep(c.serve(data))
			data = nil
		}
	}
	c.moved() // now that a turn may have read the clock
	c.noteInput()
}

// moved notes that bytes have arrived, or left. Of a batch that arrived it comes after its turn: whoever looks sooner
// goes by the client's last command, too.
func (c *conn) moved() {
	if now := c.loop.now(); now != c.lastMoved.Load() {
		c.lastMoved.Store(now)
	}
}

// longArgument is from where on what is behind an argument is better served where it lies than copied behind it.
const longArgument = 4 << 10

// lacking is how much of so many bytes that have arrived goes to what is held back: as much as the argument that is
// awaited lacks, if that is a long one, else all.
func (c *conn) lacking(arrived int) int {
	if c.awaitsLong() {
		if n := c.parser.Need() - (len(c.pending) - c.served); n > 0 {
			return min(n, arrived)
		}
	}
	return arrived
}

// awaitsLong says that a long argument has begun and is not complete.
func (c *conn) awaitsLong() bool {
	p := c.parser
	return p != nil && (p.Streaming() || p.Awaited() >= longArgument)
}

// servePending serves what is held back, unless the connection is held, or has to replay first.
func (c *conn) servePending() {
	if c.isHeld() || c.replay || c.life == lifeClosed || c.served == len(c.pending) {
		return
	}
	if c.parser != nil && len(c.pending)-c.served < c.parser.Need() {
		return
	}
	rest := c.serve(c.pending[c.served:])
	if c.life == lifeClosed {
		return // close has given the chunk back
	}
	c.served = len(c.pending) - len(rest)
	c.drained()
}

// serve runs the complete requests of buf, batch by batch, and returns the bytes that have to wait.
func (c *conn) serve(buf []byte) (rest []byte) {
	p := c.parser
	if p == nil {
		p = c.loop.parser
	}
	p.Use(&c.loop.scratch)
	c.setFlow(flowing)
	for round := 1; ; round++ {
		p.Limits = c.limits()
		n, err := p.Parse(buf)
		if err != nil {
			p.Reset() // it may be the loop's, and the next connection's
			if c.malformed(err) {
				c.own(p)
				return buf
			}
			return nil
		}
		if len(p.Requests) > 0 {
			done := c.run(p.Requests, len(buf)-n)
			switch {
			case !c.isOpen():
				p.Reset() // what is incomplete behind QUIT is nobody's
				return nil
			case done < len(p.Requests):
				if done > 0 {
					buf = buf[p.Requests[done-1].End:]
				}
				p.Reset() // what is incomplete behind them is parsed again
				c.own(p)
				return buf
			}
		}
		buf = buf[n:]
		if size := p.Awaited(); size > 0 && c.pastLimit(size) {
			c.beginExcess(buf[p.Need()-lineEnd-size:], size)
			p.Reset()
			c.own(p)
			return nil
		}
		if _, _, ok := p.Large(); ok {
			p = c.own(p)
			c.stream(p, buf)
			return nil
		}
		if !p.More() {
			c.own(p)
			return buf
		}
		if round == servedAtOnce {
			c.own(p)
			c.setFlow(flowMore)
			c.loop.later(c)
			return buf
		}
	}
}

// limits are what the protocol allows this client now.
func (c *conn) limits() protocol.Limits {
	if c.limiter != nil {
		l := c.limiter.Limits()
		c.known = c.known || !l.Unauthenticated
		return l
	}
	return protocol.Limits{MaxBulk: int(c.loop.reactor.settings.MaxBulk.Get())}
}

// own settles whose parser p is (reactor.I3): the connection's while it remembers something.
func (c *conn) own(p *protocol.Parser) *protocol.Parser {
	l := c.loop
	needed := p.Pending() || p.Streaming()
	switch {
	case needed && c.parser == nil:
		c.parser = p
		l.parser = l.takeParser()
	case !needed && c.parser != nil:
		c.parser = nil
		l.giveParser(p)
	}
	return p
}

// run has the handler serve one batch and puts its replies in their place. It returns how many requests were done.
func (c *conn) run(requests []protocol.Request, unread int) int {
	l := c.loop
	if l.waiting.Load() {
		l.readMail(nil, 0) // what was decided before goes before
		if !c.isOpen() {
			return len(requests)
		}
	}
	reply := c.out.open(&l.replies)
	reply.Chunks = c
	c.batch = reply.Mark()
	b := &l.batch
	b.Session, b.Requests, b.Reply, b.Unread = c.session, requests, reply, unread
	b.Done, b.Turn, b.NowMs, b.Soon = 0, 0, 0, false
	b.Ran, b.Timed = b.Ran[:0], l.reactor.settings.ReplyLatency.Get()
	l.handler.Serve(b)
	if l.nowMs == 0 {
		l.nowMs = b.NowMs
	}
	done := b.Done
	invariant.That(done >= 0 && done <= len(requests), "Done is %d of %d", done, len(requests))
	if done < len(requests) {
		c.setFlow(flowHeld)
		if b.Soon {
			c.flow = flowBusy
		}
	}
	if len(b.Ran) > 0 {
		c.noteRan(b.Ran)
	}
	c.deliver(b.Turn)
	if l.reactor.brimful.Load() != 0 {
		l.slowDown()
	}
	return done
}

// deliver takes the replies of a batch that turn has decided: everything posted in earlier turns before them, the rest
// behind.
func (c *conn) deliver(turn uint64) {
	c.loop.assertOn()
	l := c.loop
	full := c.out.tail.Full()
	before := c.out.bytes
	c.out.settle(&l.replies, c.batch)
	c.out.hold(l.reactor.options.Gate, turn, before)
	if full { // a part of the reply is missing, whatever limit the batch has left behind
		c.cut(protocol.Class(c.class.Load()))
		return
	}
	if l.waiting.Load() {
		l.readMail(c, turn)
		if c.life == lifeClosed {
			return
		}
	}
	c.written()
}

// before puts a post that was decided before the batch's reply in front of it.
func (c *conn) before(m *mail) {
	tail := &c.out.tail
	// No reply, or it has left already.
	if tail.B == nil || tail.Since(c.batch) < 0 || m.kind == mailReply && m.reply.Full() {
		c.readMail(m)
		return
	}
	n := 0
	if m.kind == mailPost {
		n = c.out.insert(c.batch, m.p)
	} else {
		n = c.out.insertReply(c.batch, m.reply)
	}
	c.batch = c.batch.Moved(n)
	c.out.holdAhead(c.loop.reactor.options.Gate, m.turn, n, n+tail.Since(c.batch))
}

// written marks the connection for the next flush, at the latest at the iteration's end, once its output has grown.
func (c *conn) written() {
	if c.out.bytes == 0 {
		return
	}
	if c.out.bytes > replySize && c.overLimit() {
		return
	}
	if c.out.blocked {
		if len(c.out.tail.B) >= replySize {
			c.out.seal(&c.loop.replies) // so that it does not grow by copying
		}
		c.noteOutput()
		return
	}
	if c.out.bytes >= flushBound/4 {
		c.flushNow()
		return
	}
	c.markDirty()
}

func (c *conn) markDirty() {
	if !c.out.dirty {
		c.out.dirty = true
		c.loop.dirty = append(c.loop.dirty, c)
		if c.out.tail.B != nil {
			c.loop.leased++
		}
	}
}

// flush writes what the connection has to send: at the end of an iteration, or sooner in a crowd.
func (c *conn) flush() {
	c.loop.assertOn()
	c.out.dirty = false
	if c.life == lifeClosed || c.out.blocked {
		return
	}
	c.flushNow()
}

// flushNow writes what the socket takes.
func (c *conn) flushNow() {
	l := c.loop
	n, result := c.out.flush(&c.link, &l.replies)
	if n > 0 {
		l.tally.writes++
		l.tally.out += int64(n)
		c.moved() // who is being sent a long reply is not idle
	}
	switch result {
	case flushedAll:
		c.out.softSince = time.Time{}
		if c.isClosing() {
			c.close()
			return
		}
	case flushedSome:
		l.later(c)
	case flushedHeld:
		if c.isClosing() && l.reactor.options.Gate.Never(c.out.marks[0].turn) {
			c.close()
			return
		}
		l.await(c)
	case flushedFull:
		c.out.blocked = true
		l.host.watchWrite(c)
	case flushedDead:
		c.out.abandon(&l.replies) // nobody will read it
		if c.isClosing() {
			c.close()
			return
		}
		c.become(lifeOrphaned)
		l.later(c) // which closes it
	}
	c.noteOutput()
}

// writable is the backend's word that the socket takes bytes again.
func (c *conn) writable() {
	c.loop.assertOn()
	if c.life == lifeClosed || !c.out.blocked {
		return
	}
	c.out.blocked = false
	c.markDirty()
}

// goOn is the connection's place among those with more to do than their socket says.
func (c *conn) goOn() {
	c.inReady = false
	if c.life == lifeClosed {
		return
	}
	if c.flow == flowMore {
		c.setFlow(flowing)
		if c.replay {
			c.replay = false
			c.parser.Use(&c.loop.scratch)
			c.parser.Replay()
			c.runStreamed(len(c.pending) - c.served)
		}
		if !c.isClosing() {
			c.servePending()
		}
		if c.life == lifeClosed {
			return
		}
		if c.noteInput(); c.life == lifeClosed {
			return
		}
		if c.flow == flowHeld && c.hungUp && !c.isGone() {
			c.hangup() // the event that told of it came while there was more to serve
			if c.life == lifeClosed {
				return
			}
		}
	}
	if c.isGone() && !c.waits() {
		c.close()
		return
	}
	if c.out.bytes > 0 && !c.out.blocked {
		c.markDirty()
	}
	if h, ok := c.loop.host.(reader); ok && c.readable && c.flow == flowing {
		h.readMore(c)
	}
}

// A reader is a host that reads by itself, so that a connection whose socket is not drained yet has to ask.
type reader interface{ readMore(c *conn) }

// An opener is a host that is given sockets by mail.
type opener interface{ enter(c *conn) }

// streaming says whether a big argument is on its way into memory of its own.
func (c *conn) streaming() bool { return c.parser != nil && c.parser.Streaming() }

// stream begins to read a big last argument into memory the handler lends.
func (c *conn) stream(p *protocol.Parser, head []byte) {
	if b := c.reserve(p.Expects(head)); b != nil {
		p.Stream(head, b)
		c.enlarge()
	}
}

// reserve is memory for an argument of this connection, or nil: then the client has been told, and the connection
// closes.
func (c *conn) reserve(size int) *protocol.Bulk {
	b, err := c.loop.handler.Reserve(c.session, size)
	if err != nil {
		if held := c.malformed(err); held {
			c.close()
		}
		return nil
	}
	if b == nil {
		b = &protocol.Bulk{Data: make([]byte, size)}
	}
	return b
}

// enlarge gets a streamed argument more memory if it needs some. It answers false if none is to be had: then nothing is
// streamed any more.
func (c *conn) enlarge() bool {
	size := c.parser.Cramped()
	if size == 0 {
		return true
	}
	b := c.reserve(size)
	if b == nil {
		c.endStream()
		return false
	}
	c.parser.Enlarge(b)
	return true
}

// feed gives a streamed argument what arrived, runs its request when it is complete, and returns the bytes behind it.
func (c *conn) feed(data []byte) []byte {
	p := c.parser
	p.Use(&c.loop.scratch)
	for {
		n, complete := p.Feed(data)
		data = data[n:]
		if complete {
			c.runStreamed(len(data))
			return data
		}
		if p.Cramped() == 0 {
			return data
		}
		if !c.enlarge() {
			return nil
		}
	}
}

// readIntoBulk says that n bytes of a streamed argument were read straight into its memory.
func (c *conn) readIntoBulk(n int) {
	l := c.loop
	l.tally.reads++
	l.tally.in += int64(n)
	c.readAt = l.beganAt()
	c.moved()
	c.parser.Advance(n)
	c.enlarge()
	c.noteInput()
}

// runStreamed runs the one request whose last argument was streamed. Not done, it stays with its parser until Resume.
func (c *conn) runStreamed(unread int) {
	p := c.parser
	done := c.run(p.Requests, unread)
	if done == 0 && c.isOpen() {
		c.replay = true
		return
	}
	c.endStream()
}

// endStream gives the argument's memory back unless a handler has taken it.
func (c *conn) endStream() {
	p := c.parser
	if p == nil || !p.Streaming() {
		return
	}
	if b := p.Served(); !b.Taken && b.Release != nil {
		b.Release(b)
	}
	c.parser = nil
	c.loop.giveParser(p)
}

// malformed ends a connection that does not speak the protocol, unless the handler wants to look at it later: then it
// is held.
func (c *conn) malformed(err *protocol.Error) (held bool) {
	switch c.loop.handler.Malformed(c.session, err) {
	case protocol.Wait:
		c.setFlow(flowHeld)
		return true
	case protocol.Tell:
		reply := c.out.open(&c.loop.replies)
		from := reply.Mark()
		reply.Error(err)
		before := c.out.bytes
		c.out.settle(&c.loop.replies, from)
		c.out.hold(c.loop.reactor.options.Gate, 0, before) // behind what is held, if anything is
	}
	c.closeAfterOutput()
	return false
}

// readMail does what another goroutine asked of the connection.
func (c *conn) readMail(m *mail) {
	c.loop.assertOn()
	switch m.kind {
	case mailPost:
		before := c.out.bytes
		c.out.post(&c.loop.replies, m.p)
		c.out.hold(c.loop.reactor.options.Gate, m.turn, before)
		c.written()
	case mailReply:
		if m.reply.Full() { // a part of it is missing
			m.refuse()
			c.cut(protocol.Class(c.class.Load()))
			return
		}
		before := c.out.bytes
		c.out.postReply(&c.loop.replies, m.reply)
		c.out.hold(c.loop.reactor.options.Gate, m.turn, before)
		c.written()
	case mailResume:
		if c.isHeld() {
			c.resume()
		}
	case mailClose:
		c.close()
	case mailCloseAfter:
		c.closeAfterOutput()
	case mailWritable:
		c.writable()
	case mailLimits:
		c.overLimit()
	case mailOpen:
		c.loop.host.(opener).enter(c)
	}
}

// resume has the loop serve what was left undone. It runs as the connection's next place in turn, never under another's
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
	session, refusal := l.handler.Open(c)
	c.session = session
	c.limiter, _ = session.(protocol.Limiter)
	c.keeper, _ = session.(protocol.Accountant)
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

// closeAfterOutput takes no more requests and closes when everything decided so far has left.
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

// close ends the connection at once. Output of this iteration that the socket takes without waiting still leaves.
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

// discard is close without a last write.
func (c *conn) discard() {
	l := c.loop
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
	l.reactor.open.Add(-1)
	l.reactor.gone.Done()
}

// hangup is the backend's word that the peer has closed or the connection broke.
func (c *conn) hangup() {
	if c.waits() && c.isOpen() {
		c.become(lifeOrphaned) // goOn closes it
		return
	}
	c.close()
}

func (c *conn) FD() int            { return c.fd }
func (c *conn) LocalAddr() string  { return c.local }
func (c *conn) RemoteAddr() string { return c.remote }
func (c *conn) Unix() bool         { return c.unix }
func (c *conn) Loopback() bool     { return c.loopback }

// Secure says that the connection is under TLS: protocol.IsSecure.
func (c *conn) Secure() bool      { return c.tls != nil }
func (c *conn) LastActive() int64 { return c.lastMoved.Load() }

func (c *conn) Post(turn uint64, p []byte) {
	c.loop.post(mail{kind: mailPost, c: c, turn: turn, p: p})
}

// Loop implements protocol.Conn.
func (c *conn) Loop() protocol.Loop {
	if c.loop.single {
		return nil
	}
	return c.loop
}

func (c *conn) PostReply(turn uint64, r *protocol.Reply) {
	c.loop.post(mail{kind: mailReply, c: c, turn: turn, reply: r})
}

func (c *conn) Resume() { c.loop.post(mail{kind: mailResume, c: c}) }

func (c *conn) Close(afterOutput bool) {
	kind := mailClose
	if afterOutput {
		kind = mailCloseAfter
	}
	c.loop.post(mail{kind: kind, c: c})
}
