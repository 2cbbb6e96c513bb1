package state

import (
	"bytes"

	"spindle/cluster/bus"
	"spindle/internal/logging"
)

// Accept makes the link for a connection that a peer has opened.
func (s *State) Accept(peer, local string, handle any, queued func() int64) *Link {
	return &Link{Inbound: true, CreatedMs: s.now, Peer: peer, Local: local, Handle: handle, Queued: queued, ready: true}
}

// Connected notes that a dialled link is connected. It sends a ping at once, so that a node that has come back is not
// marked failed.
func (s *State) Connected(l *Link) {
	n := l.Node
	if l.closed {
		return
	}
	l.ready = true
	n.told, n.heard = 0, 0
	n.pinged, n.ponged, n.claimPing, n.lossPing = 0, 0, 0, 0
	before, typ := n.PingSent, bus.Ping
	if n.is(bus.ToMeet) {
		typ = bus.Meet
	}
	s.ping(l, typ)
	if before != 0 {
		n.PingSent = before // the ping of the earlier link is still unanswered
	}
	n.Flags &^= bus.ToMeet
	if n == s.me.Primary {
		s.askManual()
	}
}

// Lost notes that a link is gone. The driver has closed it.
func (s *State) Lost(l *Link) {
	if !l.closed {
		s.detach(l)
	}
}

// Closed reports whether the state no longer uses the link.
func (l *Link) Closed() bool { return l.closed }

// Refused counts, by type, a message that could not be read, or that Receive has refused.
func (s *State) Refused(typ bus.Type) {
	if typ < bus.Types {
		s.received[typ]++
	}
}

// Receive handles a message of l.
func (s *State) Receive(l *Link, m *bus.Message) {
	if l.closed {
		return
	}
	s.Refused(m.Type) // it counts in any case
	if int(m.Type) == s.DropType {
		s.log(logging.LevelWarning, "Dropping packet that matches debug drop filter")
		return
	}
	if m.Sender == s.me.ID {
		s.mirrored(l, m)
		return
	}
	sender := s.senderOf(l, m)
	if sender != nil {
		sender.dataReceived = s.now
	}
	if sender != nil && !sender.is(bus.Handshake) {
		s.learn(sender, m)
	}
	switch m.Type {
	case bus.Ping, bus.Pong, bus.Meet:
		s.heartbeat(l, sender, m)
	case bus.Fail:
		s.hearFailed(sender, m)
	case bus.Publish, bus.PublishShard:
		if sender != nil {
			s.out.Ask(Errand{Kind: Deliver, Channel: bytes.Clone(m.Channel), Payload: bytes.Clone(m.Payload),
				Shard: m.Type == bus.PublishShard})
		}
	case bus.VoteRequest:
		if sender != nil {
			s.considerVote(sender, m)
		}
	case bus.Vote:
		// A node has one vote in each election. A vote that comes between two elections belongs to the earlier one.
		if s.asked && sender != nil && sender.isPrimary() && sender.NumSlots > 0 && m.CurrentEpoch >= s.electionEpoch &&
			sender.voteEpoch < s.electionEpoch {
			sender.voteEpoch = s.electionEpoch
			s.votes++
			s.todo |= todoFailover
		}
	case bus.ManualStart:
		s.startHolding(l, sender)
	case bus.Update:
		s.update(sender, m)
	case bus.Module:
	default:
		s.log(logging.LevelWarning, "Received unknown packet type: %d", m.Type)
	}
}

// mirrored handles a message with this node's own ID, and ignores its content. If the message came on a link that this
// node has dialled, the dialled address is this node's own.
func (s *State) mirrored(l *Link, m *bus.Message) {
	switch {
	case l.Inbound:
		if m.Type == bus.Meet && l.Node == nil {
			s.ping(l, bus.Pong) // from the reply, the dialling end learns that it has met itself
		}
	case l.Node.is(bus.Handshake):
		s.log(logging.LevelVerbose, "Handshake: the node at %s is this one", l.Node.IP)
		s.remove(l.Node)
	default:
		s.identify(l, nil, m)
	}
}

// senderOf returns the sender of m. It returns nil if the sender is unknown, or is not the link's node because another
// node has the address now. It attaches an inbound link to its sender.
func (s *State) senderOf(l *Link, m *bus.Message) *Node {
	if l.Node != nil && !l.Node.is(bus.Handshake) {
		if l.Node.ID != m.Sender {
			return nil
		}
		return l.Node
	}
	n := s.byID[m.Sender]
	if n != nil && l.Node == nil {
		s.hangUp(n.Incoming) // the peer has connected again
		n.Incoming, l.Node = l, n
	}
	return n
}

