package state

import (
	"spindle/cluster/bus"
	"spindle/internal/logging"
	"spindle/internal/slots"
)

// TickMs is the interval of Tick.
const TickMs = 100

// Tick runs periodic work, ten times a second.
func (s *State) Tick() {
	s.iteration++
	s.maybeFailed = 0
	for i := 0; i < len(s.nodes); i++ {
		n := s.nodes[i]
		s.limit(n, n.Link)
		s.limit(n, n.Incoming)
		if s.reconnect(n) {
			i-- // it was removed
			continue
		}
		s.meetAgain(n)
	}
	if s.iteration%10 == 0 {
		s.pingOldest()
	}
	update := false
	orphans, most, mine := 0, 0, 0 // primaries without replicas; most replicas of one; replicas of ours
	for _, n := range s.nodes {
		if n.is(bus.Myself | bus.NoAddress | bus.Handshake) {
			continue
		}
		if s.me.isReplica() && n.isPrimary() && !n.is(bus.Failed) {
			well := n.wellReplicas()
			if well == 0 && n.NumSlots > 0 && n.is(bus.MigrateTo) {
				orphans++
			}
			most = max(most, well)
			if s.me.Primary == n {
				mine = well
			}
		}
		update = s.watch(n) || update
	}
	if me := s.me; me.isReplica() && me.Primary != nil && s.following == "" && !me.Primary.is(bus.NoAddress) &&
		me.Primary.IP != "" {
		s.follow(me.Primary, false)
	}
	if len(s.taken) > 0 || len(s.reclaims) > 0 {
		s.tellVoters()
	}
	s.tickReclaims()
	for _, t := range s.taken {
		if t.from.PingSent == 0 {
			s.askFormer(t)
		}
	}
	if s.leaveBy != 0 {
		s.tickLeave()
	}
	if s.manualEnd != 0 && s.manualEnd < s.now {
		s.log(logging.LevelWarning, "Manual failover timed out.")
		s.resetManual()
	}
	if s.me.isReplica() {
		s.noteDropped()
		s.tryManual()
		s.tryFailover()
		if s.me.isReplica() && orphans > 0 && most >= 2 && mine == most && s.Terms.AllowMigration {
			s.migrate(most)
		}
	}
	if update || !s.ok {
		s.todo |= todoUpdate
	}
}

// limit closes a link whose peer does not read.
func (s *State) limit(n *Node, l *Link) {
	if l == nil || s.Terms.LinkLimit == 0 || l.Queued == nil {
		return
	}
	if used := l.Queued(); uint64(used) > s.Terms.LinkLimit {
		direction := "to"
		if l.Inbound {
			direction = "from"
		}
		s.log(logging.LevelWarning,
			"Freeing cluster link(%s node %s, used memory: %d) due to exceeding send buffer memory limit.",
			direction, n.ID, used)
		s.hangUp(l)
		s.LimitExceeded++
	}
}

// reconnect dials a node that has no link. It reports whether it removed the node, because its handshake timed out.
func (s *State) reconnect(n *Node) (gone bool) {
	if n.is(bus.Myself | bus.NoAddress) {
		return false
	}
	if n.is(bus.MaybeFailed) {
		s.maybeFailed++
	}
	if n.is(bus.Handshake) && s.now-n.CreatedMs > s.handshakeTimeout() {
		s.remove(n)
		return true
	}
	if n.Link == nil {
		if n.PingSent == 0 {
			n.PingSent = s.now // failure detection begins with the attempt
		}
		n.Link = &Link{Node: n, CreatedMs: s.now}
		s.out.Dial(n.Link)
	}
	return false
}

// handshakeTimeout is how long a handshake may take, in ms.
func (s *State) handshakeTimeout() int64 { return max(s.Terms.NodeTimeout, 1000) }

// newStranger makes a node in handshake.
func (s *State) newStranger(more bus.Flags) *Node {
	n := s.newNode("", bus.Handshake|more)
	n.stranger, n.metMs = true, s.now
	return n
}

// meetAgain meets a node again that may not know this node, because its own end of the handshake may have timed out. A
// node in handshake sends one ping on a link. A second ping shows that it knows this node.
func (s *State) meetAgain(n *Node) {
	if n.stranger && !n.is(bus.Handshake|bus.NoAddress) && n.Link != nil && n.Link.ready &&
		s.now-n.metMs > s.handshakeTimeout() {
		n.metMs = s.now
		s.ping(n.Link, bus.Meet)
	}
}

// pingOldest picks some random nodes and pings the one with the oldest pong.
func (s *State) pingOldest() {
	var oldest *Node
	for range 5 {
		n := s.nodes[s.rng.IntN(len(s.nodes))]
		if n.Link == nil || !n.Link.ready || n.PingSent != 0 || n.is(bus.Myself|bus.Handshake) {
			continue
		}
		if oldest == nil || n.PongReceived < oldest.PongReceived {
			oldest = n
		}
	}
	if oldest != nil {
		s.ping(oldest.Link, bus.Ping)
	}
}

