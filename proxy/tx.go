package proxy

import (
	"bytes"
	"cmp"

	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/proxy/route"
)

// Transactions (MULTI, WATCH, EXEC) and blocking commands run on their own connection: the pin.
//
//	MULTI           first key: the shard          it says OK        EXEC, DISCARD
//	 ──────▶ begun ────────────────────▶ placed ────────────▶ open ───────────────▶ over: the pin is given back
//	          ▲ WATCH has placed it already  │ ▲
//	                          the slot moves └─┘ sent again, to its new shard
//
// proxy.T1. A transaction's keys are of one slot. A request with another one is refused with CROSSSLOT, and EXEC with
// EXECABORT.
// proxy.T2. Requests without a key are kept until the shard is known, and answered +QUEUED.
// proxy.T3. A session changes between the shared connections and its pin only when it owes nothing. Otherwise two
// requests of one client could overtake each other on two connections.
// proxy.T4. When its client leaves, a pin with an open transaction, a watched key or a blocked command is closed.
// proxy.T5. Nothing of a transaction has run before EXEC has reached the shard. Until then it is sent again as a whole
// if its slot moves or the connection breaks. A watched key is lost then: EXEC answers as if it had changed.
// proxy.T6. Requests leave after the shard has answered MULTI with OK. If the user had no right to MULTI, they
// would run at once.
type transaction struct {
	placed   bool       // MULTI was sent on the pin
	open     bool       // and the shard has said OK
	broken   bool       // EXEC will fail
	writes   *route.Row // of the first request that may write, if there is a mirror
	watched  bool       // keys are watched on the pin
	mayWrite bool       // it has a request that may write
	any      bool       // and one that may write keys of any slot
	requests []step     // so far
	bytes    int        // of them
	ended    bool       // EXEC has come: exec is the number of its reply
	exec     uint64
	since    int64 // when it was first sent again, ms; 0: never
	pauses   int
	starts   int // how often it was sent again
}

// A step is a request of a transaction.
type step struct {
	row      *route.Row
	raw      []byte
	slot     int
	number   uint64 // of its reply
	answered bool
	lifted   bool     // its keys are on their way to the shard: it is sent when they are there
	byHash   bool     // it is EVALSHA
	keys     [][]byte // of a product whose slots may move
}

// stepCost is about how much memory a step needs in addition to its request.
const stepCost = 128

// transactionMost is how many bytes of a transaction are kept to send it again. A longer one is sent once.
const transactionMost = 1 << 20

var (
	multiRequest   = encode("MULTI")
	execRequest    = encode("EXEC")
	discardRequest = encode("DISCARD")
	unwatchRequest = encode("UNWATCH")
	replyQueued    = []byte("+QUEUED\r\n")
	replyNoReplies = []byte("*0\r\n")
	execAbort      = []byte("-EXECABORT ")
)

// multi is MULTI.
func (s *session) multi() bool {
	if s.tx != nil {
		s.fail(errNested)
		return true
	}
	s.tx = &transaction{watched: s.pin != nil || s.watchLost}
	s.sayOK()
	return true
}