// learn records the epochs and the offset of a known node. It takes a config epoch only from a heartbeat, whose slots
// are looked at too (state.C3).
func (s *State) learn(n *Node, m *bus.Message) {
	if m.CurrentEpoch > s.current {
		s.current = m.CurrentEpoch
		s.save(true) // the answer is a promise to vote for no lower epoch (state.T5)
		s.rumourMs = s.now + s.voting()
	}
	beats := m.Type == bus.Ping || m.Type == bus.Pong || m.Type == bus.Meet
	if beats && m.ConfigEpoch > n.Epoch {
		n.Epoch = m.ConfigEpoch
		s.save(false)
	}
	n.Offset = m.Offset
	if s.manualEnd != 0 && s.me.isReplica() && s.me.Primary == n && m.Paused && s.manualOffset == -1 {
		s.manualOffset = n.Offset
		s.todo |= todoManual
		s.log(logging.LevelNotice, "Received replication offset for paused master manual failover: %d", s.manualOffset)
	}
}

// heartbeat handles a ping, a pong or a meet.
func (s *State) heartbeat(l *Link, sender *Node, m *bus.Message) {
	news := false // the peer turns out to know extensions
	if m.Extensions.Asks || m.Extensions.ShardID != "" {
		l.extends = true
		if sender != nil {
			news, sender.extends = !sender.extends, true
		}
	}
	if m.Extensions.Asks || m.Extensions.HasZone {
		l.zoned = true
		if sender != nil {
			sender.zoned = true
		}
	}
	if m.Type == bus.Ping && l.Inbound { // see meetAgain
		if l.pinged && sender != nil {
			sender.stranger = false
		}
		l.pinged = true
	}
	if m.Type != bus.Pong {
		s.answer(l, sender, m)
	}
	if !l.Inbound && !s.identify(l, sender, m) {
		return
	}
	if sender != nil {
		sender.Flags = sender.Flags&^bus.NoFailover | m.Flags&bus.NoFailover
		if m.Type == bus.Ping && !sender.is(bus.Handshake) && s.updateAddress(sender, l, m) {
			s.save(false)
			s.todo |= todoUpdate
		}
		// A third node may have told the primary's new address. The core follows when the primary itself answers there.
		if at := address(sender.IP, s.replicationPort(sender)); l == sender.Link && sender == s.me.Primary &&
			s.following != "" && s.following != at {
			s.follow(sender, true)
		}
	}
	if !l.Inbound && m.Type == bus.Pong {
		s.answered(l.Node)
	}
	if sender == nil {
		return
	}
	if !s.outdated(sender, m) {
		s.hearFormer(sender, m)
		s.learnRole(sender, m)
		s.compareSlots(sender, m)
		if !l.Inbound && m.Type == bus.Pong {
			s.hearLoss(sender, m)
		}
	}
	if s.me.isPrimary() && sender.isPrimary() && m.ConfigEpoch == s.me.Epoch {
		s.resolveCollision(sender)
	}
	s.takeGossip(l, m)
	if s.byID[sender.ID] != sender {
		return
	}
	s.takeExtensions(sender, m)
	if news && !l.Inbound && !l.closed {
		s.ping(l, bus.Pong) // so far the peer only got the host name
	}
}

// answer handles the first steps of a ping or a meet.
func (s *State) answer(l *Link, sender *Node, m *bus.Message) {
	if (m.Type == bus.Meet || s.me.IP == "") && s.Terms.AnnounceIP == "" && l.Local != "" && l.Local != s.me.IP {
		s.me.IP = l.Local
		s.log(logging.LevelNotice, "IP address for this node updated to %s", s.me.IP)
		s.Changed = true
		s.save(false)
	}
	if sender == nil && m.Type == bus.Meet && saneAddress(m.IP) && !s.keepsOut(l, m) {
		n := s.newStranger(0)
		n.IP = m.IP
		if n.IP == "" {
			n.IP = l.Peer
		}
		n.Port, n.TLSPort = s.ports(m.Port, m.Port2)
		n.BusPort, n.extends, n.zoned = m.BusPort, l.extends, l.zoned
		s.add(n)
		s.save(false)
		s.takeGossip(l, m) // a peer that sends MEET is trusted
	}
	s.ping(l, bus.Pong)
}