// watch pings a node if it is time. A node that does not answer becomes PFAIL. watch reports whether the node has just
// become PFAIL.
func (s *State) watch(n *Node) (failed bool) {
	timeout := s.Terms.NodeTimeout
	pingDelay, dataDelay := s.now-n.PingSent, s.now-n.dataReceived
	if n.Link != nil && s.now-n.Link.CreatedMs > timeout && n.PingSent != 0 && pingDelay > timeout/2 &&
		dataDelay > timeout/2 {
		s.hangUp(n.Link) // perhaps only the connection is broken, so it is dialled again
	}
	interval := s.Terms.PingInterval
	if interval == 0 {
		interval = timeout / 2
	}
	if n.Link != nil && n.Link.ready && n.PingSent == 0 && s.now-n.PongReceived > interval {
		s.ping(n.Link, bus.Ping)
		return false
	}
	if s.manualEnd != 0 && s.me.isPrimary() && s.manualNode == n && n.Link != nil && n.Link.ready {
		s.ping(n.Link, bus.Ping)
		return false
	}
	if n.PingSent == 0 || min(pingDelay, dataDelay) <= timeout || n.is(bus.MaybeFailed|bus.Failed) {
		return false
	}
	n.Flags |= bus.MaybeFailed
	if s.me.isPrimary() && s.size == 1 {
		s.markFailed(n)
	}
	return true
}

// addReport records that node by reports n failing. It reports whether that is new.
func (s *State) addReport(n, by *Node) bool {
	for i := range n.reports {
		if n.reports[i].by == by {
			n.reports[i].ms = s.now
			return false
		}
	}
	n.reports = append(n.reports, report{by, s.now})
	return true
}

// withdrawReport records that node by reports n healthy again.
func (s *State) withdrawReport(n, by *Node) bool {
	for i := range n.reports {
		if n.reports[i].by == by {
			n.reports = append(n.reports[:i], n.reports[i+1:]...)
			s.countReports(n)
			return true
		}
	}
	return false
}

// countReports drops old reports and returns how many remain.
func (s *State) countReports(n *Node) int {
	kept := n.reports[:0]
	for _, r := range n.reports {
		if s.now-r.ms <= 2*s.Terms.NodeTimeout {
			kept = append(kept, r)
		}
	}
	n.reports = kept
	return len(kept)
}

// Reports counts the nodes that report n failing, for CLUSTER COUNT-FAILURE-REPORTS.
func (s *State) Reports(n *Node) int { return s.countReports(n) }

// quorum returns how many primaries are a majority.
func (s *State) quorum() int { return s.size/2 + 1 }

// markFailed turns PFAIL into FAIL if a majority of primaries reports it.
func (s *State) markFailed(n *Node) {
	if !n.is(bus.MaybeFailed) || n.is(bus.Failed) {
		return
	}
	failures := s.countReports(n)
	if s.me.isPrimary() {
		failures++
	}
	if failures < s.quorum() {
		return
	}
	s.log(logging.LevelNotice, "Marking node %s as failing (quorum reached).", n.label())
	n.Flags = n.Flags&^bus.MaybeFailed | bus.Failed
	n.failedMs = s.now
	m := s.message(bus.Fail)
	m.About = n.ID
	s.broadcast(m, nil)
	s.Changed = true
	s.save(false)
	s.todo |= todoUpdate
}

// undoFailed clears FAIL of a node that answers. For a node without slots it does so at once. For a primary it does so
// later, if no other node has taken over its slots.
func (s *State) undoFailed(n *Node) {
	switch {
	case n.isReplica() || n.NumSlots == 0:
		what := "master without slots"
		if n.isReplica() {
			what = "replica"
		}
		s.log(logging.LevelNotice, "Clear FAIL state for node %s:%s is reachable again.", n.label(), what)
	case n.isPrimary() && s.now-n.failedMs > 2*s.Terms.NodeTimeout:
		s.log(logging.LevelNotice,
			"Clear FAIL state for node %s: is reachable again and nobody is serving its slots after some time.",
			n.label())
	default:
		return
	}
	n.Flags &^= bus.Failed
	s.Changed = true
	s.save(false)
	s.todo |= todoUpdate
}

// Delays, in ms, before a primary serves again.
const (
	writableDelay  = 2000 // after a start: another node may have taken over
	maxRejoinDelay = 5000 // after a partition in which this node was in the minority
	minRejoinDelay = 500
)

// rejoinDelay is how long, in ms, a primary that comes back from a minority serves no client.
func (s *State) rejoinDelay() int64 {
	return min(max(s.Terms.NodeTimeout, minRejoinDelay), maxRejoinDelay)
}

// updateState decides whether this node may serve.
func (s *State) updateState() {
	if s.firstUpdate == 0 {
		s.firstUpdate = s.now
	}
	size, reachable, covered := 0, 0, 0
	for _, n := range s.nodes {
		if !n.is(bus.Failed) {
			covered += n.NumSlots
		}
		if n.isPrimary() && n.NumSlots > 0 {
			size++
			if !n.is(bus.Failed | bus.MaybeFailed) {
				reachable++
			}
		}
	}
	s.size = size
	if s.me.isPrimary() && !s.ok && (!s.isProven() || s.now-s.firstUpdate < writableDelay) {
		return
	}
	ok := covered == slots.Count || !s.Terms.FullCoverage
	if reachable < s.quorum() {
		ok = false
		s.minorityMs = s.now
	}
	if ok == s.ok {
		return
	}
	if ok && s.me.isPrimary() && s.now-s.minorityMs < s.rejoinDelay() {
		return
	}
	s.ok = ok
	s.Changed = true
	if ok {
		s.log(logging.LevelNotice, "Cluster state changed: ok")
	} else {
		s.log(logging.LevelWarning, "Cluster state changed: fail")
	}
}
