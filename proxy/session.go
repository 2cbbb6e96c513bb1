package proxy

import (
	"spindle/internal/invariant"
	"spindle/protocol"
	"spindle/proxy/route"
	"spindle/reactor"
)

// A session is one client. Its loop alone touches it.
//
//	requests ─▶ Serve ─▶ owed: a reply a request, in order ─▶ the client
//	              │               ▲
//	              ▼               │ answer(number, bytes)
//	           calls to shards ───┘
//
// proxy.O1. Replies leave in the order of the requests. The first owed reply goes to the client as its bytes come.
// Later ones wait in owed.
// proxy.O2. A session owes at most owedMost replies, and takes no request while the client leaves outputMost bytes
// unread. Then it is held: the reactor stops reading from the client.
// proxy.O3. Requests that change where later requests run are barriers. A session serves nothing after a barrier until
// it is answered, and begins one only when it owes nothing.
type session struct {
	w      *worker
	conn   reactor.Direct
	access *access // the shards' connections of its user
	id     int64

	owed  fifo[owed]
	first uint64          // number of the first owed reply
	kept  int             // bytes of owed replies that wait for earlier ones
	reply *protocol.Reply // while Serve runs: where replies go; else nil

	held    bool      // Serve has left requests undone
	whole   bool      // it continues when nothing is owed, rather than when half is
	barrier bool      // proxy.O3
	retries int       // of its calls that wait to be sent again, and of other steps before the next request
	again   []*resend // calls that wait to be sent again, in the order of their requests (again.go)
	epoch   uint64    // of the worker, when the first owed request came
	closed  bool
	ruled   bool // the current request has passed the rules (proxy.R2)
	quit    bool // the connection closes after the replies owed

	name                []byte     // CLIENT SETNAME
	last                *route.Row // of the last request
	libName, libVersion string     // CLIENT SETINFO
	silence             silence
	created             int64        // Unix ms
	tx                  *transaction // nil: none is open

	pin        *upstream      // its own connection, for WATCH, MULTI and blocking commands; usually nil
	pinned     int            // the slot that pin is for; -1: no key was named yet
	unpinning  bool           // pin is given back when it has answered
	isBlocked  bool           // a blocking command runs on pin
	isCounted  bool           // among the blocked clients of INFO
	blocked    blockedCommand // that runs on pin
	isEnding   bool           // the blocked command is ended, to be sent again elsewhere
	heldAt     int64          // since when a request waits for its slot, ms; 0: none does
	permission permission     // for the current request
	informed   *access        // whose user may have INFO; nil: no shard was asked
	awaits     int64          // since when a request waits for libraries, ms; 0: none does
	watchLost  bool           // pin broke while a key was watched: EXEC answers as if the key had changed
	tracking   *tracking      // CLIENT TRACKING; nil: off
	caching    []byte         // CLIENT CACHING, which goes before the next request; usually nil
	isCaching  bool           // that request is served now
	replicas   *replicaWait   // WAIT runs
	sub        *subscriptions
	joins      *joinings // the SUBSCRIBE under way; nil: none is
	heard      [][]byte  // messages that wait for the end of a reply (proxy.B2)
	heardBytes int
	slow       *upstream // is paused until the client reads (proxy.O4); usually nil
}

// A blockedCommand is a blocking command, to be sent again if its slot moves.
type blockedCommand struct {
	raw  []byte
	slot int
	row  int32
}

// silence is CLIENT REPLY.
type silence uint8

const (
	speaking silence = iota
	skipNext         // CLIENT REPLY SKIP: the next reply is left out
	silent           // CLIENT REPLY OFF
)

// An owed is a reply that the client has yet to get.
type owed struct {
	done   bool
	begun  bool  // a part of it has gone to the client
	mute   bool  // it is left out
	script bool  // it may write keys that it does not name
	slot   int16 // of its calls: proxy.Q1
	waits  int16 // how many of its calls are in again
	at     int64 // when the request came, ns of the worker's clock
	bytes  []byte
}

