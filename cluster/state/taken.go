package state

import (
	"slices"

	"spindle/cluster/bus"
	"spindle/internal/logging"
)

// This file takes slots from another node as a whole, at the end of a move. Both nodes believe for a moment that they
// own the slots. The former owner serves no client of them meanwhile. But if it does not hear of the claim in time, it
// gives up, raises its epoch and continues (reclaim.go). So the new owner must know that the former owner has not given
// up before it serves clients.
//
//	new owner                                former owner
//	Claim: epoch 7, clients are held
//	saved             ── pong, ping ──▶      accepts and saves, or has epoch 1048583 already
//	                  ◀────── pong ───       without the slots: the claim stands. With that epoch: it falls.
//	clients go on
//
// state.T1. A claim stands when a heartbeat of the former owner does not claim any of the slots. It also stands when
// the former owner is no primary any more, has been forgotten, or has been failed for a while. A node that comes back
// from a minority serves no client for as long. By then this node has heard of another claim.
// state.T2. A claim falls when this node loses one of the slots. Before it stands, an equal epoch is enough: a replica
// of the former owner may have been elected with it, and serves clients already.
// state.T3. It does not stand before a majority of primaries has heard it. If this node dies then, its replica may not
// know of the claim, and would drop the keys. One of its voters does know. It denies the vote, because the replica has
// an older epoch of its primary, and tells it what that primary has. So each claim has a new epoch.
// state.T4. A node claims nothing when it has heard one of its replicas ask for votes, until that election is over. The
// claim would have a greater epoch than the replica. The node would keep all its slots, and the replica stay a primary
// without any. Writes that the replica had confirmed meanwhile would be lost. Another node may tell it of the election
// first: then the current epoch is greater than that of any node. Nor does it claim anything while a replica takes over
// with its consent. The replica would be elected with the epoch of the claim, or not at all.
// state.T6. A claim that is made before the node hears the replica can have the epoch of the election. Then the
// replica wins all slots that it claims: an equal epoch is enough. So the election ends as if its epoch were greater,
// and what it has confirmed stays. The moved slots stay with the node, unless the replica claims them too: it has
// heard the claim then, and has kept their keys. A replica that has not heard it has dropped them, and the former
// owner may have too. So both are primaries of one shard, until an operator moves these slots. A node that has started
// again does not know any more which of them were its replicas, and does not yield.

// A takeover is a claim that neither stands nor has fallen.
type takeover struct {
	from  *Node
	slots bus.Bitmap
	heard bool   // from's heartbeat does not claim the slots
	done  func() // for the errand
}

// Claim makes this node the owner of slots that have moved here from another node as a whole. It gives this node
// a new, greatest epoch. If from does not own all of them, its epoch is not the given one, or untilMs has passed, Claim
// changes nothing and returns false. The same holds if Contested reports true, or this node reclaims slots (state.T5).
// done becomes an errand when the claim stands or has fallen. Owner tells which.
//
// untilMs is before the time when from gives up. A process may stand still between two statements: afterwards this node
// may have heard from other nodes which epoch from has taken then. A claim made now would beat it.
func (s *State) Claim(list []uint16, from string, epoch uint64, untilMs int64, done func()) bool {
	n := s.byID[from]
	if n == nil || !s.me.isPrimary() || n.Epoch != epoch || s.now > untilMs || s.Contested() || len(s.reclaims) > 0 {
		return false
	}
	for _, slot := range list {
		if s.owners[slot] != n {
			return false
		}
	}
	t := &takeover{from: n, done: done}
	s.newEpoch()
	for _, r := range s.peersOf(s.me) {
		if r.NumSlots == 0 {
			r.rivalEpoch = s.me.Epoch
		}
	}
	for _, slot := range list {
		delete(s.coming, int(slot))
		s.unassign(int(slot))
		s.assign(s.me, int(slot))
		t.slots.Add(int(slot))
	}
	s.taken = append(s.taken, t)
	s.claimed()
	s.pongAll(false)
	if s.tellAgain(); n.claimPing == 0 { // it had no other slots
		s.askFormer(t)
	}
	return true
}

