package proxy

import (
	"bytes"
	"math"
	"strings"

	"spindle/internal/invariant"
	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/reactor"
)

// An upstream is one connection to a server, on one loop. Many sessions share it, or one has it for itself.
//
//	        Dial            Up               accepted      Down: calls that may have run fail, others are sent again
//	idle ────────▶ opening ────▶ greeting ───────────▶ up ────────▶ down
//	                  │ refused:     │ AUTH or SELECT is refused: all calls fail
//	                  │              └───────────────────────────▶ down
//	                  │ all calls are sent again, or fail
//	                  └──────────────────────────────────────────▶ down
//
// proxy.U1. Replies come in the order of calls. Each belongs to the oldest call.
// proxy.U2. A reply that no call asked for, one that is no RESP, and one that is too long end the connection. The calls
// on it fail; none gets bytes that belong to another.
// proxy.U3. kept holds the bytes of the calls, so that a call which has not run can be sent elsewhere (proxy.P3). A
// call may have run once the kernel has taken a byte of it.
// proxy.U4. No call leaves before the server has accepted the connection's user and database. It would run as the
// default user, or in database 0. A connection without either skips the state greeting.
type upstream struct {
	w      *worker
	access *access
	at     string // the server's address
	d      reactor.Direct
	state  upstreamState
	scan   scan.Scanner
	calls  fifo[call]

	kept    []byte // bytes of the calls that are not answered, the short ones
	head    int    // kept[:head] is of answered calls
	sent    uint64 // bytes given to the connection, in its whole life
	part    []byte // a reply of which more must come
	passing bool   // that reply is passed on as it comes
	passed  int64  // bytes of that reply so far

	owner    *session   // that has it for itself; nil: shared
	hears    bool       // pushes go to owner
	tracks   bool       // CLIENT TRACKING is on
	own      bool       // it is of one session at a time
	unblocks bool       // CLIENT UNBLOCK was sent for it: it may yet end a later command
	clientID int64      // the connection's ID at the server; 0: not known
	answers  uint64     // calls that are over
	heardAt  int64      // when bytes last came, ns of the worker's clock; later by what forgive adds
	cutting  error      // why we close it
	waiting  []*session // held because it is full
	slow     *session   // that does not read: nothing is read from the connection meanwhile (proxy.O4)
	pausedAt int64      // since when, ns of the worker's clock
	goneAt   int64      // since when its blocked command is forsaken, ns of the worker's clock; 0: it is not
	long     int        // bytes of the calls that are not in kept
	figure   *shardFigure
	answered bool                 // the server has answered a call
	retiring bool                 // it is closed when its calls are answered
	old      bool                 // it has refused HELLO 3: replies to RESP3 clients get their form here (form.go)
	scripts  map[*script]struct{} // that the server got on it (proxy.L1)

	proofs int    // replies to AUTH and SELECT that are still to come (proxy.U4)
	greets uint64 // bytes of the greeting, with which the connection begins
	denied bool   // the server has refused AUTH or SELECT: no call is sent again
}

type upstreamState uint8

const (
	opening upstreamState = iota
	greeting
	up
	down
)

const (
	callsMost   = 8192      // calls that may wait on one connection
	bytesMost   = 4 << 20   // bytes of requests that may wait on it
	longMost    = 64 << 20  // the same, of long ones that the shard has not answered
	requestLong = 16 << 10  // a request longer than this has its own memory
	replyMost   = 1 << 30   // bytes of a reply that is kept before it is passed on
	keptIdle    = 256 << 10 // room that an idle connection keeps
)

