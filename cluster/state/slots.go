package state

import (
	"spindle/cluster/bus"
	"spindle/internal/logging"
	"spindle/internal/slots"
)

// assign gives a slot without owner to n.
func (s *State) assign(n *Node, slot int) bool {
	if s.owners[slot] != nil {
		return false
	}
	if !n.slots.Has(slot) {
		n.slots.Add(slot)
		n.NumSlots++
		n.slotText = nil
		if n.NumSlots == 1 && s.anyReplicas() {
			n.Flags |= bus.MigrateTo // a new primary may be given replicas if the others have some
		}
	}
	s.owners[slot] = n
	s.Changed = true
	return true
}

// unassign takes a slot from its owner.
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

// anyReplicas says whether some primary has replicas.
func (s *State) anyReplicas() bool {
	for _, n := range s.nodes {
		if !n.isReplica() && len(n.Replicas) > 0 {
			return true
		}
	}
	return false
}

// moveAll gives all slots of from to another node, or to nobody. It counts them.
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

// unclaimed says that nobody has the slot, or that its owner has stopped to claim it.
func (s *State) unclaimed(slot int) bool { return s.owners[slot] == nil || s.notOwn.Has(slot) }

// serves says whether a node has a slot that it has not stopped to claim.
func (s *State) serves(n *Node) bool {
	for slot, owner := range s.owners {
		if owner == n && !s.notOwn.Has(slot) {
			return true
		}
	}
	return false
}

// closeAll forgets which slots are on their way.
func (s *State) closeAll() {
	clear(s.moving)
	clear(s.coming)
	s.Changed = true
}

// claims takes what a primary says of its slots: it gets those that nobody has with a greater epoch.
func (s *State) claims(n *Node, epoch uint64, claimed *bus.Bitmap) {
	if n == s.me {
		s.log(logging.LevelNotice, "Discarding UPDATE message about myself.")
		return
	}
	primary := s.me // whose slots this node serves
	if !s.me.isPrimary() {
		primary = s.me.Primary
	}
	var successor *Node
	var dirty []uint16 // slots that were this node's and hold keys
	count, lost := 0, 0
	for slot := range slots.Count {
		owner := s.owners[slot]
		if !claimed.Has(slot) {
			if owner == n {
				// The slot stays where it was until somebody claims it: clients are redirected once more, but none
				// fails.
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
			continue // a slot that is imported is closed by hand
		}
		if !s.unclaimed(slot) && owner.Epoch >= epoch {
			continue
		}
		if owner == s.me && s.out.Keys(slot) > 0 {
			dirty = append(dirty, uint16(slot))
		}
		if owner != nil && owner == primary {
			successor = n
			lost++
		}
		s.unassign(slot)
		s.assign(n, slot)
		s.todo |= todoUpdate
		s.save(true)
	}
	switch {
	case successor != nil && primary != nil && primary.NumSlots == 0 && (s.Terms.AllowMigration || count == lost):
		s.log(logging.LevelNotice, "Configuration change detected. Reconfiguring myself as a replica of %s", n.label())
		s.setPrimary(n)
		s.todo |= todoUpdate
		s.save(true)
	case s.me.Primary != nil && s.me.Primary.Primary != nil && s.me.Primary.Primary != s.me:
		grand := s.me.Primary.Primary
		s.log(logging.LevelNotice, "I'm a sub-replica! Reconfiguring myself as a replica of grandmaster %s", grand.label())
		s.setPrimary(grand)
		s.todo |= todoUpdate
		s.save(true)
	case len(dirty) > 0:
		s.out.Ask(Errand{Kind: Drop, Slots: dirty})
	}
}

// becomePrimary notes that a node is a primary.
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
	s.setShard(me, n.ShardID)
	n.addReplica(me)
	s.Changed = true
	s.follow(n)
	s.resetManual()
}

// follow has the core replicate n.
func (s *State) follow(n *Node) {
	port := s.replicationPort(n)
	s.following = address(n.IP, port)
	s.out.Ask(Errand{Kind: Follow, Host: n.IP, Port: port})
}

// setShard notes which shard a node belongs to. A replica follows its primary.
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

// maxEpoch is the greatest config epoch known.
func (s *State) maxEpoch() uint64 {
	m := s.current
	for _, n := range s.nodes {
		m = max(m, n.Epoch)
	}
	return m
}

// raiseEpoch gives this node an epoch of its own without asking anybody, unless it has the greatest.
func (s *State) raiseEpoch() bool {
	if s.me.Epoch != 0 && s.me.Epoch == s.maxEpoch() {
		return false
	}
	s.current++
	s.me.Epoch = s.current
	s.save(true)
	s.log(logging.LevelNotice, "New configEpoch set to %d", s.me.Epoch)
	return true
}

// resolveCollision takes another epoch if a primary with a greater ID has ours.
func (s *State) resolveCollision(n *Node) {
	if n.Epoch != s.me.Epoch || !n.isPrimary() || !s.me.isPrimary() || n.ID <= s.me.ID {
		return
	}
	s.current++
	s.me.Epoch = s.current
	s.save(true)
	s.log(logging.LevelVerbose, "WARNING: configEpoch collision with node %s. configEpoch set to %d",
		n.label(), s.me.Epoch)
}
