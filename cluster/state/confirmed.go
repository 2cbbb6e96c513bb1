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
// R counts all other nodes of the primary's shard that this node knows, also those that have failed. A primary that has
// failed earlier is one of them. N is this node's own setting, so all nodes need the same. A manual failover is spared:
// the replica has everything, or an operator has forced it.
// state.Q2. The offset of another replica counts for heardFor after its answer. This node must have told it on the same
// link, before it asked, that the primary has failed. A replica confirms nothing to a failed primary, nor for a while
// after it was told (silence). So its offset has all that it has confirmed. Too few others are left to confirm more.
// state.Q3. Offset 0 means that a node does not know how much it has. It has started, or follows another primary, and
// the primary's stream has not begun there since. It may have more than any other, or less.
//
// state.Q4. A primary that starts again may lack what its replicas have confirmed. Its data must not reach a replica
// before that is known. So it serves no slot, and withholds its data from replicas, until R-N+1 replicas are known to
// have no more than it has loaded. All of them may be unknown instead: then none can do better. A primary that ended in
// good order has all that it ever confirmed, and needs no number of answers.
// state.Q5. If a replica has more, the primary tells all nodes that it has failed, and votes like the others. The
// election goes by state.Q1. In three cases the primary serves all the same after unownedFor. Its own data are a log
// that may only lack its end. No replica with more may take over (cluster-replica-no-failover). All replicas are heard,
// none is known to have more, and some have started too, so that they can never know more.
// state.Q6. Replicas that it has not heard may have a tail that was never confirmed. So its stream continues at an
// offset beyond all of them (leap). Then nodes that have its later writes have the greater offsets. After a start from
// a log it continues there in any case: until the first replica comes, such a stream does not count its writes.
//
// The age of the data does not count against a replica that knows its offset: state.Q1 says more.
//
// With N = 0 all is as in Redis. With N = R every replica that knows its offset may stand.

// heardFor is how long the answer of another replica counts, in ms.
const heardFor = 1000

// confirms reports whether this node is a replica whose primary waits for replicas.
func (s *State) confirms() bool {
	return s.Terms.MinAcks > 0 && s.me.isReplica() && s.me.Primary != nil
}

// expiry returns how long an election lasts, in ms.
func (s *State) expiry() int64 { return max(2*s.Terms.NodeTimeout, 2000) }

// voting returns for how long, in ms, the votes for a replica count. It is not longer than the wait of a reclaim
// (state.T5).
func (s *State) voting() int64 { return min(s.expiry(), maxVoting) }

const maxVoting = 5000

// silence returns for how long, in ms, a replica confirms nothing after it was told that its primary has failed. The
// election of the replica that has told it is over then.
func (s *State) silence() int64 { return 2 * s.expiry() }

// hush has a replica confirm nothing to a primary that has failed (state.Q2). Answers of before a change do not count.
func (s *State) hush() {
	hushed := false
	if s.confirms() {
		p := s.me.Primary
		hushed = p.is(bus.Failed) || p.toldFailedMs != 0 && s.now-p.toldFailedMs < s.silence()
	}
	if hushed != s.hushed {
		s.hushed = hushed
		s.attempt++
		s.out.Confirm(!hushed)
	}
}

// peersOf returns the replicas of a primary and the other nodes of its shard, without the primary.
func (s *State) peersOf(primary *Node) (peers []*Node) {
	for _, n := range s.nodes {
		if n != primary && !n.is(bus.Handshake) && (n.Primary == primary || n.ShardID == primary.ShardID) {
			peers = append(peers, n)
		}
	}
	return peers
}

// leap is more than a stream grows while a replica cannot be heard, in bytes.
const leap = 1 << 40

// unownedFor returns how long a primary that may lack a confirmed write waits for a replica to take over, in ms. It is
// for primaries that may serve after that (state.Q5).
func (s *State) unownedFor() int64 { return max(10*s.Terms.NodeTimeout, 30_000) }

