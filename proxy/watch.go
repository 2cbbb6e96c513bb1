package proxy

import (
	"bytes"
	"cmp"

	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/proxy/route"
)

// WATCH and UNWATCH. The first WATCH takes the pin of tx.go, and later ones go to the same shard.

// watchKeys is WATCH.
func (s *session) watchKeys(pl *route.Plan, q *protocol.Request, raw []byte) bool {
	if s.tx != nil {
		s.fail(errWatchInMulti) // EXEC runs all the same, as at a server
		return true
	}
	if s.pin != nil && s.pinned != pl.Slot {
		s.fail(errCrossSlot)
		return true
	}
	if !s.wait() {
		return false
	}
	if s.pin == nil {
		s.barrier = true
		first := &watching{s: s, number: s.expect(), slot: pl.Slot, raw: bytes.Clone(raw), keys: s.keysOf(pl.Row, q.Args),
			since: s.w.now()}
		first.begin()
		return true
	}
	c := call{s: s, number: s.expect(), slot: int32(pl.Slot), fixed: true, to: (*plain)(s)}
	if s.w.source(pl.Slot) == "" {
		s.pin.push(c, raw)
		return true
	}
	raw = bytes.Clone(raw)
	s.lift(pl.Slot, s.keysOf(pl.Row, q.Args), func(err *protocol.Error) {
		if err != nil || s.pin == nil {
			s.answerOr(c.number, nil, cmp.Or(err, errSlotMoves))
			return
		}
		s.pin.push(c, raw)
	})
	return true
}

// A watching is the first WATCH of a pin. No key is watched before it. So it is sent again until proxy-timeout: if its
// slot moves, if the shard does not serve it now, or if the connection breaks.
type watching struct {
	s      *session
	number uint64
	slot   int
	raw    []byte
	keys   [][]byte
	since  int64 // when it came, ms of the worker's clock
	tries  int
}

func (t *watching) begin() {
	s := t.s
	if s.w.states != nil && s.w.states.held[t.slot] {
		t.again(errSlotHeld)
		return
	}
	if err := s.takePin(t.slot); err != nil {
		if s.w.isSilent(t.slot, 0) {
			s.answerOr(t.number, nil, err)
		} else {
			t.again(err)
		}
		return
	}
	u, c := s.pin, call{s: s, number: t.number, slot: int32(t.slot), fixed: true, to: t}
	if s.w.source(t.slot) == "" {
		u.push(c, t.raw)
		return
	}
	s.lift(t.slot, t.keys, func(err *protocol.Error) {
		switch {
		case s.pin != u:
			t.again(errSlotMoves)
		case err != nil:
			s.dropPin()
			s.answerOr(t.number, nil, err)
		default:
			u.push(c, t.raw)
		}
	})
}

// again sends the request later, or answers it with why it was not served.
func (t *watching) again(why *protocol.Error) {
	s, w := t.s, t.s.w
	if w.now()-t.since > w.p.settings.Timeout.Get() {
		s.answerOr(t.number, nil, why)
		return
	}
	w.p.count.retries.Add(1)
	pause := min(int64(pauseAgain)<<min(t.tries, 4), 200)
	t.tries++
	s.retries++
	w.after(pause, func() {
		s.retries--
		if s.closed {
			return
		}
		w.catchUp()
		t.begin()
		s.goOn()
	})
}

func (t *watching) take(u *upstream, _ *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	s := t.s
	if s.closed {
		return
	}
	if err == nil && refusal == scan.NotRefused {
		s.answer(t.number, p)
		return
	}
	mayServe := err == nil && mayMove(refusal) || err != nil && !u.denied
	if why := movedInMulti(refusal, err); why != nil {
		err = why
	} else {
		err = errorOf(p)
	}
	s.w.notice(u, p, refusal)
	if s.pin == u { // no key is watched on it
		s.dropPin()
	}
	if mayServe {
		t.again(err)
	} else {
		s.answerOr(t.number, nil, err)
	}
}

// unwatch is UNWATCH.
func (s *session) unwatch(pl *route.Plan, q *protocol.Request, raw []byte) bool {
	if s.tx != nil {
		return s.queue(pl, q, raw)
	}
	if !s.wait() {
		return false
	}
	s.watchLost = false
	s.unpin(unwatchRequest, (*protocol.Reply).OK)
	return true
}
