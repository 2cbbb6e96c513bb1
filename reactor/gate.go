package reactor

import (
	"sync"

	"spindle/protocol"
)

// This file holds back replies and posts of turns that are not durable yet. They stay in their connection's output,
// after a mark. Without a gate, or with an open one, nothing is marked.
//
//	queue, tail:  [ may leave ][ turn 7: 40 bytes ][ turn 9: 12 bytes ]
//	              bytes - held   marks[0]            marks[1]
//
// reactor.G1. The marks cover the last held bytes of an output, in order. No byte after the first mark is written. A
// mark passes after the turns of all its bytes, and after the end of the units that posted them.
// reactor.G2. A connection whose output may not leave is in its loop's gated list until it may. While this list is not
// empty, the loop is in the reactor's list, or is about to be woken.
//
// A mark has a level too: the number of replicas that must have the data that its bytes show. If they do not have them
// in time, each reply becomes an error. Pushes are sent unchanged, because an invalidation must not get lost.
type mark struct {
	turn  uint64
	bytes int
	level uint8
	reply bool // some of its bytes are replies that wait for replicas
}

// A wait is the condition for which bytes added to an output wait.
type wait struct {
	turn  uint64
	level uint8
	reply bool
}

// joins reports whether bytes that wait for w may share the mark.
func (m *mark) joins(w wait) bool {
	return m.level == w.level && m.reply == w.reply && covers(m.turn, w.turn)
}

// add adds bytes to a mark.
func (m *mark) add(w wait, bytes int) {
	m.turn, m.bytes = protocol.Later(m.turn, w.turn), m.bytes+bytes
	m.level, m.reply = max(m.level, w.level), m.reply || w.reply
}

// passes reports whether the bytes may leave unchanged.
func (w wait) passes(gate *protocol.Gate) bool {
	return !gate.HoldsAt(w.turn, w.level) && !(w.reply && gate.FailsAt(w.turn, w.level))
}

// hold marks the bytes that were added after the output's first before bytes, if their turn may not pass. All bytes
// after a mark are held.
func (o *output) hold(gate *protocol.Gate, w wait, before int) {
	n := o.bytes - before
	if n == 0 || len(o.marks) == 0 && w.passes(gate) {
		return
	}
	w.turn = gate.Settle(w.turn)
	o.held += n
	last := len(o.marks) - 1
	if last < 0 || last < markMost && !o.marks[last].joins(w) {
		o.marks = append(o.marks, mark{w.turn, n, w.level, w.reply})
		return
	}
	o.marks[last].add(w, n)
}

// holdAhead is hold for n bytes that were inserted before a batch's reply. total is the length of both. If there is a
// mark, the reply is in the last one.
func (o *output) holdAhead(gate *protocol.Gate, w wait, n, total int) {
	switch last := len(o.marks) - 1; {
	case last >= 0:
		o.held += n
		w.turn = gate.Settle(w.turn)
		o.marks[last].add(w, n)
	case n > 0 && !w.passes(gate): // of a unit that is still open, or of replicas; the reply waits with it
		o.held += total
		o.marks = append(o.marks, mark{gate.Settle(w.turn), total, w.level, w.reply})
	}
}

// covers reports whether bytes of turn may share the mark. A unit's mark passes with its turn or later.
func covers(mark, turn uint64) bool { return mark == turn || turn <= protocol.TurnOf(mark) }

// markMost bounds the marks of an output. Later bytes share the last mark, and so wait a little longer.
const markMost = 64

// pass removes the marks of turns that may pass, and settles the others. Replies of turns that have failed become
// errors. pass reports whether it has removed any mark.
func (o *output) pass(gate *protocol.Gate, pool *bufferPool) bool {
	n := 0
	for n < len(o.marks) && !gate.HoldsAt(o.marks[n].turn, o.marks[n].level) {
		if m := &o.marks[n]; m.reply && gate.FailsAt(m.turn, m.level) {
			m.bytes = o.refuse(pool, m.bytes, gate)
		}
		o.held -= o.marks[n].bytes
		n++
	}
	if n == len(o.marks) {
		o.marks = nil
		return n > 0
	}
	o.marks = append(o.marks[:0], o.marks[n:]...)
	for i := range o.marks {
		o.marks[i].turn = gate.Settle(o.marks[i].turn)
	}
	return n > 0
}

// setAside removes all but the first n bytes from the queue and returns them. The tail must be sealed.
func (o *output) setAside(n int) (rest []piece) {
	at := o.head
	for ; at < len(o.queue) && n >= len(o.queue[at].b); at++ {
		n -= len(o.queue[at].b)
	}
	rest = append(rest, o.queue[at:]...)
	clear(o.queue[at:])
	o.queue = o.queue[:at]
	if n > 0 { // the piece's memory stays with its end
		o.queue = append(o.queue, piece{b: rest[0].b[:n]})
		rest[0].b = rest[0].b[n:]
	}
	return rest
}

// flushFreeTLS is flushFree for a link under TLS.
func (o *output) flushFreeTLS(t *tlsLink, pool *bufferPool) (int, flushed) {
	o.seal(pool)
	rest, held := o.setAside(o.bytes-o.held), o.held
	o.bytes -= held
	total, result := o.flushTLS(t, pool)
	o.queue = append(o.queue, rest...)
	o.bytes += held
	if result == flushedAll {
		result = flushedHeld
	}
	return total, result
}

// A gatekeeper has the list of loops that wait for the gate.
type gatekeeper struct {
	mu      sync.Mutex
	waiting []*loop
}

// opened wakes each waiting loop once.
func (k *gatekeeper) opened() {
	k.mu.Lock()
	waiting := k.waiting
	k.waiting = nil
	k.mu.Unlock()
	for _, l := range waiting {
		l.enlisted.Store(false)
		l.notify()
	}
}

// await adds a connection whose output is held to the loop's gated list, until the gate lets some of the output pass.
func (l *loop) await(c *conn) {
	if !c.out.gated {
		c.out.gated = true
		l.gated = append(l.gated, c)
	}
	l.enlist()
}

// enlist adds the loop to the reactor's list, to be woken when the gate opens next. If the gate has just opened, the
// loop checks again at once.
func (l *loop) enlist() {
	if l.enlisted.Load() {
		return
	}
	l.enlisted.Store(true)
	k := &l.reactor.keeper
	k.mu.Lock()
	k.waiting = append(k.waiting, l)
	k.mu.Unlock()
	for _, c := range l.gated {
		if len(c.out.marks) == 0 || !l.reactor.options.Gate.HoldsAt(c.out.marks[0].turn, c.out.marks[0].level) {
			k.opened() // the gate may have opened before the loop was in the list
			return
		}
	}
}

// mayPass reports whether the gate has opened since the loop last checked.
func (l *loop) mayPass() bool { return len(l.gated) > 0 && !l.enlisted.Load() }

// passGate sends all held output that may leave now.
func (l *loop) passGate() {
	gate := l.reactor.options.Gate
	kept := l.gated[:0]
	for _, c := range l.gated {
		switch {
		case c.life == lifeClosed:
		case c.away != nil:
			c.out.gated = false // the flush after its batch checks again
		case len(c.out.marks) == 0:
			c.out.gated = false // its socket is dead, and its output was dropped
		case c.out.pass(gate, &l.replies):
			if c.out.gated = false; !c.out.blocked {
				c.markDirty()
			}
		default:
			kept = append(kept, c)
			continue
		}
	}
	clear(l.gated[len(kept):])
	if l.gated = kept; len(kept) > 0 {
		l.enlist()
	}
}
