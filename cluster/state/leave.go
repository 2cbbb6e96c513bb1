package state

import (
	"slices"

	"spindle/cluster/bus"
	"spindle/internal/logging"
)

// This file has a primary remove the keys of lost slots. Its replicas get the removal by the stream. A replica that
// still serves readers of the slots would show them no key then, or half of a unit. So the primary first has its
// replicas show that they know the loss. Replicas of any version do, because a heartbeat has the primary's slots as the
// replica knows them.
//
//	primary                       replica
//	loses the slots ─── ping ──▶
//	                ◀── pong ───  still has the slots in the heartbeat
//	                ── update ─▶  (compareSlots)
//	                ─── ping ──▶
//	                ◀── pong ───  has none of them: its new map is in use
//	removes the keys
//
// state.L1. Only the answer to a ping counts that was sent after the loss, because an earlier message may be late.
// state.L2. The removal waits for two node timeouts after the latest loss at most. By then a replica that the bus does
// not reach is down, and serves no reader by default. It waits for no failed replica. The log names the replicas that
// have not shown that they know.

// leave removes the keys of lost slots when the replicas know the loss.
func (s *State) leave() {
	s.leaveBy = s.now + 2*s.Terms.NodeTimeout
	for _, n := range s.nodes {
		n.lossPing, n.knowsLoss = 0, false
	}
	s.tickLeave()
}

// tickLeave asks replicas that may not know the loss, unless they still have to answer.
func (s *State) tickLeave() {
	for _, n := range s.nodes {
		if s.waitsFor(n) && n.ponged >= n.lossPing && n.Link != nil && n.Link.ready {
			s.pingAgain(n)
			n.lossPing = n.pinged
		}
	}
	s.dropKnown()
}

// Leaving reports whether the keys of lost slots wait until replicas know the loss.
func (s *State) Leaving() bool { return s.leaveBy != 0 }

// mayReturn says why an operator cannot give a slot to this node yet. Its old keys would come alive, or the keys that
// come now would be removed with them.
func (s *State) mayReturn(slot int) error {
	if s.Leftover(slot) {
		return s.refuseLeaving()
	}
	return nil
}

// refuseLeaving returns errLeaving. If no removal waits, it begins one, because keys may have come after the last one.
func (s *State) refuseLeaving() error {
	if s.leaveBy == 0 {
		s.leave()
	}
	return errLeaving
}

// follows reports whether n has this node's stream, or will have it soon. After a failover the other replicas still
// call the old primary theirs. The old primary, which has no slot left, may follow before it says that it is a replica.
func (s *State) follows(n *Node) bool {
	return (n.isReplica() || n.isPrimary() && n.NumSlots == 0) && n != s.me &&
		(n.Primary == s.me || n.ShardID == s.me.ShardID)
}

// waitsFor reports whether the removal waits for n.
func (s *State) waitsFor(n *Node) bool { return s.follows(n) && !n.knowsLoss && !n.is(bus.Failed) }

// hearLoss handles a pong of a dialled link.
func (s *State) hearLoss(n *Node, m *bus.Message) {
	if s.leaveBy == 0 || n.lossPing == 0 || n.ponged < n.lossPing ||
		slices.ContainsFunc(s.Leftovers(), func(slot uint16) bool { return m.Slots.Has(int(slot)) }) {
		return
	}
	n.knowsLoss = true
	s.dropKnown()
}

// dropKnown removes the keys if all replicas know, or have had the time to (state.L2).
func (s *State) dropKnown() {
	if s.now < s.leaveBy && slices.ContainsFunc(s.nodes, s.waitsFor) {
		return
	}
	s.leaveBy = 0
	list := s.Leftovers()
	if len(list) == 0 {
		return
	}
	for _, n := range s.nodes {
		if s.follows(n) && !n.knowsLoss {
			s.log(logging.LevelNotice, "Removing the keys of %d slots that have a new owner. Replica %s may still serve "+
				"readers of them: it has not shown that it knows.", len(list), n.label())
		}
	}
	s.out.Ask(Errand{Kind: Drop, Slots: list})
}
