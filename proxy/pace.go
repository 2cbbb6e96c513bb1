package proxy

import (
	"spindle/internal/invariant"
	"spindle/protocol"
)

// A client may read more slowly than its shard answers. Other clients share the connection to the shard, and do not
// wait for it.
//
//	outputMost bytes are unread      only the client's calls are left on it       half of them are read
//	 ──────────▶ sideline: later calls ─────────────────────────────▶ paused ──────────────────────▶ read again
//	             take another connection
//
// proxy.O4. The rest of a long reply stays at the shard while its client leaves outputMost bytes unread. Calls of other
// clients that are on the connection by then are answered first. A connection that brings invalidations for another
// client is not paused.
// proxy.O5. The proxy keeps at most clientMost bytes for a client: unread ones, and replies, parts of replies and
// messages that wait for their place. A client that needs more is closed, with a line in the log.
// client-output-buffer-limit may say less. The requests of a transaction may have as many bytes, and a request past
// that is refused.

// clientMost is above the longest value that a server has by default.
const clientMost = 1 << 30

// heed looks whether s reads what u passes on to it (proxy.O4).
func (u *upstream) heed(s *session) {
	if s.closed || u.slow != nil || u.state != up || s.conn.Buffered() <= outputMost {
		return
	}
	if u.owner == nil && !u.retiring {
		u.sideline()
	}
	if !u.isOnlyOf(s) || u.hears && u.access.tracking.to != nil {
		s.bound()
		return
	}
	invariant.That(s.slow == nil, "proxy.O4: a client has two long replies under way")
	u.slow, s.slow, u.pausedAt = s, u, u.w.clock
	u.d.Pause()
}

// isOnlyOf reports whether no other client waits for a call of u.
func (u *upstream) isOnlyOf(s *session) bool {
	for i := range u.calls.n {
		if c := u.calls.at(i); c.s != s && (c.s == nil || !c.s.closed) {
			return false
		}
	}
	return true
}

// proceed has the rest of a long reply read, after its client has read most of what there is.
func (s *session) proceed() {
	if u := s.slow; u != nil && s.conn.Buffered() <= outputMost/2 {
		u.w.readClock()
		u.readOn()
	}
}

// readOn has a paused connection read again. It was the proxy that was silent: the shard is not measured by that.
func (u *upstream) readOn() {
	for i := range u.calls.n {
		c := u.calls.at(i)
		c.at += u.w.clock - max(c.at, u.pausedAt)
	}
	u.heardAt = u.w.clock
	u.unpause()
	u.w.watch()
	u.d.Continue()
}

// unpause notes that u is not paused any more.
func (u *upstream) unpause() {
	if s := u.slow; s != nil {
		u.slow, s.slow = nil, nil
	}
}

// stopWaiting closes the client for which u is paused. A table of the product waits for its later calls (proxy.M1).
func (u *upstream) stopWaiting() {
	s := u.slow
	if s == nil || s.closed {
		return
	}
	p := u.w.p
	p.count.slow.Add(1)
	p.log.Warning("The client at %s (id=%d, name=%s) is closed: it does not read, and a new table waits for its calls",
		s.conn.RemoteAddr(), s.id, s.name)
	s.closed = true
	s.conn.Close(false)
}

// bound closes a client for which the proxy keeps too much (proxy.O5).
func (s *session) bound() {
	kept := s.kept + s.heardBytes + s.conn.Buffered()
	if kept <= clientMost || s.closed {
		return
	}
	s.w.p.tellSlow(s, kept)
	s.closed = true
	s.conn.Close(false)
}

// tellSlow logs that a client is closed because it does not read.
func (p *Proxy) tellSlow(s *session, bytes int) {
	p.count.slow.Add(1)
	p.log.Warning("The client at %s (id=%d, name=%s) is closed: it has left %d bytes unread", s.conn.RemoteAddr(), s.id,
		s.name, bytes)
}

// outputLimit is told of each client that client-output-buffer-limit closes.
func (p *Proxy) outputLimit(of any, _ protocol.Class, bytes int) { p.tellSlow(of.(*session), bytes) }