// queue takes a request inside a transaction.
func (s *session) queue(pl *route.Plan, q *protocol.Request, raw []byte) bool {
	t := s.tx
	t.mayWrite = t.mayWrite || pl.Row.Write || pl.Row.MayReplicate
	t.any = t.any || mayChangeAny(pl.Row, pl.Slot)
	if s.w.p.mirror != nil && t.writes == nil && mirrored(pl.Row) {
		t.writes = pl.Row
	}
	switch {
	case pl.Class == route.All || pl.Class == route.Local && !mayQueue(pl.Special):
		s.refuse(errInMulti(pl.Row.Name))
		return true
	case pl.Class == route.Split && pl.Slot < 0, pl.Slot >= 0 && s.pinned >= 0 && s.pinned != pl.Slot:
		s.refuse(errCrossSlot)
		return true
	case t.bytes+len(raw)+stepCost*len(t.requests) > clientMost: // proxy.O5
		s.refuse(errLongTransaction)
		return true
	case pl.Slot < 0 && !t.placed && s.pin == nil:
		number := s.expect()
		t.add(raw, -1, number, pl.Row)
		t.requests[len(t.requests)-1].answered = true
		s.answer(number, replyQueued)
		return true
	}
	if t.broken && s.pin == nil { // EXEC will tell
		s.answer(s.expect(), replyQueued)
		return true
	}
	moving := s.w.source(pl.Slot) != ""
	if !t.placed || moving {
		if !s.wait() {
			return false
		}
		if pl.Slot >= 0 {
			s.pinned = pl.Slot
		}
		if !t.placed {
			if err := s.place(pl.Slot); err != nil {
				t.add(raw, pl.Slot, s.expect(), pl.Row)
				t.requests[len(t.requests)-1].keys = s.keysOf(pl.Row, q.Args)
				s.postponeTransaction(err)
				return true
			}
		}
	}
	if pl.Row.Script == route.ByHash && t.placed {
		shared := s.access.to(s.pin.at)
		u := shared[s.id%int64(len(shared))]
		if sc := s.w.scriptOf(raw); sc != nil && u.begins(sc) {
			s.bringAside(u, sc)
		}
	}
	t.add(raw, pl.Slot, s.expect(), pl.Row)
	i, starts := len(t.requests)-1, t.starts
	if s.w.states != nil {
		t.requests[i].keys = s.keysOf(pl.Row, q.Args)
	}
	if !moving {
		s.sendStep(i)
		return true
	}
	t.requests[i].lifted = true
	s.lift(pl.Slot, t.requests[i].keys, func(err *protocol.Error) {
		switch {
		case s.tx != t || t.starts != starts: // it is sent with the whole transaction
		case err != nil || s.pin == nil:
			s.failTransaction(cmp.Or(err, errSlotMoves))
		default:
			t.requests[i].lifted = false
			s.sendStep(i)
		}
	})
	return true
}

// confirm answers the requests without an answer. EXEC will say that a watched key has changed.
func (t *transaction) confirm(s *session) {
	for i := range t.requests {
		if r := &t.requests[i]; !r.answered {
			r.answered = true
			s.answer(r.number, replyQueued)
		}
	}
}

// slot is that of the transaction's keys; -1: it has none.
func (t *transaction) slot() int {
	slot := -1
	for i := range t.requests {
		slot = max(slot, t.requests[i].slot)
	}
	return slot
}

// add keeps a request.
func (t *transaction) add(raw []byte, slot int, number uint64, row *route.Row) {
	t.requests = append(t.requests, step{row: row, raw: bytes.Clone(raw), slot: slot, number: number,
		byHash: row.Script == route.ByHash})
	t.bytes += len(raw)
}

// place sends MULTI to the shard of a slot. The requests follow.
//
// Errors: there is no shard now.
func (s *session) place(slot int) *protocol.Error {
	if s.pin == nil {
		if err := s.takePin(slot); err != nil {
			return err
		}
	}
	s.tx.placed, s.tx.open = true, false
	for i := range s.tx.requests {
		if r := &s.tx.requests[i]; r.byHash {
			s.pin.bring(r.raw)
		}
	}
	if s.caching != nil {
		s.pin.push(call{slot: -1, to: ignored{}, fixed: true, patient: true}, s.caching)
		s.caching = nil
	}
	s.pin.push(call{slot: -1, to: &opened{s, s.tx}, fixed: true}, multiRequest)
	return nil
}

// An opened takes the reply to MULTI, and sends what has come since (proxy.T6).
type opened struct {
	s  *session
	of *transaction
}

func (o *opened) take(u *upstream, _ *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	s, t := o.s, o.of
	if s.closed || s.tx != t || !t.placed || s.pin != u {
		return
	}
	if err == nil && refusal == scan.NotRefused {
		if s.isAway() && !t.watched && t.bytes <= transactionMost { // settle has waited for MULTI alone (proxy.M1)
			s.startAgain(0)
			return
		}
		t.open = true
		for i := range t.requests {
			s.sendStep(i)
		}
		if t.ended {
			s.sendExec()
		}
		return
	}
	if s.sendTransactionAgain(u, p, refusal, err) {
		return
	}
	if err == nil {
		err = errorOf(p)
	}
	s.watchLost = false // EXEC fails in any case
	t.placed = false
	s.dropPin()
	s.failTransaction(movedInMulti(refusal, err))
}

// sendStep sends a request of the transaction on the pin, if that is inside MULTI. Otherwise opened does.
func (s *session) sendStep(i int) {
	r := &s.tx.requests[i]
	if !s.tx.open || r.lifted {
		return
	}
	s.pin.push(call{s: s, slot: int32(r.slot), fixed: true, to: &queued{s, s.tx, i}}, r.raw)
}