// A call is a request on its way to a server.
type call struct {
	s       *session // whose owed reply it gives; nil: none's
	number  uint64   // of that reply
	to      taker    // takes the reply instead; nil: the session gets its bytes
	size    int      // bytes of the request in kept
	long    []byte   // the request, if it is not in kept
	start   uint64   // where it begins in the connection's bytes
	since   int64    // when it was first sent, ms of the worker's clock
	at      int64    // when it was sent, ns of the worker's clock
	row     int32    // number of the command's row, plus 1; 0: none
	slot    int32    // -1: none
	tries   uint8
	fixed   bool // it is for this connection: never sent elsewhere
	patient bool // it may block: it has no deadline while its server answers others, and serves its slot
	byHash  bool // it is EVALSHA
}

// A taker takes the reply of a call that is not simply passed on.
type taker interface {
	// take gets the whole reply, which is lent, or the reason why there is none. refusal says what kind of error it is.
	take(u *upstream, c *call, p []byte, refusal scan.Refusal, err *protocol.Error)
}

// push sends a request.
func (u *upstream) push(c call, request []byte) {
	invariant.That(u.state != down, "proxy: a call on a connection that is down")
	if c.byHash {
		u.bring(request)
	}
	if c.since == 0 {
		c.since = u.w.now()
	}
	c.start, c.at = u.sent, u.w.clock
	u.sent += uint64(len(request))
	if len(request) > requestLong {
		if c.long == nil {
			c.long = bytes.Clone(request)
		}
		u.long += len(c.long)
		if u.state == up {
			u.d.Share(c.long)
		}
	} else {
		c.size, c.long = len(request), nil
		if u.state == up {
			u.d.Append(request)
		}
		u.kept = append(u.kept, request...)
	}
	u.calls.push(c)
	u.w.watch()
}

// isFull reports whether the connection takes no more calls for now.
func (u *upstream) isFull() bool {
	return u.calls.n >= callsMost || len(u.kept)-u.head > bytesMost || u.long > longMost ||
		u.state == up && u.d.Buffered() > bytesMost
}

// Up implements reactor.Sink.
func (u *upstream) Up(d reactor.Direct) {
	if u.state == down {
		d.Close(false)
		return
	}
	u.d, u.state = d, greeting
	u.send(0, u.greets)
	if b := u.w.breaker(u.at); !b.silent {
		b.closed()
	}
	if u.proofs == 0 {
		u.accept()
	}
}

// accept sends the calls that have waited for the greeting.
func (u *upstream) accept() {
	u.state = up
	u.send(u.greets, math.MaxUint64)
	if u.owner != nil {
		u.owner.countBlocked()
	}
}

// send sends the calls that begin at byte from or later, and before byte to.
func (u *upstream) send(from, to uint64) {
	at := u.head
	for i := range u.calls.n {
		c := u.calls.at(i)
		is := c.start >= from && c.start < to
		switch {
		case c.long == nil:
			if is {
				u.d.Append(u.kept[at : at+c.size])
			}
			at += c.size
		case is:
			u.d.Share(c.long)
		}
	}
}

// A proof takes the reply to AUTH or SELECT of a greeting (proxy.U4).
type proof struct{}

func (proof) take(u *upstream, _ *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	switch {
	case err != nil: // the connection is down
	case refusal == scan.NotRefused:
		if u.proofs--; u.proofs == 0 {
			u.accept()
		}
	default:
		err := errorOf(p)
		u.denied = !isCrowded(err)
		u.end(err)
	}
}

// isCrowded reports whether a server has refused a connection because it has too many clients.
func isCrowded(err *protocol.Error) bool { return strings.HasPrefix(err.Text, "max number of clients") }

// Received implements reactor.Sink.
func (u *upstream) Received(p []byte) {
	if u.state == down {
		return
	}
	u.w.readClock()
	u.heardAt = u.w.clock
	for len(p) > 0 {
		n, complete, err := u.scan.Scan(p)
		if err != nil {
			u.cut(errNoReply(u.at, err))
			return
		}
		if !complete {
			u.keepPart(p[:n])
			return
		}
		u.received(p[:n])
		if u.state == down {
			return
		}
		p = p[n:]
	}
	if u.calls.n == 0 {
		u.rest()
	}
	if u.state == down {
		return
	}
	if len(u.waiting) > 0 && !u.isFull() {
		waiting := u.waiting
		u.waiting = nil
		for _, s := range waiting {
			s.goOn()
		}
	}
}

