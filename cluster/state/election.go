package state

import (
	"spindle/cluster/bus"
	"spindle/internal/logging"
	"spindle/internal/slots"
)

// A cannot is the reason why a replica does not take over.
type cannot uint8

const (
	cannotNothing cannot = iota
	cannotOldData
	cannotYet
	cannotExpired
	cannotVotes
	cannotConfirmed
	cannotServe
)

var cannotText = [...]string{
	cannotOldData: "Disconnected from master for longer than allowed. Please check the " +
		"'cluster-replica-validity-factor' configuration option.",
	cannotYet:     "Waiting the delay before I can start a new failover.",
	cannotExpired: "Failover attempt expired.",
	cannotVotes:   "Waiting for votes, but majority still not reached.",
}

// considerVote votes for a replica that asks. This node must not have voted in the epoch, the replica's primary must
// have failed, and no node may have newer claims to the slots. The vote is sent when it is on disk (state.C2).
func (s *State) considerVote(n *Node, m *bus.Message) {
	if s.me.isReplica() || s.me.NumSlots == 0 {
		return
	}
	deny := func(format string, args ...any) {
		s.log(logging.LevelWarning, "Failover auth denied to "+n.label()+": "+format, args...)
	}
	primary := n.Primary
	if primary == s.me || n.ShardID == s.me.ShardID { // it may not have said yet that it is a replica
		s.rivalMs = s.now + s.voting()
	}
	switch {
	case m.CurrentEpoch < s.current:
		deny("reqEpoch (%d) < curEpoch(%d)", m.CurrentEpoch, s.current)
		return
	case s.voted == s.current:
		deny("already voted for epoch %d", s.current)
		return
	case n.isPrimary():
		deny("it is a master node")
		return
	case primary == nil:
		deny("I don't know its master")
		return
	case !primary.is(bus.Failed) && !m.ForceAck && (primary != s.me || !s.restarted): // state.Q5
		deny("its master is up")
		return
	case s.now-primary.votedMs < 2*s.Terms.NodeTimeout:
		deny("can't vote about this master before %d milliseconds", 2*s.Terms.NodeTimeout-(s.now-primary.votedMs))
		return
	}
	for slot := range slots.Count {
		if m.Slots.Has(slot) && !s.unclaimed(slot) && s.owners[slot].Epoch > m.ConfigEpoch {
			deny("slot %d epoch (%d) > reqEpoch (%d)", slot, s.owners[slot].Epoch, m.ConfigEpoch)
			return
		}
	}
	s.voted = s.current
	primary.votedMs = s.now
	s.save(true)
	s.send(n.Link, bus.Vote, bus.Append(nil, s.message(bus.Vote)))
	s.log(logging.LevelNotice, "Failover auth granted to %s for epoch %d", n.label(), s.current)
}

// myRank counts the replicas of the same primary that have a greater offset.
func (s *State) myRank() (rank int) {
	mine := s.out.Offset()
	for _, n := range s.me.Primary.Replicas {
		if n != s.me && !n.is(bus.NoFailover) && n.Offset > mine {
			rank++
		}
	}
	return rank
}

// relogMs is the time after which the same reason is logged again.
const relogMs = 10_000

// say logs why this replica does not take over, unless the same reason was just logged or the failure is recent.
func (s *State) say(why cannot) {
	if why == s.cannot && s.now-s.cannotMs < relogMs {
		return
	}
	s.cannot = why
	if p := s.me.Primary; p != nil && p.is(bus.Failed) && s.now-p.failedMs < s.Terms.NodeTimeout+5000 {
		return
	}
	s.cannotMs = s.now
	s.log(logging.LevelNotice, "Currently unable to failover: %s", cannotText[why])
	if why == cannotVotes || why == cannotExpired {
		s.log(logging.LevelNotice, "Needed quorum: %d. Number of votes received so far: %d", s.quorum(), s.votes)
	}
}