// keepsOut reports whether a MEET comes from a forgotten node that meets this one again by itself (meetAgain). It then
// stays out for longer. An operator's MEET is the first message of its link, and always counts.
func (s *State) keepsOut(l *Link, m *bus.Message) bool {
	if !l.pinged || !s.forgotten(m.Sender) {
		return false
	}
	s.black[m.Sender] = max(s.black[m.Sender], s.now/1000+s.Terms.ForgetSeconds)
	return true
}

// identify checks that the peer of a dialled link is the expected node. It reports whether the link stays open.
func (s *State) identify(l *Link, sender *Node, m *bus.Message) bool {
	n := l.Node
	switch {
	case n.is(bus.Handshake):
		if sender != nil {
			s.log(logging.LevelVerbose, "Handshake: we already know node %s, updating the address if needed.", sender.label())
			if s.updateAddress(sender, l, m) {
				s.save(false)
				s.todo |= todoUpdate
			}
			s.remove(n)
			return false
		}
		if !bus.ValidID(m.Sender) {
			s.log(logging.LevelWarning, "Handshake: the node at %s has no valid ID", n.IP)
			s.remove(n)
			return false
		}
		s.rename(n, m.Sender)
		n.extends, n.zoned = l.extends, l.zoned
		n.Flags = n.Flags&^bus.Handshake | m.Flags&(bus.Primary|bus.Replica)
		s.save(false)
	case n.ID != m.Sender:
		// Another node has the address now.
		n.Flags |= bus.NoAddress
		n.IP, n.Port, n.TLSPort, n.BusPort = "", 0, 0, 0
		s.Changed = true
		s.hangUp(l)
		s.save(false)
		return false
	}
	return true
}

// updateAddress records a node's address from the node's own connection. It reports whether the address has changed.
func (s *State) updateAddress(n *Node, l *Link, m *bus.Message) bool {
	if l == n.Link {
		return false
	}
	ip := m.IP
	if ip == "" {
		ip = l.Peer
	}
	plain, tls := s.ports(m.Port, m.Port2)
	if ip == "" || !saneAddress(ip) || n.IP == ip && n.Port == plain && n.TLSPort == tls && n.BusPort == m.BusPort {
		return false
	}
	n.IP, n.Port, n.TLSPort, n.BusPort = ip, plain, tls, m.BusPort
	s.hangUp(n.Link)
	n.Flags &^= bus.NoAddress
	s.Changed = true
	s.log(logging.LevelNotice, "Address updated for node %s, now %s:%d", n.label(), n.IP, s.clientPort(n))
	if s.me.isReplica() && s.me.Primary == n {
		s.follow(n, s.following != "")
	}
	return true
}

// answered records a pong.
func (s *State) answered(n *Node) {
	n.PongReceived, n.PingSent, n.heard, n.heardMs = s.now, 0, n.told, s.now
	n.ponged++
	switch {
	case n.is(bus.MaybeFailed):
		n.Flags &^= bus.MaybeFailed
		s.save(false)
		s.todo |= todoUpdate
	case n.is(bus.Failed):
		s.undoFailed(n)
	}
}

// outdated reports whether m is a late message in which n calls itself a replica, from before n won slots with a
// greater epoch. If this node believed it, the slots would stay with a replica. Their epoch would be that of n's
// primary, so no later primary could claim them.
func (s *State) outdated(n *Node, m *bus.Message) bool {
	primary := s.byID[m.Primary]
	if n.isReplica() || primary == nil || primary.ShardID != n.ShardID || n.Epoch <= m.ConfigEpoch || !s.serves(n) {
		return false
	}
	s.log(logging.LevelNotice,
		"Ignore stale message from %s in shard %s; gossip config epoch: %d, current config epoch: %d",
		n.label(), n.ShardID, m.ConfigEpoch, n.Epoch)
	return true
}

// learnRole records the role that the sender states.
func (s *State) learnRole(n *Node, m *bus.Message) {
	if m.Primary == "" {
		if n.isReplica() {
			n.Epoch = m.ConfigEpoch // before, it has told its primary's
		}
		s.becomePrimary(n)
		return
	}
	primary := s.byID[m.Primary]
	if n.isPrimary() {
		s.demote(n, primary, m)
	}
	if primary != nil && n.Primary != primary && n != primary {
		if n.Primary != nil {
			n.Primary.removeReplica(n)
		}
		primary.addReplica(n)
		n.Primary = primary
		s.setShard(n, primary.ShardID)
		s.Changed = true
		s.save(false)
	}
	// The new primary may never say so here with a claim to slots: demote has given it the slots already.
	s.followUp()
}