// received takes the last bytes of a reply.
func (u *upstream) received(p []byte) {
	if u.scan.Kind == '|' { // it belongs to the reply after it
		u.keepPart(p)
		return
	}
	if u.scan.Kind == '>' {
		u.push3(u.joined(p))
		return
	}
	if u.calls.n == 0 {
		u.cut(errUnasked(u.at))
		return
	}
	if u.slow != nil { // the rest of the reply was on its way before the pause
		u.readOn()
	}
	c := u.calls.at(0)
	u.measure(c)
	if !u.answered {
		u.answered = true
		u.w.breaker(u.at).closed()
	}
	if u.passing {
		u.passing = false
		if m := u.w.p.mirror; m != nil && u.scan.Refusal == scan.NotRefused {
			m.offer(u, c, nil)
		}
		if s := c.s; !s.closed {
			if len(s.again) > 0 {
				defer u.w.failAll(s.overtaken(u, c))
			}
			u.drop()
			s.answer(s.first, p)
			return
		}
		u.drop()
		return
	}
	if u.part != nil {
		p = u.joined(p)
	}
	if refusal := u.scan.Refusal; refusal > scan.OtherError && !c.fixed && u.w.refused(u, c, p, refusal) {
		return
	}
	if m := u.w.p.mirror; m != nil && u.scan.Refusal == scan.NotRefused {
		m.offer(u, c, p)
	}
	if u.old && c.row != 0 && u.scan.Refusal == scan.NotRefused {
		p = u.inRESP3(c, p)
	}
	if s := c.s; s != nil && len(s.again) > 0 {
		if late := s.overtaken(u, c); late != nil {
			defer u.w.failAll(late)
		}
	}
	if c.to != nil {
		taken := u.drop()
		taken.to.take(u, &taken, p, u.scan.Refusal, nil)
		return
	}
	s, number := c.s, c.number
	u.drop()
	if s != nil {
		s.answer(number, p)
	}
}

// measure counts a call that is answered.
func (u *upstream) measure(c *call) {
	if c.row == 0 {
		return
	}
	if c.s != nil && !c.patient && u.scan.Refusal <= scan.OtherError {
		u.watchSlowness(c)
	}
	took, failed := u.w.clock-c.at, u.scan.Refusal != scan.NotRefused
	u.figure.add(took, failed)
	u.w.figures.row(int(c.row)).add(took, failed)
}

// joined returns a whole reply, of which p is the end.
func (u *upstream) joined(p []byte) []byte {
	if u.part == nil {
		return p
	}
	whole := append(u.part, p...)
	u.part, u.passed = nil, 0
	return whole
}

// keepPart takes bytes of a reply that is not complete.
func (u *upstream) keepPart(p []byte) {
	if u.calls.n == 0 && u.scan.Kind != '>' {
		u.cut(errUnasked(u.at))
		return
	}
	if u.passing {
		s := u.calls.at(0).s
		switch {
		case !s.closed:
			s.begin(s.first, p)
			u.heed(s)
		case u.retiring && u.isOnlyOf(s):
			u.end(errClosed)
		}
		return
	}
	begun := p // a first part is not copied if it is passed on
	if u.part != nil {
		u.part = append(u.part, p...)
		begun = u.part
	}
	if u.scan.Kind != '>' && u.scan.Kind != '-' && u.scan.Kind != '|' {
		c := u.calls.at(0)
		if s := c.s; c.to == nil && s != nil && (!u.old || u.isPlain(c, begun)) && s.begin(c.number, begun) {
			if u.state == down { // s was closed for what it leaves unread, as the last one of its access
				return
			}
			u.part, u.passing = nil, true
			u.heed(s)
			return
		}
	}
	if u.part == nil {
		u.part = bytes.Clone(p)
	}
	if len(u.part) > replyMost {
		u.cut(errTooLong(u.at))
	}
}