// tryFailover continues an election against a failed primary. It waits, asks for votes, and takes over after a win.
func (s *State) tryFailover() {
	me, timeout := s.me, s.Terms.NodeTimeout
	age := s.now - s.electionMs
	manual := s.manualEnd != 0 && s.manualReady
	expiry := s.expiry()
	if me.isPrimary() || me.Primary == nil || !me.Primary.is(bus.Failed) && !manual || s.Terms.NoFailover && !manual ||
		me.Primary.NumSlots == 0 {
		s.cannot = cannotNothing
		return
	}
	stale := s.out.DataAge()
	if stale > timeout {
		stale -= timeout // the failure was unknown for that long
	}
	judged := s.confirms() && s.out.Offset() > 0 // mayStand judges the data, whatever their age
	if f := s.Terms.ValidityFactor; f != 0 && stale > s.Terms.ReplicationPing+timeout*f && !manual && !judged {
		s.say(cannotOldData)
		return
	}
	if age > 2*expiry {
		s.plan()
		return
	}
	if !s.asked && s.manualEnd == 0 {
		if rank := s.myRank(); rank > s.rank {
			added := int64(rank-s.rank) * 1000
			s.electionMs += added
			s.rank = rank
			s.log(logging.LevelNotice, "Replica rank updated to #%d, added %d milliseconds of delay.", rank, added)
		}
	}
	if !s.asked && s.now >= s.electionMs && !manual && !s.mayStand() {
		s.electionMs = s.now // it begins when it may
		return
	}
	switch {
	case s.now < s.electionMs:
		s.say(cannotYet)
	case age > expiry || s.asked && age > s.voting():
		s.say(cannotExpired)
	case !s.asked:
		s.electionMs = s.now // votes count from here
		s.current++
		s.electionEpoch = s.current
		s.log(logging.LevelNotice, "Starting a failover election for epoch %d.", s.current)
		s.save(true)
		m := s.message(bus.VoteRequest)
		m.ForceAck = s.manualEnd != 0
		s.broadcast(m, nil)
		s.asked = true
		s.todo |= todoUpdate
	case s.votes < s.quorum():
		s.say(cannotVotes)
	default:
		s.log(logging.LevelNotice, "Failover election won: I'm the new master.")
		if me.Epoch < s.electionEpoch {
			me.Epoch = s.electionEpoch
			s.log(logging.LevelNotice, "configEpoch set to %d after successful failover", me.Epoch)
		}
		s.replacePrimary()
	}
}

// plan sets the time of the next election. Replicas with more data start earlier.
func (s *State) plan() {
	s.electionMs = s.now + 500 + s.rng.Int64N(500) // time for the failure to spread
	s.votes, s.asked = 0, false
	s.attempt++
	s.rank = s.myRank()
	s.electionMs += int64(s.rank) * 1000
	if s.manualEnd != 0 {
		s.electionMs, s.rank = s.now, 0
		s.todo |= todoFailover
	}
	s.log(logging.LevelNotice, "Start of election delayed for %d milliseconds (rank #%d, offset %d).",
		s.electionMs-s.now, s.rank, s.out.Offset())
	s.pongAll(true)
	if s.confirms() && s.manualEnd == 0 {
		s.askOffsets()
	}
}

// endElection forgets this node's election and its votes. The next one begins with plan.
func (s *State) endElection() { s.electionMs, s.asked, s.votes = 0, false, 0 }

// replacePrimary takes over all slots of this node's primary. The caller has raised the epoch before (state.C1).
func (s *State) replacePrimary() {
	old := s.me.Primary
	if s.me.isPrimary() || old == nil {
		return
	}
	s.becomePrimary(s.me)
	s.endElection()
	s.following = ""
	s.out.Ask(Errand{Kind: Promote})
	s.moveAll(old, s.me)
	s.updateState()
	s.save(true)
	s.pongAll(false)
	s.resetManual()
}

// Promoted is called when the core has run the errand of Promote. The stream of the old primary has ended. So no key
// comes with it any more, and what is left of lost slots can be told from keys that came later.
func (s *State) Promoted() {
	if s.me.isPrimary() {
		s.noteDropped()
		s.dropLost()
	}
}

// resume makes this node the primary that others know it to be. It was one when it ended, and has started with an older
// nodes.conf, in which it is a replica. As after any start of a primary, it serves later, because another node may have
// taken over meanwhile. It may also lack a confirmed write (state.Q4). Its notes of lost slots are as old as the file.
// Keys may have come back since, and this node may even own a slot again. So it removes no key. It calls the slots
// importing, so that an operator sees them.
func (s *State) resume() {
	s.log(logging.LevelWarning, "The configuration of this node is older than that of its replica: it is a primary.")
	s.becomePrimary(s.me)
	s.endElection()
	s.resetManual()
	s.following = ""
	s.out.Ask(Errand{Kind: Promote})
	for _, slot := range s.Leftovers() {
		s.adopt(int(slot))
	}
	s.lost = bus.Bitmap{}
	s.ok, s.firstUpdate = false, s.now
	if s.restarted = s.Terms.MinAcks > 0; s.restarted {
		s.out.Ask(Errand{Kind: Withhold})
	}
	s.save(true)
}

// In a manual failover, a replica takes over from a healthy primary. The primary pauses writes, and the replica waits
// until it has all data.

