package proxy

import (
	"bytes"

	"spindle/protocol"
	"spindle/proxy/route"
	"spindle/reactor"
)

// Serve implements protocol.Handler.
func (p *Proxy) Serve(b *protocol.Batch) {
	s := b.Session.(*session)
	w := s.w
	if s.closed || s.quit {
		b.Done = len(b.Requests)
		return
	}
	if now := p.finder.Current(); now != w.topology {
		w.use(now)
	}
	if now := p.detours.Load(); now != w.detours {
		w.detours = now
		w.use(w.topology)
	}
	w.readClock()
	w.rules = p.settings.Rules.Get()
	s.reply = b.Reply
	b.Reply.RESP3 = s.access.id.resp3
	end := b.From
	for b.Done < len(b.Requests) {
		q := &b.Requests[b.Done]
		var raw []byte
		if q.End > 0 && b.Bytes != nil && b.Bytes[end] == '*' {
			raw = b.Bytes[end:q.End]
		}
		if !s.serve(q, raw) {
			s.held, b.Soon = true, !s.isBlocked
			break
		}
		s.ruled = false
		p.count.requests.Add(1)
		b.Done++
		end = q.End
		if s.closed || s.quit {
			b.Done = len(b.Requests)
			break
		}
	}
	s.reply = nil
	if !s.closed {
		s.conn.Owe(s.owed.n > 0 && !s.isBlocked)
	}
}

// serve begins a request. raw is its bytes as the client sent them; nil: they have to be made. It returns false if the
// request has to wait until the session continues.
func (s *session) serve(q *protocol.Request, raw []byte) bool {
	if s.w.p.draining.Load() {
		s.whole = true
		return false
	}
	if s.retries > 0 || s.owed.n > 0 && (s.barrier || s.epoch != s.w.epoch) {
		s.whole = true
		return false
	}
	if s.owed.n >= owedMost || s.kept > keptMost || s.conn.Buffered() > outputMost {
		return false
	}
	s.epoch = s.w.epoch
	w := s.w
	pl := &w.plan
	if w.detours != nil {
		pl.Detours = w.detoursOf(s.user())
	}
	w.p.table().Plan(q.Args, pl)
	if pl.Err != nil {
		if s.tx != nil && pl.Row != nil && pl.Row.NoMulti {
			pl.Err = errNoTransaction
		}
		s.refuse(pl.Err)
		return true
	}
	s.last = pl.Row
	if w.p.paused.Load() != nil && s.isPaused(pl.Row) {
		return false
	}
	if w.rules != nil && !s.ruled {
		if err := s.breaks(w.rules, q.Args); err != nil {
			s.refuse(err)
			return true
		}
		s.ruled = true
	}
	if s.awaitsLibraries(pl.Row, pl.Slot) {
		return false
	}
	if w.states != nil {
		held, err := s.isHeld(pl.Slot)
		if held {
			return false
		}
		if err != nil {
			s.refuse(err)
			return true
		}
		if pl.Class != route.Split {
			s.heldAt = 0
		}
	}
	if pl.Row.Script == route.ByBody {
		w.keepScript(q.Args[1])
	}
	if raw == nil {
		w.scratch = protocol.AppendCommand(w.scratch[:0], q.Args)
		raw = w.scratch
	}
	if w.source(pl.Slot) != "" && s.tx == nil && s.pin == nil && pl.Special == route.None {
		return s.liftAndForward(q, raw)
	}
	if pl.Class == route.Forward && s.pin == nil && s.tx == nil && s.sub == nil && s.caching == nil { // the usual case
		if w.p.cache.isOn() && pl.Row.Name == "get" && pl.Slot < firstTarget && s.fromCache(q.Args[1], pl.Slot) {
			return true
		}
		return s.forward(pl.Slot, raw)
	}
	if s.caching == nil || s.tx != nil || pl.Special == route.Multi || pl.Special == route.Client {
		return s.serveRare(q, raw)
	}
	s.isCaching = true
	served := s.serveRare(q, raw)
	if s.isCaching = false; served {
		s.caching = nil
	}
	return served
}

