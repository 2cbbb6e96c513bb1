package proxy

import (
	"bytes"
	"slices"

	"spindle/protocol"
	"spindle/protocol/scan"
	"spindle/proxy/route"
)

// Requests that go to several shards: cut by slot, or to all. Their replies become one.

// A gathering collects the replies of one request.
type gathering struct {
	s      *session
	number uint64
	shards int
	join   route.Gather
	kept   int // bytes of replies so far, which count in the session's kept

	hashes   [][]byte // of SCRIPT EXISTS
	mirrored []byte   // the request, if it goes to the mirror too
	row      *route.Row
}

// A share is one shard's part of a gathering.
type share struct {
	of    *gathering
	keys  []int32 // of the request's arguments
	shard string  // the shard's ID, if the request goes to all of them
	where string  // the address of the server that has answered
}

func (h *share) take(u *upstream, _ *call, p []byte, _ scan.Refusal, err *protocol.Error) {
	g := h.of
	if err != nil {
		var r protocol.Reply
		r.Error(err)
		p = r.B
	}
	if u != nil {
		h.where = u.at
	}
	wrong := g.join.Add(h.where, h.keys, p)
	g.kept += len(p)
	g.s.kept += len(p)
	if g.join.Missing() > 0 {
		g.s.bound()
	} else {
		g.s.kept -= g.kept
		p := g.join.Append(nil)
		if g.mirrored != nil && p[0] != '-' {
			g.s.w.p.mirror.offerAll(g.s, g.row, g.mirrored, p)
		}
		if g.hashes != nil {
			p = g.s.w.tellScripts(g.hashes, g.shards, p)
		}
		g.s.answer(g.number, p)
	}
	if wrong != nil && u != nil { // last, because other parts may be on the connection
		u.cut(errUnlike(u.at, wrong))
	}
}

// gather begins a gathering of n parts.
func (s *session) gather(row *route.Row, n, keys int) *gathering {
	g := &gathering{s: s, number: s.expect(), shards: n}
	s.owed.at(s.owed.n - 1).slot = allSlots
	g.join.Chance = s.w.p.chance
	g.join.Begin(row, n, keys)
	return g
}

// split cuts a request by slot.
func (s *session) split(q *protocol.Request) bool {
	w, pl := s.w, &s.w.plan
	if w.p.settings.CrossSlot.Get() == refuseKeys {
		s.refuse(errCrossSlot)
		return true
	}
	groups := pl.Groups(nil)
	if mayGo, answered := s.maySplit(groups); !mayGo {
		return answered
	}
	s.heldAt = 0
	w.p.count.splits.Add(1)
	g, step, row := s.gather(pl.Row, len(groups), pl.KeyCount), pl.Step(), s.row()
	for i := range groups {
		group := &groups[i]
		args := make([][]byte, 0, 1+step*len(group.Keys))
		args = append(args, q.Args[0])
		for _, at := range group.Keys {
			args = append(args, q.Args[at:int(at)+step]...)
		}
		slot, keys, request := group.Slot, slices.Clone(group.Keys), protocol.AppendCommand(nil, args)
		send := func(err *protocol.Error) {
			if err != nil {
				g.fail(err, keys)
				return
			}
			u, err := s.upstream(slot)
			g.pass(u, err, &share{of: g, keys: keys}, slot, row, request)
		}
		if w.source(slot) == "" {
			send(nil)
			continue
		}
		var moved [][]byte
		for _, at := range group.Keys {
			moved = append(moved, slices.Clone(q.Args[at]))
		}
		s.lift(slot, moved, send)
	}
	return true
}

// maySplit reports whether all parts of a request can go now. If one is refused, the request is answered.
func (s *session) maySplit(groups []route.Group) (mayGo, answered bool) {
	moving := false
	for i := range groups {
		slot := groups[i].Slot
		held, err := s.isHeld(slot)
		switch {
		case held:
			return false, false
		case err != nil:
			s.refuse(err)
			return false, true
		}
		moving = moving || s.w.source(slot) != ""
		if u, err := s.upstream(slot); err == nil && u.isFull() {
			u.waiting = append(u.waiting, s)
			return false, false
		}
	}
	return !moving || s.wait(), false
}

// pass sends one part. err: there is no connection for it now, so it is sent later.
func (g *gathering) pass(u *upstream, err *protocol.Error, part *share, slot int, row int32, request []byte) {
	s, w := g.s, g.s.w
	c := call{s: s, number: g.number, to: part, slot: int32(slot), row: row}
	if err == nil {
		part.where = u.at
		u.push(c, request)
		return
	}
	part.where = w.primaryOf(&c)
	own := w.indexOf(slot, 0) == ownTarget
	if own {
		part.where = w.detours.targets[slot-firstTarget]
	}
	if own || part.where != "" && w.breaker(part.where).silent {
		part.take(nil, nil, nil, scan.OtherError, err)
		return
	}
	c.since = w.now()
	w.wait(s.access, c, bytes.Clone(request), err)
}

// fail gives an error for one part.
func (g *gathering) fail(err *protocol.Error, keys []int32) {
	(&share{of: g, keys: keys}).take(nil, nil, nil, scan.OtherError, err)
}

// all sends a request to all shards.
func (s *session) all(q *protocol.Request, raw []byte) bool {
	w, pl := s.w, &s.w.plan
	n := len(w.topology.Shards)
	if n == 0 {
		s.refuse(errNoShard)
		return true
	}
	switch pl.Special {
	case route.ScriptLoad:
		if len(q.Args) > 2 { // servers before Redis 7 do not tell the number
			w.p.scripts.keep(q.Args[2])
		}
	case route.ScriptFlush:
		w.p.scripts.forget()
	}
	g := s.gather(pl.Row, n, 0)
	if pl.Special == route.ScriptExists {
		for _, sha := range q.Args[2:] {
			g.hashes = append(g.hashes, bytes.Clone(sha))
		}
	}
	if w.p.mirror != nil && mirroredEverywhere(pl.Row) {
		g.mirrored, g.row = bytes.Clone(raw), pl.Row
	}
	ofScripts := pl.Row.Merge == route.OneSucceeded || pl.Row.Merge == route.FunctionStats
	for i := range n {
		u, err := s.upstreamOf(i)
		switch {
		case !ofScripts:
			g.pass(u, err, &share{of: g, shard: w.topology.Shards[i].ID}, -1, s.row(), raw)
		case err != nil:
			g.fail(err, nil)
		default: // the script may run for another client of the shared connection
			own := s.access.own(s, u.at)
			own.push(call{s: s, number: g.number, to: &alone{share{of: g}}, slot: -1, row: s.row(), fixed: true}, raw)
		}
	}
	return true
}

// An alone is a share on a connection that no other client uses.
type alone struct{ share }

func (a *alone) take(u *upstream, c *call, p []byte, refusal scan.Refusal, err *protocol.Error) {
	if u != nil && err == nil {
		u.access.giveBack(u)
	}
	a.share.take(u, c, p, refusal, err)
}
