package state

import (
	"spindle/cluster/bus"
	"spindle/internal/logging"
	"spindle/internal/slots"
)

// assign gives a slot that has no owner to n. It reports whether it did.
func (s *State) assign(n *Node, slot int) bool {
	if s.owners[slot] != nil {
		return false
	}
	if !n.slots.Has(slot) {
		n.slots.Add(slot)
		n.NumSlots++
		n.slotText = nil
		if n.NumSlots == 1 && s.anyReplicas() {
			n.Flags |= bus.MigrateTo // replicas may move to a new primary if other primaries have some
		}
	}
	s.owners[slot] = n
	if n == s.me {
		s.lost.Remove(slot)
	}
	s.Changed = true
	return true
}

// unassign removes a slot from its owner.
func (s *State) unassign(slot int) bool {
	n := s.owners[slot]
	if n == nil {
		return false
	}
	n.slots.Remove(slot)
	n.NumSlots--
	n.slotText = nil
	s.owners[slot] = nil
	s.notOwn.Remove(slot)
	s.Changed = true
	return true
}

// anyReplicas reports whether any primary has replicas.
func (s *State) anyReplicas() bool {
	for _, n := range s.nodes {
		if !n.isReplica() && len(n.Replicas) > 0 {
			return true
		}
	}
	return false
}

// moveAll moves all slots of from to another node, or unassigns them if to is nil. It returns their number.
func (s *State) moveAll(from, to *Node) (moved int) {
	for slot := range slots.Count {
		if from.slots.Has(slot) {
			s.unassign(slot)
			if to != nil {
				s.assign(to, slot)
			}
			moved++
		}
	}
	return moved
}

// unclaimed reports whether a slot has no owner, or its owner no longer claims it.
func (s *State) unclaimed(slot int) bool { return s.owners[slot] == nil || s.notOwn.Has(slot) }

// serves reports whether a node owns a slot that it still claims.
func (s *State) serves(n *Node) bool {
	for slot, owner := range s.owners {
		if owner == n && !s.notOwn.Has(slot) {
			return true
		}
	}
	return false
}

// closeAll forgets all migrating and importing slots.
func (s *State) closeAll() {
	clear(s.moving)
	clear(s.coming)
	s.Changed = true
}

// claims handles a primary's claim to slots. The primary gets the slots that no node claims with a greater epoch.
func (s *State) claims(n *Node, epoch uint64, claimed *bus.Bitmap) {
	primary := s.me // the primary whose slots this node serves
	if !s.me.isPrimary() {
		primary = s.me.Primary
	}
	var successor *Node
	dirty := false // slots that were this node's hold keys
	count, lost := 0, 0
	for slot := range slots.Count {
		owner := s.owners[slot]
		if !claimed.Has(slot) {
			if owner == n {
				// The slot keeps its owner until another node claims it. A client may be redirected once more, but gets
				// no error.
				s.notOwn.Add(slot)
			}
			continue
		}
		count++
		if owner == n {
			s.notOwn.Remove(slot)
			continue
		}
		if s.coming[slot] != nil {
			continue // an importing slot is only closed by an operator
		}
		if epoch < n.Epoch && owner != nil {
			continue // a late message: n may have given the slot up since (state.C3)
		}
		wins := epoch
		if owner == s.me && s.yields(n, slot) {
			wins++
		}
		if !s.unclaimed(slot) && owner.Epoch >= wins {
			continue
		}
		dirty = dirty || owner == s.me && s.out.Keys(slot) > 0
		if owner != nil && owner == primary {
			successor = n
			s.lost.Add(slot)
			s.out.Mark(slot)
			lost++
		}
		s.unassign(slot)
		s.assign(n, slot)
		if epoch < n.Epoch {
			s.notOwn.Add(slot) // n has started with an older nodes.conf, or the message is late: its next claim shows it
		}
		s.todo |= todoUpdate
		s.save(true)
	}
	switch {
	case successor != nil && primary != nil && primary.NumSlots == 0 && (s.Terms.AllowMigration || count == lost):
		s.log(logging.LevelNotice, "Configuration change detected. Reconfiguring myself as a replica of %s", n.label())
		s.setPrimary(n)
		s.todo |= todoUpdate
		s.save(true)
	case s.followUp():
	case dirty:
		s.leave()
	}
}

// followUp makes this node a replica of its primary's primary, if there is one. It reports whether it did.
func (s *State) followUp() bool {
	if s.me.Primary == nil || s.me.Primary.Primary == nil || s.me.Primary.Primary == s.me {
		return false
	}
	grand := s.me.Primary.Primary
	s.log(logging.LevelNotice, "I'm a sub-replica! Reconfiguring myself as a replica of grandmaster %s", grand.label())
	s.setPrimary(grand)
	s.todo |= todoUpdate
	s.save(true)
	return true
}

// becomePrimary records that a node is a primary.
func (s *State) becomePrimary(n *Node) {
	if n.isPrimary() {
		return
	}
	if n.Primary != nil {
		n.Primary.removeReplica(n)
		if n != s.me {
			n.Flags |= bus.MigrateTo
		}
	}
	n.Flags = n.Flags&^bus.Replica | bus.Primary
	n.Primary = nil
	s.Changed = true
	s.save(false)
	s.todo |= todoUpdate
}