// serveRare serves a request that is not simply passed on.
func (s *session) serveRare(q *protocol.Request, raw []byte) bool {
	pl := &s.w.plan
	if s.isSubscriber() && pl.Class != route.Local {
		s.refuseWhileListening(pl.Row)
		return true
	}
	switch pl.Special {
	case route.Multi:
		return s.multi()
	case route.Exec:
		return s.exec()
	case route.Discard:
		return s.discard()
	case route.Watch:
		return s.watchKeys(pl, q, raw)
	case route.Unwatch:
		return s.unwatch(pl, q, raw)
	case route.Reset, route.Quit:
		return s.serveLocal(q, raw)
	}
	if s.tx != nil {
		return s.queue(pl, q, raw)
	}
	if s.pin != nil && (pl.Class == route.Split || pl.Class == route.All) { // keys of the pin's slot too: proxy.T3
		if !s.wait() {
			return false
		}
		s.barrier = true
	}
	switch pl.Class {
	case route.Local:
		return s.serveLocal(q, raw)
	case route.Split:
		return s.split(q)
	case route.All:
		if pl.Special == route.Wait {
			return s.waitForReplicas(q.Args)
		}
		return s.all(q, raw)
	case route.Pinned:
		if pl.Blocks {
			return s.block(pl.Slot, raw)
		}
	}
	if s.pin != nil && (pl.Slot < 0 || pl.Slot == s.pinned) { // a watched key: proxy.T3
		s.pin.push(call{s: s, number: s.expect(), slot: int32(pl.Slot), row: s.row(), fixed: true, to: (*plain)(s),
			byHash: pl.Row.Script == route.ByHash}, raw)
		return true
	}
	return s.forward(pl.Slot, raw)
}

// row is the number of the current request's row, for call.row.
func (s *session) row() int32 { return int32(s.w.plan.Row.Number) + 1 }

// wait has the session continue only when nothing is owed. It returns true if that is so already.
func (s *session) wait() bool {
	if s.owed.n == 0 {
		return true
	}
	s.whole = true
	return false
}

// refuse answers a request with an error. Inside a transaction EXEC will fail.
func (s *session) refuse(err *protocol.Error) {
	if s.tx != nil {
		s.tx.broken = true
	}
	s.fail(err)
}

// indexOf returns the shard of a slot, and some shard if the slot is -1. It returns -1 if there is none, and ownTarget
// for the proxy itself.
func (w *worker) indexOf(slot int, some uint64) int {
	switch {
	case slot >= firstTarget:
		return w.targets[slot-firstTarget]
	case slot >= 0:
		return w.topology.Owner(slot)
	}
	if n := len(w.topology.Shards); n > 0 {
		return int(some % uint64(n))
	}
	return -1
}

// upstream returns the shared connection for a slot; -1: any shard. If there is none it returns an error.
func (s *session) upstream(slot int) (*upstream, *protocol.Error) {
	index := s.w.indexOf(slot, uint64(s.id))
	switch {
	case slot < 0 && index >= 0:
		index = s.w.anyIndex(index)
	case slot < 0:
		return nil, errNoShard
	case index == ownTarget:
		return nil, errOwnTarget(s.w.detours.targets[slot-firstTarget])
	case index < 0 && slot >= firstTarget:
		return nil, errNoTarget(s.w.detours.targets[slot-firstTarget])
	case index < 0:
		return nil, errNoSlot
	}
	return s.upstreamOf(index)
}

// anyIndex returns a shard whose primary answers: that at a place, or the next one. If none answers, it returns the
// place.
func (w *worker) anyIndex(from int) int {
	n := len(w.topology.Shards)
	for i := range n {
		index := (from + i) % n
		at := w.topology.Shards[index].Primary
		if b := w.breakers[at]; at != "" && (b == nil || !b.silent && !b.isOpen(w.now())) {
			return index
		}
	}
	return from
}

