package proxy

import (
	"bytes"
	"slices"

	"spindle/proxy/route"
	"spindle/reactor"
)

// The order of a client's calls, when a shard refuses one and takes the next.
//
// proxy.Q1. Calls of one client on one slot run in the order of their requests. A call that goes to all shards, and one
// that is cut by slot, count for every slot. Calls of different slots have no order.
// proxy.Q2. A refused call waits. It is sent again once all earlier calls of its client on its slot are answered, and
// each later one is answered or waits too.
// proxy.Q3. If a later call of the client has run meanwhile on the same key, it has overtaken. Then the refused call is
// not sent again: its client reads why it was refused. Two calls that only read may overtake each other.
const (
	noSlot   = -1
	allSlots = -2
)

// expectOf is expect for the current request, which is a call of a slot.
func (s *session) expectOf(slot int) uint64 {
	number := s.expect()
	o := s.owed.at(s.owed.n - 1)
	o.slot, o.script = int16(slot), s.w.plan.Row.Script != route.NoScript
	return number
}

// meets reports whether calls of two slots have an order.
func meets(a, b int16) bool {
	return a == b && a != noSlot || a == allSlots && b != noSlot || b == allSlots && a != noSlot
}

// slotOf is the slot of a waiting call, for meets.
func (r *resend) slot() int16 {
	return slotOf(&r.call)
}

func slotOf(c *call) int16 {
	if c.slot < 0 {
		switch c.to.(type) {
		case *share, *alone:
			return allSlots
		}
	}
	return int16(c.slot)
}

// owes returns the owed reply of a call; nil: it is answered.
func (s *session) owes(number uint64) *owed {
	if number < s.first || number >= s.first+uint64(s.owed.n) {
		return nil
	}
	return s.owed.at(int(number - s.first))
}

// enqueue and dequeue keep the calls that wait.
func (s *session) enqueue(r *resend) {
	s.retries++
	at := len(s.again)
	for at > 0 && s.again[at-1].call.number > r.call.number {
		at--
	}
	s.again = slices.Insert(s.again, at, r)
	if o := s.owes(r.call.number); o != nil {
		o.waits++
	}
	for _, earlier := range slices.Clone(s.again[:at]) { // it may have waited for this call
		if earlier.due && meets(earlier.slot(), r.slot()) {
			s.send(earlier)
		}
	}
}

func (s *session) dequeue(r *resend) {
	s.retries--
	r.over = true
	if i := slices.Index(s.again, r); i >= 0 {
		s.again = slices.Delete(s.again, i, i+1)
	}
	if o := s.owes(r.call.number); o != nil {
		o.waits--
	}
}

// isBehind reports whether an earlier call on its slot waits.
func (s *session) isBehind(c *call) bool {
	for _, r := range s.again {
		if r.call.number < c.number && meets(r.slot(), slotOf(c)) {
			return true
		}
	}
	return false
}

// isNext reports whether no other call of the session has to be answered before r is sent again (proxy.Q2).
func (s *session) isNext(r *resend) bool {
	slot := r.slot()
	for i := range s.owed.n {
		o, number := s.owed.at(i), s.first+uint64(i)
		if o.done || number == r.call.number || !meets(o.slot, slot) {
			continue
		}
		if number < r.call.number || o.waits == 0 {
			return false
		}
	}
	return true
}

// send sends a waiting call again if it is the next one, but not inside the reply that has come.
func (s *session) send(r *resend) {
	if !s.isNext(r) {
		return
	}
	reactor.Run(s.w.loop, func() {
		if !r.over && s.isNext(r) {
			s.w.sendAgain(r)
		}
	})
}

// sendNext sends the call again that has waited for a reply of a slot. Its pause is over with that.
func (s *session) sendNext(slot int16) {
	if len(s.again) == 0 || slot == noSlot {
		return
	}
	for _, r := range slices.Clone(s.again) {
		if r.over || !meets(r.slot(), slot) {
			continue
		}
		s.send(r)
		if slot != allSlots {
			return
		}
	}
}

// overtaken returns the waiting calls that the oldest call of u has overtaken (proxy.Q3). They are taken from the
// session.
func (s *session) overtaken(u *upstream, c *call) (late []*resend) {
	w := s.w
	var keys [][]byte
	known := false
	for _, r := range slices.Clone(s.again) {
		if r.call.number >= c.number || w.reads(c) && w.reads(&r.call) {
			continue
		}
		if !meets(r.slot(), slotOf(c)) {
			continue
		}
		if r.call.slot >= 0 && c.slot >= 0 {
			if !known {
				keys, known = w.keysIn(u.request()), true
			}
			if !shareKey(keys, w.keysIn(r.request)) {
				continue
			}
		}
		s.dequeue(r)
		late = append(late, r)
	}
	return late
}

// reads reports whether a call changes nothing.
func (w *worker) reads(c *call) bool {
	rows := w.p.table().Rows()
	if c.row == 0 || int(c.row) > len(rows) {
		return false
	}
	return rows[c.row-1].Readonly
}

func shareKey(a, b [][]byte) bool {
	for _, x := range a {
		for _, y := range b {
			if bytes.Equal(x, y) {
				return true
			}
		}
	}
	return false
}

// failAll gives calls that were overtaken to their client as refused.
func (w *worker) failAll(late []*resend) {
	for _, r := range late {
		w.failCall(nil, &r.call, r.why)
		r.call.s.goOn()
	}
}