const (
	owedMost   = 4096     // replies that a session may owe
	outputMost = 1 << 20  // bytes that its client may leave unread
	keptMost   = 16 << 20 // bytes of replies that may wait for earlier ones
	bufferKeep = 16 << 10 // a reply buffer that has grown past this is not used again
)

// expect notes that one more reply is owed, and returns its number.
func (s *session) expect() uint64 {
	o := s.owed.push(owed{at: s.w.clock, slot: noSlot})
	if s.silence != speaking {
		o.mute = true
		if s.silence == skipNext {
			s.silence = speaking
		}
	}
	return s.first + uint64(s.owed.n) - 1
}

// expectPush notes that a confirmation is owed. CLIENT REPLY does not concern it, but SKIP ends with it.
func (s *session) expectPush() uint64 {
	if s.silence == skipNext {
		s.silence = speaking
	}
	s.owed.push(owed{slot: noSlot})
	return s.first + uint64(s.owed.n) - 1
}

// answer gives the owed reply of that number. p is lent.
func (s *session) answer(number uint64, p []byte) {
	if s.closed {
		return
	}
	if number != s.first {
		o := s.owed.at(int(number - s.first))
		invariant.That(!o.done, "proxy.O1: reply %d is given twice", number)
		o.done = true
		slot := o.slot
		if !o.mute {
			o.bytes = append(s.w.takeBuffer(), p...)
			s.kept += len(p)
			s.bound()
		}
		s.sendNext(slot)
		return
	}
	o := s.owed.pop()
	s.w.figures.whole.Add(s.w.clock-o.at, 1)
	if !o.mute {
		s.emit(p)
	}
	for _, m := range s.heard {
		s.emit(m)
	}
	s.heard, s.heardBytes = nil, 0
	if s.conn.Buffered() > outputMost {
		s.bound()
	}
	s.first++
	s.sendNext(o.slot)
	s.drain()
}

// begin gives a part of the owed reply of that number, if it is the first. It returns false if it is not: then nothing
// is given.
func (s *session) begin(number uint64, p []byte) bool {
	if s.closed {
		return true
	}
	if number != s.first || s.reply != nil {
		return false
	}
	o := s.owed.at(0)
	o.begun = true
	if !o.mute {
		s.emit(p)
	}
	return true
}

// drain sends the replies that are complete, and continues if the session was held.
func (s *session) drain() {
	for s.owed.n > 0 && s.owed.at(0).done {
		o := s.owed.pop()
		s.w.figures.whole.Add(s.w.clock-o.at, 1)
		if !o.mute {
			s.emit(o.bytes)
			s.kept -= len(o.bytes)
			s.w.giveBuffer(o.bytes)
		}
		s.first++
	}
	if s.owed.n == 0 {
		s.owed.trim(8)
		s.barrier = false
		if s.reply == nil {
			s.conn.Owe(false)
		}
		if s.quit {
			s.conn.Close(true)
		}
	}
	s.goOn()
}

// emit sends bytes to the client, in their place.
func (s *session) emit(p []byte) {
	if s.reply != nil {
		s.reply.Raw(p)
		return
	}
	s.conn.Append(p)
}

// goOn has a held session served again, if what held it is over.
func (s *session) goOn() {
	if !s.held || s.reply != nil {
		return
	}
	if s.retries > 0 || s.whole && s.owed.n > 0 || s.owed.n > owedMost/2 || s.kept > keptMost/2 ||
		s.conn.Buffered() > outputMost/2 {
		return
	}
	s.held, s.whole = false, false
	s.conn.Resume()
}

// Account implements protocol.Accountant: the client has read some output.
func (s *session) Account(int, int) {
	s.proceed()
	if s.held {
		s.goOn()
	}
}

// say answers a request at once, with what write appends.
func (s *session) say(write func(r *protocol.Reply)) {
	r := protocol.Reply{RESP3: s.access.id.resp3}
	write(&r)
	s.answer(s.expect(), r.B)
}

// fail answers a request with an error.
func (s *session) fail(err error) {
	s.say(func(r *protocol.Reply) { r.Error(err) })
}

// sayOK answers a request with +OK.
func (s *session) sayOK() { s.answer(s.expect(), replyOK) }

var replyOK = []byte("+OK\r\n")