// A queued takes the reply to a request inside a transaction.
type queued struct {
	s  *session
	of *transaction
	i  int
}

func (q *queued) take(u *upstream, _ *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	s, t := q.s, q.of
	if s.closed || s.tx != t || !t.placed || s.pin != u {
		return // it was sent again since
	}
	r := &t.requests[q.i]
	if r.answered && err == nil && refusal == scan.NotRefused {
		return
	}
	if err != nil && t.ended { // EXEC may have run: its reply tells
		if !r.answered {
			r.answered = true
			s.answerOr(r.number, nil, err)
		}
		return
	}
	if s.sendTransactionAgain(u, p, refusal, err) {
		return
	}
	if err != nil || refusal != scan.NotRefused {
		t.broken = true
	}
	if !r.answered {
		r.answered = true
		s.answerOr(r.number, p, movedInMulti(refusal, err))
	}
}

// mayMove reports whether a transaction that a shard has refused so may run at another shard, or later.
func mayMove(refusal scan.Refusal) bool {
	switch refusal {
	case scan.Moved, scan.Ask, scan.TryAgain, scan.ClusterDown, scan.Loading, scan.ReadOnly, scan.PrimaryDown:
		return true
	}
	return false
}

// sendTransactionAgain starts again after a refusal or a broken connection (proxy.T5). It returns false if the client
// has to see that.
func (s *session) sendTransactionAgain(u *upstream, p []byte, refusal scan.Refusal, err *protocol.Error) bool {
	t, w := s.tx, s.w
	if err == nil && !mayMove(refusal) || t.watched || t.bytes > transactionMost || u != nil && u.denied {
		return false
	}
	now := w.now()
	if t.since == 0 {
		t.since = now
	}
	if now-t.since > w.p.settings.Timeout.Get() {
		return false
	}
	w.notice(u, p, refusal)
	pause := int64(0)
	if refusal != scan.Moved || t.pauses > 0 {
		pause = min(int64(pauseAgain)<<min(t.pauses, 4), 200)
	}
	t.pauses++
	w.p.count.retries.Add(1)
	s.startAgain(pause)
	return true
}

// notice tells the finder what a refusal says of the map. u and p are nil if there was no connection.
func (w *worker) notice(u *upstream, p []byte, refusal scan.Refusal) {
	switch {
	case refusal == scan.Moved:
		if slot, at, ok := target(errorOf(p), u.at); ok {
			w.p.finder.Moved(slot, at)
		}
	case refusal == scan.ClusterDown && u != nil:
		w.p.finder.Doubt(u.at)
	default:
		w.p.finder.Refresh()
	}
}

// startAgain takes a transaction from its pin, and sends it again after a pause.
func (s *session) startAgain(pause int64) {
	t := s.tx
	s.dropPin()
	t.placed = false
	for i := range t.requests {
		t.requests[i].lifted = false
	}
	t.starts++
	s.retries++
	s.w.after(pause, func() { s.restart(t) })
}

// restart sends a transaction again.
func (s *session) restart(t *transaction) {
	s.retries--
	defer s.goOn()
	if s.closed || s.tx != t {
		return
	}
	w, slot := s.w, t.slot()
	var keys [][]byte
	for i := range t.requests {
		keys = append(keys, t.requests[i].keys...)
	}
	s.pinned = slot
	refused := error(nil)
	w.catchUp() // no other request may come that has the loop look at the map
	u, err := s.upstream(slot)
	if err != nil {
		refused = err
	} else if w.states != nil && w.states.held[slot] {
		refused, err = errSlotHeld, errSlotHeld
	}
	switch {
	case refused != nil && s.sendTransactionAgain(nil, nil, scan.ClusterDown, nil):
	case refused != nil:
		s.failTransaction(err)
	case w.source(slot) != "" && len(keys) > 0:
		s.lift(slot, keys, func(err *protocol.Error) {
			switch {
			case s.tx != t:
			case err != nil:
				s.failTransaction(err)
			default:
				s.placeAgain(slot)
			}
		})
	default:
		s.pin = s.access.own(s, u.at)
		s.placeAgain(slot)
	}
}