// drop removes the oldest call, and forgets its bytes. It is answered.
func (u *upstream) drop() call {
	c := u.calls.pop()
	if u.w.p.cache.isOn() {
		u.w.p.cache.wrote(u.w, &c)
	}
	u.answers++
	u.long -= len(c.long)
	u.head += c.size
	if u.head == len(u.kept) {
		u.head = 0
		if u.kept = u.kept[:0]; cap(u.kept) > keptIdle {
			u.kept = nil
		}
	} else if u.head > keptIdle && u.head > len(u.kept)/2 {
		n := copy(u.kept, u.kept[u.head:])
		u.kept, u.head = u.kept[:n], 0
	}
	return c
}

// request returns the bytes of the oldest call. They are lent until the next push or drop.
func (u *upstream) request() []byte {
	if c := u.calls.at(0); c.long != nil {
		return c.long
	} else {
		return u.kept[u.head : u.head+c.size]
	}
}

// cut closes the connection, for a reason that its calls get.
func (u *upstream) cut(err *protocol.Error) {
	if u.state == down {
		return
	}
	u.w.p.count.cut.Add(1)
	u.w.p.log.Warning("Connection to %s is closed: %s", u.at, err.Text)
	u.end(err)
}

// close closes a connection that has no calls.
func (u *upstream) close() {
	if u.state != down {
		u.end(errClosed)
	}
}

func (u *upstream) end(err *protocol.Error) {
	written := u.written()
	if u.state == up || u.state == greeting {
		u.d.Abandon() // what counts as not sent must not leave any more
		u.d.Close(false)
	}
	u.state = down
	u.over(err, written)
}

// written returns how many bytes of requests the kernel has taken.
func (u *upstream) written() uint64 {
	if u.state != up {
		return 0
	}
	return u.sent - uint64(u.d.Buffered())
}

// Down implements reactor.Sink.
func (u *upstream) Down(err error) {
	if u.state == down {
		return
	}
	written := u.written()
	was := u.state
	u.state = down
	if was == opening {
		u.w.breaker(u.at).failed(u.w.now())
		u.over(errUnreachable(u.at, err), 0)
		return
	}
	u.over(errBroke(u.at, err), written)
}

// over ends what was on the connection: written is how many bytes may have reached the server.
func (u *upstream) over(err *protocol.Error, written uint64) {
	u.access.forget(u)
	u.unpause()
	for u.calls.n > 0 {
		c := u.calls.at(0)
		switch {
		case u.passing:
			u.passing = false
			if !c.s.closed {
				c.s.conn.Close(true) // it has a part of the reply, and gets what has come of it
				c.s.closed = true
			}
			u.drop()
		case c.start >= written && !c.fixed && !u.denied && u.w.again(u, c, err):
		default:
			taken := u.drop()
			text := err
			if taken.start < written {
				text = errMayHaveRun(err)
			}
			u.w.failCall(u, &taken, text)
		}
	}
	u.part = nil
	if u.owner != nil {
		u.owner.lost(u, err)
	}
	if u.access.listens {
		u.w.p.cache.forget(func(e *hotEntry) bool { return e.from == u })
	}
	for _, s := range u.waiting {
		s.goOn()
	}
	u.waiting = nil
}

// rest notes that the connection has no calls.
func (u *upstream) rest() {
	if u.calls.trim(64); u.retiring {
		u.close()
	}
}

// push3 takes a RESP3 push.
func (u *upstream) push3(p []byte) {
	if u.hears && u.owner != nil && u.owner.hearShard(p) || u.access.listens && u.w.p.cache.hear(u, p) {
		return
	}
	u.cut(errUnasked(u.at))
}
