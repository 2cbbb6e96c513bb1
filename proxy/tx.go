package proxy

import (
	"bytes"

	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/proxy/route"
)

// Transactions (MULTI, WATCH, EXEC) and blocking commands run on their own connection: the pin.
//
//	MULTI             first key: the shard         EXEC, DISCARD
//	 ──────▶ begun ─────────────────────▶ placed ─────────────────▶ over: the pin is given back
//	           ▲ WATCH has placed it already
//
// proxy.T1. A transaction's keys are of one slot. A request with another one is refused with CROSSSLOT, and EXEC with
// EXECABORT.
// proxy.T2. Requests without a key are kept until the shard is known, and answered +QUEUED.
// proxy.T3. A session changes between the shared connections and its pin only when it owes nothing. Otherwise two
// requests of one client could overtake each other on two connections.
// proxy.T4. When its client leaves, a pin with an open transaction, a watched key or a blocked command is closed.
type transaction struct {
	placed bool     // MULTI was sent on the pin
	broken bool     // EXEC will fail
	queued int      // requests
	early  [][]byte // requests without a key that wait for the shard
}

var (
	multiRequest   = encode("MULTI")
	execRequest    = encode("EXEC")
	discardRequest = encode("DISCARD")
	unwatchRequest = encode("UNWATCH")
	replyQueued    = []byte("+QUEUED\r\n")
	replyNoReplies = []byte("*0\r\n")
)

// multi is MULTI.
func (s *session) multi() bool {
	if s.tx != nil {
		s.fail(errNested)
		return true
	}
	s.tx = &transaction{}
	s.sayOK()
	return true
}

// queue takes a request inside a transaction.
func (s *session) queue(pl *route.Plan, raw []byte) bool {
	t := s.tx
	switch {
	case pl.Class == route.All || pl.Class == route.Local && !ofAnyShard(pl.Special):
		s.refuse(errInMulti(pl.Row.Name))
		return true
	case pl.Class == route.Split && pl.Slot < 0:
		s.refuse(errCrossSlot)
		return true
	case pl.Slot < 0 && !t.placed && s.pin == nil:
		t.queued++
		t.early = append(t.early, bytes.Clone(raw))
		s.answer(s.expect(), replyQueued)
		return true
	}
	if pl.Slot >= 0 && s.pin != nil && s.pinned != pl.Slot && s.pinned >= 0 {
		s.refuse(errCrossSlot)
		return true
	}
	if !t.placed {
		if !s.wait() {
			return false
		}
		if !s.place(pl.Slot) {
			return true
		}
	}
	if pl.Slot >= 0 {
		s.pinned = pl.Slot
	}
	t.queued++
	s.pin.push(call{s: s, number: s.expect(), slot: int32(pl.Slot), patient: true, fixed: true, to: (*queued)(s)}, raw)
	return true
}

// place sends MULTI, and what was kept, to the shard of a slot. It returns false if there is none: the request is
// answered.
func (s *session) place(slot int) bool {
	if s.pin == nil && !s.takePin(slot) {
		return false
	}
	t := s.tx
	t.placed = true
	s.pin.push(call{slot: -1, to: ignored{}, fixed: true}, multiRequest)
	for _, raw := range t.early {
		s.pin.push(call{slot: -1, to: (*early)(s), fixed: true}, raw)
	}
	t.early = nil
	return true
}

// A queued takes the reply to a request inside a transaction.
type queued session

func (q *queued) take(u *upstream, c *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	s := (*session)(q)
	if s.closed {
		return
	}
	if s.tx != nil && (err != nil || refusal != scan.NotRefused) {
		s.tx.broken = true
	}
	s.answerOr(c.number, p, movedInMulti(refusal, err))
}

// movedInMulti returns what a client reads in the place of a redirect inside a transaction.
func movedInMulti(refusal scan.Refusal, err *protocol.Error) *protocol.Error {
	if err == nil && (refusal == scan.Moved || refusal == scan.Ask) {
		return errSlotMoves
	}
	return err
}

// An early takes the reply to a request that was answered +QUEUED before it was sent.
type early session

func (e *early) take(_ *upstream, _ *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	if s := (*session)(e); s.tx != nil && (err != nil || refusal != scan.NotRefused) {
		s.tx.broken = true
	}
}

// answerOr answers with err if there is one, else with p.
func (s *session) answerOr(number uint64, p []byte, err *protocol.Error) {
	if err == nil {
		s.answer(number, p)
		return
	}
	r := protocol.Reply{RESP3: s.access.id.resp3}
	r.Error(err)
	s.answer(number, r.B)
}

// exec is EXEC.
func (s *session) exec() bool {
	t := s.tx
	if t == nil {
		s.fail(errNoMulti)
		return true
	}
	if !s.wait() { // a queued request may yet be refused
		return false
	}
	if s.watchLost && !t.broken {
		s.endMulti(func(r *protocol.Reply) { r.NullArray() })
		return true
	}
	if t.broken {
		s.endMulti(func(r *protocol.Reply) { r.Error(errExecAbort) })
		return true
	}
	if !t.placed {
		if len(t.early) == 0 && s.pin == nil {
			s.tx = nil
			s.answer(s.expect(), replyNoReplies)
			return true
		}
		if !s.place(-1) {
			s.tx = nil
			return true
		}
	}
	s.barrier = true
	s.pin.push(call{s: s, number: s.expect(), slot: -1, patient: true, fixed: true, to: (*executed)(s)}, execRequest)
	return true
}