// tellAgain pings the primaries. The answers to earlier pings say nothing about the latest claim or reclaim.
func (s *State) tellAgain() {
	for _, n := range s.nodes {
		n.claimPing = 0
	}
	s.tellVoters()
}

// Contested reports whether a replica of this node may be elected, or takes over with its consent (state.T4).
func (s *State) Contested() bool {
	return s.now < s.rivalMs || s.manualEnd != 0 || s.now < s.rumourMs &&
		!slices.ContainsFunc(s.nodes, func(n *Node) bool { return n.Epoch >= s.current })
}

// yields reports whether n wins a slot of this node with an equal epoch (state.T2, state.T6).
func (s *State) yields(n *Node, slot int) bool {
	return s.unsure(slot) || n.rivalEpoch != 0 && n.rivalEpoch == s.me.Epoch
}

// tellVoters pings the primaries that have not been told of the latest claim or reclaim.
func (s *State) tellVoters() {
	for _, n := range s.nodes {
		if n != s.me && n.votes() && n.claimPing == 0 && n.Link != nil && n.Link.ready {
			s.pingAgain(n)
			n.claimPing = n.pinged
		}
	}
}

// votes reports whether a node has a vote.
func (n *Node) votes() bool { return n.isPrimary() && n.NumSlots > 0 }

// pingAgain pings a node. A ping that has had no answer yet keeps its time.
func (s *State) pingAgain(n *Node) {
	before := n.PingSent
	s.ping(n.Link, bus.Ping)
	if before != 0 {
		n.PingSent = before
	}
}

// isHeard reports whether a majority of primaries has answered the latest pings of tellVoters. With a t, its former
// owner counts when it has accepted (state.T3).
func (s *State) isHeard(t *takeover) bool {
	count, size := 1, s.size // this node
	for _, n := range s.nodes {
		answered := n.claimPing != 0 && n.ponged >= n.claimPing
		former := t != nil && n == t.from && n.isPrimary()
		if former && !n.votes() {
			size++ // it has given its last slots, and may not know it
		}
		if n != s.me && (n.votes() && answered || former && t.heard) {
			count++
		}
	}
	return count > size/2
}

// askFormer pings the former owner.
func (s *State) askFormer(t *takeover) {
	if n := t.from; n.Link != nil && n.Link.ready {
		s.pingAgain(n)
	}
}

// hearFormer notes which slots the sender of a heartbeat claims.
func (s *State) hearFormer(n *Node, m *bus.Message) {
	for _, t := range s.taken {
		if t.from == n && (m.Primary != "" || !t.slots.Meets(m.Slots)) {
			t.heard = true
		}
	}
}

// unsure reports whether this node has claimed a slot, and the claim does not stand yet.
func (s *State) unsure(slot int) bool {
	return slices.ContainsFunc(s.taken, func(t *takeover) bool { return t.slots.Has(slot) })
}

// settleTaken ends the claims that stand (state.T1, state.T3) or have fallen (state.T2).
func (s *State) settleTaken() {
	s.taken = slices.DeleteFunc(s.taken, func(t *takeover) bool {
		n := t.from
		stands := t.heard || !n.isPrimary() || s.byID[n.ID] != n || n.is(bus.Failed) && s.now-n.failedMs >= s.rejoinDelay()
		stands = stands && s.isHeard(t)
		for slot := t.slots.Next(0, true); slot < len(s.owners) && !stands; slot = t.slots.Next(slot+1, true) {
			if s.owners[slot] != s.me {
				s.log(logging.LevelNotice, "The claim to slot %d, which has moved here, has fallen", slot)
				stands = true
			}
		}
		if stands || !s.me.isPrimary() {
			s.out.Ask(Errand{Kind: Taken, Done: t.done})
			return true
		}
		return false
	})
}