// resetManual ends a manual failover, successful or not.
func (s *State) resetManual() {
	if s.manualNode != nil {
		s.out.Ask(Errand{Kind: Unpause})
	}
	s.manualEnd, s.manualReady, s.manualNode, s.manualOffset, s.manualPaused = 0, false, nil, -1, false
	s.manualUnsent = false
}

// askManual sends the primary this replica's request to take over, once the link is connected. A primary ignores the
// request if it does not yet know the node as its replica. So a ping that states this node's role goes first.
func (s *State) askManual() {
	primary := s.me.Primary
	if !s.manualUnsent || primary == nil || primary.Link == nil || !primary.Link.ready {
		return
	}
	s.manualUnsent = false
	before := primary.PingSent
	s.ping(primary.Link, bus.Ping)
	if before != 0 {
		primary.PingSent = before
	}
	s.send(primary.Link, bus.ManualStart, bus.Append(nil, s.message(bus.ManualStart)))
}

// startHolding handles a replica's request to take over: it pauses writes.
func (s *State) startHolding(l *Link, n *Node) {
	if n == nil || n.Primary != s.me {
		return
	}
	s.resetManual()
	s.manualEnd, s.manualNode = s.now+s.Terms.ManualTimeout, n
	s.out.Ask(Errand{Kind: Pause, UntilMs: s.now + 2*s.Terms.ManualTimeout})
	s.log(logging.LevelNotice, "Manual failover requested by replica %s.", n.label())
}

// Paused is called when the core has paused writes. The offset no longer changes, and Paused sends it to the replica.
func (s *State) Paused() {
	if s.manualEnd == 0 || s.manualNode == nil {
		return
	}
	s.manualPaused = true
	if l := s.manualNode.Link; l != nil && l.ready {
		s.ping(l, bus.Ping)
	}
}

// NotPaused is called when the core cannot pause writes now. The manual failover is over.
func (s *State) NotPaused() {
	if s.manualNode != nil {
		s.resetManual()
	}
}

// ManualEnd returns the deadline of the current manual failover in Unix ms, or 0 if there is none.
func (s *State) ManualEnd() int64 { return s.manualEnd }

// Waiting reports whether a manual failover waits for the offset. The driver then calls Poll often.
func (s *State) Waiting() bool {
	return s.manualEnd != 0 && s.me.isReplica() && !s.manualReady && s.manualOffset != -1
}

// Poll checks whether this replica has reached the offset of its primary.
func (s *State) Poll() {
	if s.Waiting() {
		s.todo |= todoManual
	}
}

// tryManual checks whether this replica has all its primary's data. A greater offset is of another history: the primary
// has started again, and this replica has not copied its data yet.
func (s *State) tryManual() {
	if s.Waiting() && s.out.Offset() == s.manualOffset {
		s.manualReady = true
		s.log(logging.LevelNotice, "All master replication stream processed, manual failover can start.")
		s.todo |= todoFailover
	}
}

// migrationDelay is how long, in ms, a primary must be without replicas before a replica moves to it.
const migrationDelay = 5000

// migrate moves this replica to a primary that has lost all its replicas, if this replica is the right one. The right
// one has the smallest ID among the live replicas of primaries with most replicas. It stays while fewer than
// min-replicas-to-ack others have what it has, because confirmed writes would be on too few then.
func (s *State) migrate(most int) {
	mine := s.me.Primary
	if !s.ok || mine == nil {
		return
	}
	well, others := int64(0), int64(0) // others: those that have what this one has
	for _, r := range mine.Replicas {
		if !r.is(bus.Failed | bus.MaybeFailed) {
			well++
			if r != s.me && r.Offset >= s.out.Offset() {
				others++
			}
		}
	}
	if well <= s.Terms.MigrationBarrier || others < s.Terms.MinAcks {
		return
	}
	candidate := s.me
	var target *Node
	for _, n := range s.nodes {
		count := 0
		if n.isPrimary() {
			count = n.wellReplicas()
		}
		if n.isReplica() || n.is(bus.Failed) || !n.is(bus.MigrateTo) || count > 0 {
			n.orphanedMs = 0
		} else {
			if target == nil && n.NumSlots > 0 {
				target = n
			}
			if n.orphanedMs == 0 {
				n.orphanedMs = s.now
			}
		}
		if count == most {
			for _, r := range n.Replicas {
				if r.ID < candidate.ID && !r.is(bus.Failed) {
					candidate = r
				}
			}
		}
	}
	if target != nil && candidate == s.me && s.now-target.orphanedMs > migrationDelay {
		s.log(logging.LevelNotice, "Migrating to orphaned master %s", target.ID)
		s.setPrimary(target)
		s.todo |= todoUpdate
		s.save(false)
	}
}