// upstreamOf returns the shared connection to a shard.
func (s *session) upstreamOf(index int) (*upstream, *protocol.Error) {
	u := s.access.shard(s, index)
	if u == nil {
		return nil, errNoPrimary(s.w.shard(index).ID)
	}
	if u.state != up {
		if b := s.w.breaker(u.at); b.isOpen(s.w.now()) {
			return nil, errBroken(u.at, b.until-s.w.now())
		}
	}
	if s.isCaching {
		u.push(call{to: ignored{}, slot: -1, fixed: true}, s.caching)
	}
	return u, nil
}

// forward passes a request on to the shard of a slot.
func (s *session) forward(slot int, raw []byte) bool {
	u, err := s.upstream(slot)
	if w := s.w; w.p.settings.ReadReplicas.Get() && slot >= 0 && w.plan.Row.Readonly && s.access.private == nil {
		if index := w.indexOf(slot, 0); index >= 0 {
			if r := s.access.reader(s, index); r != nil {
				u, err = r, nil
			}
		}
	}
	if err != nil {
		s.postpone(slot, raw, err)
		return true
	}
	if u.isFull() {
		u.waiting = append(u.waiting, s)
		return false
	}
	byHash := s.w.plan.Row.Script == route.ByHash
	u.push(call{s: s, number: s.expectOf(slot), slot: int32(slot), row: s.row(), byHash: byHash}, raw)
	return true
}

// postpone keeps a request that has no server now. A replica may take over soon, so the request is tried again, like
// one that a server has refused. A shard that has stopped to answer is given no more requests to wait for.
func (s *session) postpone(slot int, raw []byte, err *protocol.Error) {
	if s.w.isSilent(slot, uint64(s.id)) {
		s.refuse(err)
		return
	}
	c := call{s: s, number: s.expectOf(slot), slot: int32(slot), row: s.row(), since: s.w.now(),
		byHash: s.w.plan.Row.Script == route.ByHash}
	if s.w.plan.Blocks {
		c.patient, c.to = true, (*unblocked)(s)
		s.beginBlock(slot, raw)
	}
	s.w.wait(s.access, c, bytes.Clone(raw), err)
}

// isSilent reports whether the shard of a slot takes requests and does not answer them, or is the proxy itself; see
// indexOf.
func (w *worker) isSilent(slot int, some uint64) bool {
	index := w.indexOf(slot, some)
	if index < 0 {
		return index == ownTarget
	}
	at := w.shard(index).Primary
	return at != "" && w.breaker(at).silent
}

// Open implements protocol.Handler.
func (p *Proxy) Open(c protocol.Conn) (any, []byte) {
	w := p.workers[c.Loop()]
	s := &session{w: w, conn: reactor.DirectOf(c), id: p.nextID.Add(1), created: nowUnixMs(), pinned: -1}
	s.access = w.accessOf(p.guest())
	w.sessions[s] = struct{}{}
	return s, nil
}

// Closed implements protocol.Handler.
func (p *Proxy) Closed(of any) {
	s := of.(*session)
	s.closed = true
	delete(s.w.sessions, s)
	if s.pin != nil { // proxy.T4
		s.pin.close()
	}
	if s.slow != nil { // the rest of the reply is for no client
		s.slow.end(errClosed)
	}
	s.setBlocked(false)
	if s.replicas != nil {
		s.replicas.leave()
	}
	s.leaveChannels()
	s.access.leave()
}

// Malformed implements protocol.Handler.
func (p *Proxy) Malformed(of any, _ *protocol.Error) protocol.Verdict {
	s := of.(*session)
	if s.owed.n > 0 { // its error comes after them
		s.held, s.whole = true, true
		return protocol.Wait
	}
	return protocol.Tell
}

// Reserve implements protocol.Handler.
func (p *Proxy) Reserve(any, int) (*protocol.Bulk, *protocol.Error) { return nil, nil }

var _ protocol.Handler = (*Proxy)(nil)