// An executed takes the reply to EXEC.
type executed session

func (e *executed) take(u *upstream, c *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	s := (*session)(e)
	if s.closed {
		return
	}
	s.tx = nil
	s.releasePin()
	s.answerOr(c.number, p, movedInMulti(refusal, err))
}

// discard is DISCARD.
func (s *session) discard() bool {
	if s.tx == nil {
		s.fail(errNoDiscard)
		return true
	}
	if !s.wait() {
		return false
	}
	s.endMulti((*protocol.Reply).OK)
	return true
}

// endMulti ends a transaction that does not run. A watched key is forgotten with it.
func (s *session) endMulti(reply func(*protocol.Reply)) {
	request := unwatchRequest
	if s.tx.placed {
		request = discardRequest
	}
	s.tx, s.watchLost = nil, false
	s.unpin(request, reply)
}

// unpin gives the pin back after a last request on it, and answers the client then.
func (s *session) unpin(request []byte, reply func(*protocol.Reply)) {
	if s.pin == nil {
		s.say(reply)
		return
	}
	s.barrier, s.unpinning = true, true
	s.pin.push(call{s: s, number: s.expect(), to: &unpinned{s, reply}, slot: -1, fixed: true}, request)
}

// An unpinned takes the reply after which the pin is given back.
type unpinned struct {
	s     *session
	reply func(*protocol.Reply)
}

func (p *unpinned) take(_ *upstream, c *call, _ []byte, _ scan.Refusal, _ *protocol.Error) {
	s := p.s
	if s.closed {
		return
	}
	s.releasePin()
	r := protocol.Reply{RESP3: s.access.id.resp3}
	p.reply(&r)
	s.answer(c.number, r.B)
}

// watchKeys is WATCH.
func (s *session) watchKeys(pl *route.Plan, raw []byte) bool {
	if s.tx != nil {
		s.refuse(errWatchInMulti)
		return true
	}
	if s.pin != nil && s.pinned != pl.Slot {
		s.fail(errCrossSlot)
		return true
	}
	if !s.wait() {
		return false
	}
	if s.pin == nil && !s.takePin(pl.Slot) {
		return true
	}
	s.pinned = pl.Slot
	s.pin.push(call{s: s, number: s.expect(), slot: int32(pl.Slot), patient: true, fixed: true, to: (*plain)(s)}, raw)
	return true
}

// A plain takes a reply on a pin that the client gets as it is, unless it is a redirect.
type plain session

func (t *plain) take(u *upstream, c *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	s := (*session)(t)
	if s.closed {
		return
	}
	s.answerOr(c.number, p, movedInMulti(refusal, err))
}

// unwatch is UNWATCH.
func (s *session) unwatch(pl *route.Plan, raw []byte) bool {
	if s.tx != nil {
		return s.queue(pl, raw)
	}
	if !s.wait() {
		return false
	}
	s.watchLost = false
	s.unpin(unwatchRequest, (*protocol.Reply).OK)
	return true
}

// block passes a blocking command on to its own connection.
func (s *session) block(slot int, raw []byte) bool {
	if !s.wait() {
		return false
	}
	if s.pin == nil {
		if !s.takePin(slot) {
			return true
		}
		s.unpinning = true
	} else if slot >= 0 && s.pinned != slot {
		s.fail(errBlockElsewhere)
		return true
	}
	s.barrier = true
	s.isBlocked = true
	s.pin.push(call{s: s, number: s.expect(), slot: int32(slot), patient: true, to: (*unblocked)(s)}, raw)
	return true
}

// An unblocked takes the reply to a blocking command.
type unblocked session

func (b *unblocked) take(u *upstream, c *call, p []byte, _ scan.Refusal, err *protocol.Error) {
	s := (*session)(b)
	if s.closed {
		return
	}
	s.isBlocked = false
	if s.unpinning && s.pin == u {
		s.releasePin()
	}
	s.answerOr(c.number, p, err)
}

// takePin gives the session its own connection to the shard of a slot. It returns false if there is none: the
// request is answered.
func (s *session) takePin(slot int) bool {
	u, err := s.upstream(slot)
	if err != nil {
		s.refuse(err)
		return false
	}
	s.pin, s.pinned, s.unpinning = s.access.own(s, u.at), slot, false
	return true
}

// releasePin gives the pin back.
func (s *session) releasePin() {
	u := s.pin
	s.pin, s.pinned, s.unpinning = nil, -1, false
	if u != nil && u.state != down {
		u.access.giveBack(u)
	}
}

// repin replaces the pin of a blocked client by one to another server.
func (s *session) repin(at string) *upstream {
	s.releasePin()
	s.pin, s.unpinning = s.access.own(s, at), true
	return s.pin
}

// lost tells that the session's own connection is down. Its calls have been answered.
func (s *session) lost(u *upstream, _ *protocol.Error) {
	if s.pin != u {
		return
	}
	switch {
	case s.tx != nil:
		s.tx.broken = true // what was queued, or the watched key, is lost
	case !s.unpinning:
		s.watchLost = true
	}
	s.pin, s.pinned, s.unpinning, s.isBlocked = nil, -1, false, false
}
