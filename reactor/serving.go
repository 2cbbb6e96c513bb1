package reactor

import (
	"spindle/internal/invariant"
	"spindle/protocol"
)

// This file serves requests, from their bytes to the replies in the output.

// servedAtOnce is how many batches of one connection run before the loop looks at the others.
const servedAtOnce = 16

// OnTraffic receives bytes from the backend. The way of a request begins here.
//
// Lifetime: data belongs to the backend; nothing points into it when OnTraffic returns (reactor.L1, reactor.L2).
func (c *conn) OnTraffic(data []byte) {
	c.loop.assertOn()
	l := c.loop
	l.tally.reads++
	l.tally.in += int64(len(data))
	if c.sink != nil {
		c.moved()
		c.sink.Received(data)
		return
	}
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
			c.keep(c.serve(data, true))
			data = nil
		}
	}
	if c.away != nil {
		return
	}
	c.moved() // after a turn may have read the clock
	c.noteInput()
}

// moved notes that bytes have arrived, or were sent. For arriving bytes it is called after the turn that serves them.
// So an observer that sees the new time also sees the client's last command.
func (c *conn) moved() {
	if now := c.loop.now(); now != c.lastMoved.Load() {
		c.lastMoved.Store(now)
	}
}

// longArgument is the size from which an argument counts as long. The bytes that follow a long argument are parsed in
// place, because copying them costs more.
const longArgument = 4 << 10

// lacking returns how many of the arrived bytes are appended to the pending ones. While a long argument is awaited,
// only the bytes that the argument lacks are appended, otherwise all.
func (c *conn) lacking(arrived int) int {
	if c.awaitsLong() {
		if n := c.parser.Need() - (len(c.pending) - c.served); n > 0 {
			return min(n, arrived)
		}
	}
	return arrived
}

// awaitsLong reports whether a long argument has begun and is not complete.
func (c *conn) awaitsLong() bool {
	p := c.parser
	return p != nil && (p.Streaming() || p.Awaited() >= longArgument)
}

// servePending serves the pending bytes, unless the connection is held, or must replay a request first.
func (c *conn) servePending() {
	if c.isHeld() || c.replay || c.life == lifeClosed || c.served == len(c.pending) {
		return
	}
	if c.parser != nil && len(c.pending)-c.served < c.parser.Need() {
		return
	}
	rest := c.serve(c.pending[c.served:], false)
	if c.life == lifeClosed {
		return // close has returned the chunk
	}
	c.served = len(c.pending) - len(rest)
	c.drained()
}

// serve runs the complete requests of buf, batch by batch, and returns the bytes that have to wait. lent means that buf
// is the loop's read buffer; a batch may then be away together with the buffer.
func (c *conn) serve(buf []byte, lent bool) (rest []byte) {
	p := c.parser
	if p == nil {
		p = c.loop.parser
	}
	p.Use(&c.loop.scratch)
	c.setFlow(flowing)
	return c.serveRounds(p, buf, 1, lent)
}

// serveRounds is serve, starting with the given round. If a batch goes away it returns nothing, and bring continues.
func (c *conn) serveRounds(p *protocol.Parser, buf []byte, round int, lent bool) (rest []byte) {
	for ; ; round++ {
		p.Limits = c.limits()
		n, err := p.Parse(buf)
		if err != nil {
			p.Reset() // it may belong to the loop, and serve the next connection
			if c.malformed(err) {
				c.own(p)
				return buf
			}
			return nil
		}
		done := 0
		if len(p.Requests) > 0 {
			away := false
			if done, away = c.run(p.Requests, buf, len(buf)-n, lent); away {
				c.leave(p, buf, n, round)
				return nil
			}
		}
		if rest, over := c.afterRun(p, buf, n, done, round); over {
			return rest
		}
		buf = buf[n:]
	}
}

// afterRun ends a round, in which done requests of the parsed bytes of buf were run. over means that the other
// requests, and the bytes after them, have to wait.
func (c *conn) afterRun(p *protocol.Parser, buf []byte, parsed, done, round int) (rest []byte, over bool) {
	if len(p.Requests) > 0 {
		switch {
		case !c.isOpen():
			p.Reset() // an incomplete request after QUIT is dropped
			return nil, true
		case done < len(p.Requests):
			if done > 0 {
				buf = buf[p.Requests[done-1].End:]
			}
			p.Reset() // an incomplete request after them is parsed again
			c.own(p)
			return buf, true
		}
	}
	buf = buf[parsed:]
	if size := p.Awaited(); size > 0 && c.pastLimit(size) {
		c.beginExcess(buf[p.Need()-lineEnd-size:], size)
		p.Reset()
		c.own(p)
		return nil, true
	}
	if _, _, ok := p.Large(); ok {
		p = c.own(p)
		c.stream(p, buf)
		return nil, true
	}
	if !p.More() {
		c.own(p)
		return buf, true
	}
	if round == servedAtOnce {
		c.own(p)
		c.setFlow(flowMore)
		c.loop.later(c)
		return buf, true
	}
	return nil, false
}