// placeAgain sends the transaction to the shard of its slot, with EXEC if that has come.
func (s *session) placeAgain(slot int) {
	if s.pin == nil {
		u, err := s.upstream(slot)
		if err != nil {
			s.failTransaction(err)
			return
		}
		s.pin, s.pinned = s.access.own(s, u.at), slot
	}
	if err := s.place(slot); err != nil {
		s.failTransaction(err)
	} else if s.tx.ended {
		s.sendExec()
	}
}

// failTransaction answers what is owed of a transaction that cannot be placed.
func (s *session) failTransaction(err *protocol.Error) {
	t := s.tx
	t.broken = true
	if s.pin == nil {
		s.pinned = -1
	}
	for i := range t.requests {
		if r := &t.requests[i]; !r.answered {
			r.answered = true
			s.answerOr(r.number, nil, err)
		}
	}
	if t.ended {
		s.tx = nil
		s.answerOr(t.exec, nil, errExecAbort)
	}
}

// movedInMulti returns what a client reads in the place of a redirect inside a transaction.
func movedInMulti(refusal scan.Refusal, err *protocol.Error) *protocol.Error {
	if err == nil && (refusal == scan.Moved || refusal == scan.Ask) {
		return errSlotMoves
	}
	return err
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
	switch {
	case s.watchLost && !t.broken:
		s.endMulti(func(r *protocol.Reply) { r.NullArray() })
		return true
	case t.broken:
		s.endMulti(func(r *protocol.Reply) { r.Error(errExecAbort) })
		return true
	case !t.placed && len(t.requests) == 0 && s.pin == nil:
		s.tx = nil
		s.answer(s.expect(), replyNoReplies)
		return true
	}
	s.barrier = true
	t.ended, t.exec = true, s.expect()
	if !t.placed {
		if err := s.place(t.slot()); err != nil {
			s.postponeTransaction(err)
			return true
		}
	}
	s.sendExec()
	return true
}

// postponeTransaction has a transaction sent later whose slot has no server now, like postpone.
func (s *session) postponeTransaction(err *protocol.Error) {
	if s.w.isSilent(s.tx.slot(), uint64(s.id)) || !s.sendTransactionAgain(nil, nil, scan.ClusterDown, nil) {
		s.failTransaction(err)
	}
}

// sendExec sends EXEC, if the pin is inside MULTI. Otherwise opened does.
func (s *session) sendExec() {
	if !s.tx.open {
		return
	}
	s.pin.push(call{s: s, slot: -1, fixed: true, to: &executed{s, s.tx}}, execRequest)
}

// An executed takes the reply to EXEC.
type executed struct {
	s  *session
	of *transaction
}

