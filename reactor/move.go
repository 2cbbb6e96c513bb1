package reactor

import (
	"slices"

	"spindle/internal/invariant"
	"spindle/protocol"
)

// This file moves connections to other loops, while the number of loops chooses itself (chooser.go). Only loops that
// read their sockets themselves can do so: those of gnet and epoll.
//
//	source, in a turn of the core:  c rests ─▶ out of the poller ─▶ home = target, mail to the target
//	target:                         reads that mail ─▶ into its poller ─▶ serves c
//
// reactor.V1. conn.loop is for the goroutine of the connection's loop, and home for all others. A goroutine that has
// read home may be late, so it must post by conn.post.
// reactor.V2. home changes while both mailboxes are locked. A mail for a connection enters a mailbox only if home is
// that loop. A connection stays while its loop's mailbox has a mail for it. So it reads its mails in their order, and
// all.
// reactor.V3. home changes only in a turn of the core. So in a turn Loop always returns the same loop. The core keeps
// connections in lists by loop (client.Audience), and those do not move.
// reactor.V4. A connection moves only at rest. Then the loop has no bytes of it that wait, in either direction. It is
// in no list of the loop except conns.
// reactor.V5. The source's poller is left first. When the target adds the socket to its own, the kernel reports the
// bytes and the end that are there already.

// A mover is a host that gives open connections to other loops, and takes them. On the loop.
type mover interface {
	// release removes c's socket from the poller, and keeps it open.
	release(c *conn)
	// arrive adds the socket of an open connection that was on another loop.
	arrive(c *conn)
}

// A removal is the connections that a loop shall give away. The ones that do not rest stay.
type removal struct {
	conns []*conn // those that have not been looked at
	left  int     // how many may still move
	to    []*loop // they take turns
}

const (
	movedAtOnce  = 16  // connections that move in one turn of the core
	movedLook    = 512 // connections that are looked at in it
	mostCompared = 64  // receivers of a waiting message that are compared with a connection

	// mailsBesideMoves bounds the mails of a loop whose connections move. Each connection is compared with all mails, in
	// the turn (BenchmarkMoves). Past the bound the loop reads its mails first.
	mailsBesideMoves = 64
)

// giveAway makes the loop move up to n of its connections to other loops, a few in each iteration. On the loop.
func (l *loop) giveAway(n int, to []*loop) {
	_, can := l.host.(mover)
	_, still := l.handler.(protocol.Mover)
	if !can || !still || l.moving != nil || l.stopping || n <= 0 || len(to) == 0 {
		return
	}
	conns := make([]*conn, 0, len(l.conns))
	for c := range l.conns {
		if c.rests() {
			conns = append(conns, c)
		}
	}
	if len(conns) > 0 {
		l.moving = &removal{conns, n, to}
	}
}

// moveSome moves the next connections of l.moving, in a turn of the core.
func (l *loop) moveSome() {
	m, host := l.moving, l.host.(mover)
	l.handler.(protocol.Mover).Still(func(may func(session any) bool) {
		if l.mails() > mailsBesideMoves {
			return
		}
		for moved, looked := 0, 0; moved < movedAtOnce && looked < movedLook; looked++ {
			last := len(m.conns) - 1
			if last < 0 || m.left == 0 || l.stopping {
				l.moving = nil
				return
			}
			c := m.conns[last]
			m.conns[last], m.conns = nil, m.conns[:last]
			if c.rests() && may(c.session) && l.send(c, m.to[m.left%len(m.to)], host) {
				m.left--
				moved++
			}
		}
	})
}

// rests reports whether c may leave its loop (reactor.V4).
func (c *conn) rests() bool {
	o := &c.out
	return c.life == lifeOpen && c.session != nil && c.sink == nil &&
		c.flow == flowing && c.away == nil && c.parser == nil && c.pending == nil && c.excess == nil && !c.replay &&
		!c.owes && !c.paused && !c.inReady && !c.readable && !c.hungUp &&
		o.bytes == 0 && o.tail.B == nil && !o.dirty && !o.blocked && !o.gated && len(o.marks) == 0 && !c.holdsOutput() &&
		protocol.Class(c.class.Load()) == protocol.ClassNormal
}

// send gives c to another loop. It returns false, and does nothing, if mails wait for c. In a turn of the core.
func (l *loop) send(c *conn, to *loop, host mover) bool {
	l.assertOn()
	invariant.That(to != l && c.loop == l, "reactor.V1: a connection moves from a loop where it is not")
	first, second := l, to // two loops may give to each other
	if to.id < l.id {
		first, second = to, l
	}
	first.mailMu.Lock()
	second.mailMu.Lock()
	stays := to.ended || slices.ContainsFunc(l.mail, func(m mail) bool { return m.isFor(c) }) // reactor.V2
	if !stays {
		host.release(c)
		delete(l.conns, c)
		c.setLoop(to)
		to.put(mail{kind: mailArrive, c: c})
	}
	second.mailMu.Unlock()
	first.mailMu.Unlock()
	if !stays {
		to.notify()
	}
	return !stays
}

// isFor reports whether m may be for c.
func (m *mail) isFor(c *conn) bool {
	return m.c == c || m.kind == mailPostAll && (len(m.to) > mostCompared || slices.Contains(m.to, protocol.Conn(c)))
}

// setLoop puts c on a loop. The caller is the only goroutine that uses c, or holds both mailboxes.
func (c *conn) setLoop(l *loop) {
	c.loop = l
	c.home.Store(l)
}
