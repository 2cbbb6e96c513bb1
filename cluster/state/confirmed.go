package state

import (
	"spindle/cluster/bus"
	"spindle/internal/logging"
)

// Elections while a primary confirms a write only when N of its R replicas have it (min-replicas-to-ack):
//
//	R = 3, N = 2      offsets  replica 1: 700 │ replica 2: 900 │ replica 3: not heard
//	a confirmed write is on two of the three, so one of any R-N+1 = 2 has it:
//	replica 2 may stand, because it has what replica 1 has. Replica 1 may not.
//
// state.Q1. A replica asks for votes only if R-N+1 replicas of its primary have no more than it has. It is one of them.
// R counts all replicas of the primary that this node knows, also those that have failed. N is this node's own setting,
// so all nodes need the same. A manual failover is spared: the replica has everything, or an operator has forced it.
// state.Q2. The offset of another replica counts if this node has told it on the same link, before it asked, that the
// primary has failed. A replica of a failed primary confirms nothing. So its offset has all that it has confirmed, and
// too few others are left to confirm more.
//
// With N = 0, or N = R, every replica may stand, as in Redis.

// confirms reports whether this node is a replica whose primary waits for replicas.
func (s *State) confirms() bool {
	return s.Terms.MinAcks > 0 && s.me.isReplica() && s.me.Primary != nil
}

// hush has a replica confirm nothing to a primary that has failed (state.Q2).
func (s *State) hush() {
	if hushed := s.confirms() && s.me.Primary.is(bus.Failed); hushed != s.hushed {
		s.hushed = hushed
		s.out.Confirm(!hushed)
	}
}

// mayStand is state.Q1. If it is false, it asks the other replicas for their offsets, and logs why the election waits.
func (s *State) mayStand() bool {
	if !s.confirms() {
		return true
	}
	primary, mine := s.me.Primary, s.out.Offset()
	all, have := len(primary.Replicas), 1
	need := all - int(s.Terms.MinAcks) + 1
	for _, n := range primary.Replicas {
		switch {
		case n == s.me || need <= 1:
		case n.heard != s.attempt:
			s.askOffset(n)
		case n.Offset <= mine:
			have++
		}
	}
	if have >= need {
		return true
	}
	if s.cannot != cannotConfirmed || s.now-s.cannotMs >= relogMs {
		s.cannot, s.cannotMs = cannotConfirmed, s.now
		s.log(logging.LevelNotice, "Currently unable to failover: A confirmed write may be missing here. The election "+
			"waits until %d of the %d replicas are known to have no more than this one, which has offset %d. Now %d are "+
			"(min-replicas-to-ack %d). CLUSTER FAILOVER FORCE does not wait.", need, all, mine, have, s.Terms.MinAcks)
	}
	return false
}

// askOffsets asks the other replicas of the primary.
func (s *State) askOffsets() {
	for _, n := range s.me.Primary.Replicas {
		if n != s.me {
			s.askOffset(n)
		}
	}
}

// askOffset tells another replica that the primary has failed, and then asks for its offset. While an earlier ping is
// not answered, it does nothing, because an answer does not say to what.
func (s *State) askOffset(n *Node) {
	if n.Link == nil || !n.Link.ready || n.PingSent != 0 {
		return
	}
	m := s.message(bus.Fail)
	m.About = s.me.Primary.ID
	s.send(n.Link, bus.Fail, bus.Append(nil, m))
	s.ping(n.Link, bus.Ping)
	n.told = s.attempt
}