func (e *executed) take(u *upstream, c *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	s := e.s
	if s.closed || s.tx != e.of || !s.tx.placed || s.pin != u {
		return
	}
	if err == nil && s.sendTransactionAgain(u, p, refusal, nil) {
		return
	}
	if m := s.w.p.mirror; m != nil && err == nil && refusal == scan.NotRefused {
		m.offerTransaction(u, s, s.tx, p)
	}
	if u.old && err == nil && refusal == scan.NotRefused {
		p = s.tx.inRESP3(u, p)
	}
	number := s.tx.exec
	s.tx = nil
	if refusal != scan.NotRefused && !bytes.HasPrefix(p, execAbort) {
		s.dropPin() // it may be inside MULTI still
	} else {
		s.releasePin()
	}
	s.answerOr(number, p, movedInMulti(refusal, err))
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

// unpin sends a last request on the pin, gives the pin back, and then answers the client.
func (s *session) unpin(request []byte, reply func(*protocol.Reply)) {
	if s.pin == nil {
		s.pinned = -1
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

func (p *unpinned) take(_ *upstream, c *call, _ []byte, refusal scan.Refusal, err *protocol.Error) {
	s := p.s
	if s.closed {
		return
	}
	if err != nil || refusal != scan.NotRefused {
		s.dropPin() // its state is not known
	} else {
		s.releasePin()
	}
	r := protocol.Reply{RESP3: s.access.id.resp3}
	p.reply(&r)
	s.answer(c.number, r.B)
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

// block passes a blocking command on to its own connection.
func (s *session) block(slot int, raw []byte) bool {
	if !s.wait() {
		return false
	}
	if s.pin == nil {
		if err := s.takePin(slot); err != nil {
			s.postpone(slot, raw, err)
			return true
		}
		s.unpinning = true
	} else if slot >= 0 && s.pinned != slot {
		s.fail(errBlockElsewhere)
		return true
	}
	s.beginBlock(slot, raw)
	s.pin.push(call{s: s, number: s.expect(), slot: int32(slot), row: s.row(), patient: true, to: (*unblocked)(s)}, raw)
	return true
}

// beginBlock notes that the current request blocks.
func (s *session) beginBlock(slot int, raw []byte) {
	s.barrier = true
	s.setBlocked(true)
	s.blocked = blockedCommand{bytes.Clone(raw), slot, s.row()}
}

// An unblocked takes the reply to a blocking command.
type unblocked session

func (b *unblocked) take(u *upstream, c *call, p []byte, _ scan.Refusal, err *protocol.Error) {
	s := (*session)(b)
	if s.closed {
		return
	}
	s.setBlocked(false)
	if s.isEnding {
		s.isEnding = false
		if err == nil && isNothing(p) && s.blocked.raw != nil { // it was ended, and had no data
			s.blockAgain(c.number)
			return
		}
	}
	if s.unpinning && s.pin == u {
		s.releasePin()
	}
	s.answerOr(c.number, p, err)
}

// isNothing reports whether p is the reply of a blocking command whose time is over.
func isNothing(p []byte) bool { return p[0] == '_' || len(p) > 1 && p[1] == '-' }

// blockAgain sends a blocked command again, after its slot has moved.
func (s *session) blockAgain(number uint64) {
	s.dropPin()
	b := s.blocked
	s.retries++
	s.w.after(0, func() {
		s.retries--
		defer s.goOn()
		if s.closed {
			return
		}
		if s.w.states != nil && s.w.states.held[b.slot] {
			s.w.after(pauseAgain, func() { s.blockAgain(number) })
			return
		}
		u, err := s.upstream(b.slot)
		if err != nil {
			s.answerOr(number, nil, err)
			return
		}
		s.pin, s.pinned, s.unpinning = s.access.own(s, u.at), b.slot, true
		s.setBlocked(true)
		s.pin.push(call{s: s, number: number, slot: int32(b.slot), row: b.row, patient: true, to: (*unblocked)(s)}, b.raw)
	})
}

// takePin gives the session its own connection to the shard of a slot.
//
// Errors: there is no shard now.
func (s *session) takePin(slot int) *protocol.Error {
	u, err := s.upstream(slot)
	if err != nil {
		return err
	}
	s.pin, s.pinned, s.unpinning = s.access.own(s, u.at), slot, false
	if s.isCaching {
		s.pin.push(call{to: ignored{}, slot: -1, fixed: true}, s.caching)
	}
	return nil
}

// dropPin closes the pin.
func (s *session) dropPin() {
	u := s.pin
	s.pin, s.pinned, s.unpinning = nil, -1, false
	if u != nil {
		u.close()
	}
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
	if s.unpinning || s.pin == nil {
		s.releasePin()
	} else { // keys are watched on it
		s.dropPin()
		s.watchLost = true
	}
	s.pin, s.pinned, s.unpinning = s.access.own(s, at), s.blocked.slot, true
	s.setBlocked(true)
	return s.pin
}

// lost tells that the session's own connection is down. Its calls have been answered.
func (s *session) lost(u *upstream, _ *protocol.Error) {
	if u.access.private == s && s.tracking != nil && !s.closed {
		s.lostTracking(u)
	}
	if s.pin != u {
		return
	}
	t := s.tx
	switch {
	case t != nil && t.placed && !t.watched && !t.ended && !t.broken && t.bytes <= transactionMost && !s.closed &&
		!u.denied:
		s.startAgain(0)
		return
	case t != nil:
		t.broken, t.placed = true, false // what was queued, or the watched key, is lost
	case !s.unpinning:
		s.watchLost = true
	}
	s.pin, s.pinned, s.unpinning = nil, -1, false
	s.setBlocked(false)
}

// setBlocked notes that a blocking command runs, or does not any more.
func (s *session) setBlocked(is bool) {
	if is == s.isBlocked {
		return
	}
	if s.isBlocked = is; is {
		s.countBlocked()
	} else if s.isCounted {
		s.isCounted = false
		s.w.p.count.blocked.Add(-1)
	}
}

// countBlocked counts a blocked client, once its request has a connection to leave on.
func (s *session) countBlocked() {
	if s.isBlocked && !s.isCounted && (s.pin == nil || s.pin.state == up) {
		s.isCounted = true
		s.w.p.count.blocked.Add(1)
	}
}