// demote records that a primary has become a replica.
func (s *State) demote(n, primary *Node, m *bus.Message) {
	// If this node follows a third one, n has not heard of a later failover. It does not make this node a primary.
	late := primary == s.me && s.me.Primary != nil && s.me.Primary != n
	if primary == nil || primary.ShardID != n.ShardID || late {
		lost := s.moveAll(n, nil)
		s.log(logging.LevelNotice, "Node %s is no longer master of shard %s; removed all %d slot(s) it used to own",
			n.label(), n.ShardID, lost)
		if primary != nil {
			s.log(logging.LevelNotice, "Node %s is now part of shard %s", n.label(), primary.ShardID)
		}
	} else if n.Epoch <= m.ConfigEpoch { // a failover within the shard
		// Before the failover n may have given slots to another node. That node's claim may yet come, with a lower
		// epoch (state.C3). So the slots that the heir has not claimed stay open.
		claimed := *m.Slots
		if primary.Epoch > m.ConfigEpoch {
			claimed = bus.Bitmap{}
		}
		left := n.slots
		lost := s.moveAll(n, primary)
		for i := range left {
			s.notOwn[i] |= left[i] &^ claimed[i]
		}
		if primary == s.me && s.me.isReplica() {
			s.resume()
		}
		s.becomePrimary(primary)
		primary.Epoch = max(primary.Epoch, m.ConfigEpoch)
		s.log(logging.LevelNotice,
			"A failover occurred in shard %s; node %s lost %d slot(s) to node %s with a config epoch of %d",
			n.ShardID, n.label(), lost, primary.label(), primary.Epoch)
	}
	n.Flags = n.Flags&^(bus.Primary|bus.MigrateTo) | bus.Replica
	s.Changed = true
	s.save(false)
	s.todo |= todoUpdate
}

// compareSlots handles the slots that the sender, or its primary, claims.
func (s *State) compareSlots(n *Node, m *bus.Message) {
	primary := n
	if !n.isPrimary() {
		primary = n.Primary
	}
	if primary == nil || primary.slots == *m.Slots && !primary.slots.Meets(&s.notOwn) {
		return
	}
	if n.isPrimary() {
		s.claims(n, m.ConfigEpoch, m.Slots)
	}
	for slot, owner := range s.owners {
		if !m.Slots.Has(slot) || owner == n || s.unclaimed(slot) || owner.Epoch <= m.ConfigEpoch {
			continue
		}
		s.log(logging.LevelVerbose, "Node %s has old slots configuration, sending an UPDATE message about %s", n.ID, owner.ID)
		s.sendUpdate(n.Link, owner)
		return
	}
	if primary != n && primary.Epoch > m.ConfigEpoch {
		s.sendUpdate(n.Link, primary) // a replica that has missed a claim, and may know no slot of its primary
	}
}

// hearFailed handles a FAIL message.
func (s *State) hearFailed(sender *Node, m *bus.Message) {
	if sender == nil {
		s.log(logging.LevelNotice, "Ignoring FAIL message from unknown node %q about %q", m.Sender, m.About)
		return
	}
	n := s.byID[m.About]
	if n == nil {
		return
	}
	n.toldFailedMs = s.now
	if n.is(bus.Failed | bus.Myself) {
		if n == sender {
			n.failedMs = s.now // it has resigned, and still has (state.Q5)
		}
		return
	}
	s.log(logging.LevelNotice, "FAIL message received from %s about %s", sender.label(), n.label())
	n.Flags = n.Flags&^bus.MaybeFailed | bus.Failed
	n.failedMs = s.now
	s.Changed = true
	s.save(false)
	s.todo |= todoUpdate
}

// update handles an UPDATE message, which says that a node has slots with a greater epoch than this node knew. No other
// node decides this node's epoch.
func (s *State) update(sender *Node, m *bus.Message) {
	n := s.byID[m.About]
	if sender == nil || n == nil || n.Epoch >= m.UpdateEpoch {
		return
	}
	if n == s.me {
		s.log(logging.LevelNotice, "Discarding UPDATE message about myself.")
		return
	}
	if n.isReplica() {
		s.becomePrimary(n)
	}
	n.Epoch = m.UpdateEpoch
	s.save(true)
	s.claims(n, m.UpdateEpoch, m.UpdateSlots)
}