// setPrimary makes this node a replica of n.
func (s *State) setPrimary(n *Node) {
	me := s.me
	if me.isPrimary() {
		me.Flags = me.Flags&^(bus.Primary|bus.MigrateTo) | bus.Replica
		s.closeAll()
	} else if me.Primary != nil {
		me.Primary.removeReplica(me)
	}
	me.Primary = n
	s.leaveBy, s.rivalMs, s.restarted, s.leading = 0, 0, false, false
	if n.ShardID == me.ShardID {
		s.noteDropped() // the heir may end before it has removed the other keys
	} else {
		s.lost = bus.Bitmap{}
	}
	s.setShard(me, n.ShardID)
	n.addReplica(me)
	s.Changed = true
	s.endElection()
	s.follow(n, false)
	s.resetManual()
	if n.Link != nil && n.Link.ready {
		s.ping(n.Link, bus.Pong) // n waits for its replicas before it removes keys (state.L1)
	}
}

// follow makes the core replicate from n. same means that the core followed n before, at another address.
func (s *State) follow(n *Node, same bool) {
	port := s.replicationPort(n)
	s.following = address(n.IP, port)
	s.out.Ask(Errand{Kind: Follow, Host: n.IP, Port: port, Same: same})
}

// setShard records a node's shard. A replica gets its primary's shard.
func (s *State) setShard(n *Node, shard string) {
	if shard == "" {
		return
	}
	if n.ShardID != shard {
		n.ShardID = shard
		s.save(false)
	}
	if me := s.me; me != n && me.Primary == n && me.ShardID != shard {
		me.ShardID = shard
		s.save(true)
	}
}

// maxEpoch returns the greatest known config epoch.
func (s *State) maxEpoch() uint64 {
	m := s.current
	for _, n := range s.nodes {
		m = max(m, n.Epoch)
	}
	return m
}

// raiseEpoch gives this node a new unique epoch without a vote, unless its epoch is the greatest already.
func (s *State) raiseEpoch() bool {
	if s.me.Epoch != 0 && s.me.Epoch == s.maxEpoch() {
		return false
	}
	s.newEpoch()
	return true
}

// newEpoch gives this node an epoch above all that it knows.
func (s *State) newEpoch() {
	s.current = s.maxEpoch() + 1
	s.me.Epoch = s.current
	s.save(true)
	s.log(logging.LevelNotice, "New configEpoch set to %d", s.me.Epoch)
}

// resolveCollision raises this node's epoch if a primary with a greater ID has the same one. It waits for the end of an
// election among this node's replicas: this node would beat the winner (state.T4). It waits for the end of a reclaim,
// too (state.T5).
func (s *State) resolveCollision(n *Node) {
	if n.Epoch != s.me.Epoch || !n.isPrimary() || !s.me.isPrimary() || n.ID <= s.me.ID || s.Contested() ||
		len(s.reclaims) > 0 {
		return
	}
	s.current++
	s.me.Epoch = s.current
	s.save(true)
	s.log(logging.LevelNotice, "WARNING: configEpoch collision with node %s. configEpoch set to %d; both had %d",
		n.label(), s.me.Epoch, n.Epoch)
}

// Slots that another node has taken from this node's shard are noted in nodes.conf (lost), until they come back. Their
// keys are removed. But a server may end before it has removed all, or start with an older file that has them. A node
// that did not know would show an operator such keys as a move that was broken off.

// Leftovers returns the lost slots that still have keys here.
func (s *State) Leftovers() (list []uint16) {
	for slot := s.lost.Next(0, true); slot < slots.Count; slot = s.lost.Next(slot+1, true) {
		if s.Leftover(slot) {
			list = append(list, uint16(slot))
		}
	}
	return list
}

// Leftover reports whether a slot is lost, and still has keys here. A slot without owner is not: its keys may be the
// last ones.
func (s *State) Leftover(slot int) bool {
	owner := s.owners[slot]
	return s.lost.Has(slot) && owner != nil && owner != s.me && owner != s.me.Primary && s.coming[slot] == nil &&
		s.out.Keys(slot) > 0
}

// dropLost removes the keys of lost slots, at the start and when this node has taken over from its primary. The primary
// may have ended, or become a replica, before it had removed all of them.
func (s *State) dropLost() {
	if dirty := s.Leftovers(); len(dirty) > 0 {
		s.log(logging.LevelNotice, "Removing the keys of %d slots that other nodes have taken", len(dirty))
		s.leave()
	}
}

// noteDropped has a replica forget lost slots whose keys are gone, or were gone for a moment. Keys that come to such a
// slot later are to stay: an operator may bring the slot back to the primary key by key. A full copy of the primary's
// data may have leftovers or such keys. They stay, too.
func (s *State) noteDropped() {
	for slot := s.lost.Next(0, true); slot < slots.Count; slot = s.lost.Next(slot+1, true) {
		if !s.out.Marked(slot) {
			s.lost.Remove(slot)
			s.save(false)
		}
	}
}