// limits returns the present protocol limits of this client.
func (c *conn) limits() protocol.Limits {
	if c.limiter != nil {
		l := c.limiter.Limits()
		c.known = c.known || !l.Unauthenticated
		return l
	}
	return protocol.Limits{MaxBulk: int(c.loop.reactor.settings.MaxBulk.Get())}
}

// own gives p to the connection while p remembers a part of a request, otherwise to the loop (reactor.I3).
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

// run lets the handler serve one batch, and puts the batch's replies in their place. It returns how many requests were
// done. The requests' End counts in bytes, which may be nil. With mayLeave another loop may run the batch: away is then
// true, and bring gets the batch back later.
func (c *conn) run(requests []protocol.Request, bytes []byte, unread int, mayLeave bool) (done int, away bool) {
	l := c.loop
	if l.waiting.Load() {
		l.readMail(nil, 0) // earlier posts leave first
		if !c.isOpen() {
			return len(requests), false
		}
	}
	reply := c.out.open(&l.replies)
	reply.Chunks = c
	c.batch, c.out.replied = reply.Mark(), true
	b := &l.batch
	b.Session, b.Requests, b.Bytes, b.Reply, b.Unread = c.session, requests, bytes, reply, unread
	b.Done, b.Turn, b.Level, b.NowMs, b.Soon = 0, 0, 0, 0, false
	b.Ran, b.Timed = b.Ran[:0], l.reactor.settings.ReplyLatency.Get()
	if !mayLeave || !l.combines {
		l.handler.Serve(b)
	} else if c.offer(b) {
		return 0, true
	}
	return c.ran(l.frame), false
}

// ran handles a batch that has run. It returns how many requests were done.
func (c *conn) ran(f *frame) (done int) {
	l, b := c.loop, &f.batch
	if l.nowMs == 0 {
		l.nowMs = b.NowMs
	}
	done = b.Done
	invariant.That(done >= 0 && done <= len(b.Requests), "Done is %d of %d", done, len(b.Requests))
	if done < len(b.Requests) {
		c.setFlow(flowHeld)
		if b.Soon {
			c.flow = flowBusy
		}
	} else if b.Soon {
		c.unreplied = true
	}
	if len(b.Ran) > 0 {
		c.noteRan(b.Ran)
	}
	c.deliver(b.Turn, f)
	if l.reactor.brimful.Load() != 0 {
		l.slowDown()
	}
	return done
}

// deliver adds the replies of a batch that ran in turn to the output. Posts of earlier turns go before them, later ones
// after.
func (c *conn) deliver(turn uint64, f *frame) {
	c.loop.assertOn()
	l := c.loop
	full := c.out.tail.Full()
	before := c.out.bytes
	c.out.settle(&l.replies, c.batch)
	c.out.hold(l.reactor.options.Gate, wait{turn, f.batch.Level, f.batch.Level > 0}, before)
	if full { // a part of the reply is missing
		c.cut(protocol.Class(c.class.Load()))
		return
	}
	if len(f.mails) > 0 {
		l.handle(f.takeMails(), c, turn)
	}
	if l.waiting.Load() && c.life != lifeClosed {
		l.readMail(c, turn)
	}
	if c.life == lifeClosed {
		return
	}
	c.written()
}

// before inserts a post of an earlier turn before the batch's reply.
func (c *conn) before(m *mail) {
	tail := &c.out.tail
	// There is no reply, or it has left the tail, which may have later bytes now.
	if tail.B == nil || !c.out.replied || m.kind == mailReply && m.reply.Full() {
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
	c.out.holdAhead(c.loop.reactor.options.Gate, c.waitFor(m), n, n+tail.Since(c.batch))
}

// goOn continues work of the connection that no event of its socket announces.
func (c *conn) goOn() {
	c.inReady = false
	if c.life == lifeClosed || c.away != nil {
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
	}
	if c.flow == flowHeld && c.hungUp && c.life == lifeOpen {
		c.hangup() // its event came while there was more to serve, or while its batch was away
		if c.life == lifeClosed {
			return
		}
	}
	if c.isGone() && !c.waits() {
		c.part()
		return
	}
	if c.out.bytes > 0 && !c.out.blocked {
		c.markDirty()
	}
	if h, ok := c.loop.host.(reader); ok && c.readable && c.flow == flowing {
		h.readMore(c)
	}
}

// A reader is a host that reads a socket again when the connection asks for it.
type reader interface{ readMore(c *conn) }

// An opener is a host that gets sockets by mail.
type opener interface{ enter(c *conn) }

// malformed ends a connection after a protocol error. If the handler wants to handle the error later, the connection is
// held instead.
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
		c.out.hold(c.loop.reactor.options.Gate, wait{}, before) // after the held bytes
	}
	c.closeAfterOutput()
	return false
}