// isProven is state.Q4. If it is false for a primary that has started, it does what state.Q5 says.
func (s *State) isProven() bool {
	if !s.restarted || s.leading {
		return !s.restarted
	}
	peers := s.peersOf(s.me)
	mine, isLog, whole := s.out.Loaded()
	need := len(peers) - int(s.Terms.MinAcks) + 1
	most, have, unknown, ahead, heirs := mine, 0, 0, 0, 0
	for _, n := range peers {
		most = max(most, n.Offset)
		switch {
		case n.dataReceived == 0: // not heard since the start
		case n.Offset == 0: // state.Q3
			unknown++
		case n.Offset <= mine:
			have++
		default:
			if ahead++; n.isReplica() && !n.is(bus.NoFailover) {
				heirs++
			}
		}
	}
	waited := s.now - s.firstUpdate
	switch {
	case s.Terms.MinAcks == 0 || s.me.NumSlots == 0:
		s.lead(0)
		return false
	case ahead == 0 && !isLog && have == len(peers): // all are known, and have no more
		s.lead(0)
		return false
	case ahead == 0 && waited >= writableDelay &&
		(whole || have >= need && mine > 0 || need <= 0 || unknown == len(peers)):
		s.lead(most + leap)
		return false
	case waited >= s.unownedFor() &&
		(isLog && !whole || ahead > 0 && heirs == 0 || ahead == 0 && have+unknown == len(peers)):
		s.log(logging.LevelWarning, "No replica has taken over from this primary for %d ms. It serves now, and confirmed "+
			"writes may be lost.", waited)
		s.lead(most + leap)
		return false
	}
	if heirs > 0 && s.now-s.resignedMs >= resignEvery {
		s.resignedMs = s.now
		m := s.message(bus.Fail)
		m.About = s.me.ID
		s.broadcast(m, nil)
	}
	if s.cannot != cannotServe || s.now-s.cannotMs >= relogMs {
		s.cannot, s.cannotMs = cannotServe, s.now
		s.log(logging.LevelNotice, "This primary has started, and may lack a confirmed write. It serves when %d of the %d "+
			"replicas are known to have no more than it has, which is offset %d. Now %d are, %d have more, and %d do not know "+
			"their offset (min-replicas-to-ack %d). A replica that has more takes over.",
			need, len(peers), mine, have, ahead, unknown, s.Terms.MinAcks)
	}
	return false
}

// resignEvery is how often a primary that lacks data says that it has failed, in ms. Nodes that hear it answer believe
// it again after two node timeouts.
const resignEvery = 500

// lead has the core give data to replicas. The stream continues at offset to, or where it is if that is 0. Led follows.
func (s *State) lead(to int64) {
	s.leading = true
	s.out.Ask(Errand{Kind: Lead, Offset: to})
}

// Led is called when the core has run the errand of lead.
func (s *State) Led() {
	s.restarted, s.leading = false, false
	s.todo |= todoUpdate
}

// Replicas returns the number R of state.Q1 if this node is a primary.
func (s *State) Replicas() int { return len(s.peersOf(s.me)) }

// mayStand is state.Q1. If it is false, it asks the other replicas for their offsets, and logs why the election waits.
func (s *State) mayStand() bool {
	if !s.confirms() {
		return true
	}
	peers, mine := s.peersOf(s.me.Primary), s.out.Offset()
	need := len(peers) - int(s.Terms.MinAcks) + 1
	if mine > 0 && need <= 1 {
		return true
	}
	have, unknown := 0, 0 // unknown: those that have answered with 0
	for _, n := range peers {
		offset := n.Offset
		switch {
		case n == s.me:
			offset = mine
		case n.heard != s.attempt || s.now-n.heardMs > heardFor:
			s.askOffset(n)
			continue
		}
		switch {
		case offset == 0:
			unknown++
		case offset <= mine:
			have++
		}
	}
	if have >= need && mine > 0 || need <= 1 && unknown == len(peers) {
		return true
	}
	if s.cannot != cannotConfirmed || s.now-s.cannotMs >= relogMs {
		s.cannot, s.cannotMs = cannotConfirmed, s.now
		s.log(logging.LevelNotice, "Currently unable to failover: A confirmed write may be missing here. The election "+
			"waits until %d of the %d replicas are known to have no more than this one, which has offset %d. Now %d are, "+
			"and %d do not know their offset (min-replicas-to-ack %d). CLUSTER FAILOVER FORCE does not wait.",
			need, len(peers), mine, have, unknown, s.Terms.MinAcks)
	}
	return false
}

// askOffsets asks the other replicas of the primary.
func (s *State) askOffsets() {
	for _, n := range s.peersOf(s.me.Primary) {
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
