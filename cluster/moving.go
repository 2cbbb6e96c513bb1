package cluster

import (
	"slices"

	"spindle/cluster/state"
)

// This file implements slotmove.Cluster: the node for moves of whole slots.

// Me returns this node's ID.
func (c *Cluster) Me() (id string) {
	c.look(func(s *state.State) { id = s.Me().ID })
	return id
}

// Shard returns the ID of this node's primary, or its own ID if it is a primary.
func (c *Cluster) Shard() (id string) {
	c.look(func(s *state.State) {
		if id = s.Me().ID; s.Me().Primary != nil {
			id = s.Me().Primary.ID
		}
	})
	return id
}

// Peer returns the address from which another node is replicated. label is the node's human name, which may be empty.
func (c *Cluster) Peer(id string) (host string, port int, label string, known bool) {
	c.look(func(s *state.State) {
		if n := s.Lookup(id); n != nil {
			host, port = s.Replicated(n)
			label, known = n.HumanName, true
		}
	})
	return host, port, label, known
}

// Owner returns the ID of the one owner of all slots of a list, or "" if there is none. It reads one state of the
// published map, or nodes.conf before there is a map.
func (c *Cluster) Owner(slots ...uint16) (id string) {
	if m := c.parts.Current.Load(); m != nil {
		if n := soleOwner(slots, m.Owner); n != nil {
			id = n.ID
		}
		return id
	}
	c.look(func(s *state.State) {
		if n := soleOwner(slots, func(slot uint16) *state.Node { return s.Owner(int(slot)) }); n != nil {
			id = n.ID
		}
	})
	return id
}

// soleOwner returns the node that owns all slots of a list, or nil if there is none.
func soleOwner[Node comparable](slots []uint16, of func(slot uint16) Node) (owner Node) {
	if len(slots) == 0 || slices.ContainsFunc(slots, func(slot uint16) bool { return of(slot) != of(slots[0]) }) {
		return owner
	}
	return of(slots[0])
}

// Manual reports whether an operator moves single slots away, or moves some here, by SETSLOT.
func (c *Cluster) Manual() (away, here bool) {
	c.look(func(s *state.State) { away, here = s.Manual() })
	return away, here
}

// Leftovers returns the slots that other nodes have taken, and that still have keys here. Such keys are being removed.
func (c *Cluster) Leftovers() (list []uint16) {
	c.look(func(s *state.State) { list = s.Leftovers() })
	return list
}

// Leaving reports whether the removal of such keys waits for this node's replicas.
func (c *Cluster) Leaving() (leaving bool) {
	c.look(func(s *state.State) { leaving = s.Leaving() })
	return leaving
}

// Epoch returns the config epoch of another node, or 0 if the node is not known.
func (c *Cluster) Epoch(id string) (epoch uint64) {
	c.look(func(s *state.State) {
		if n := s.Lookup(id); n != nil {
			epoch = n.Epoch
		}
	})
	return epoch
}

// Claim makes this node the owner of slots that have moved here from another node as a whole. It returns false, and
// changes nothing, if from does not own all of them, has another epoch, or untilMs (steady) has passed. The same holds
// if Contested reports true. done is called in a turn, while no unit is open, when from knows of the claim or this node
// has lost the slots. Between only.
func (c *Cluster) Claim(list []uint16, from string, epoch uint64, untilMs int64, done func()) (claims bool) {
	c.with(func(s *state.State) { claims = s.Claim(list, from, epoch, untilMs, done) })
	c.errands.run()
	return claims
}

// Contested reports whether a replica of this node may be elected, or takes over.
func (c *Cluster) Contested() (contested bool) {
	c.look(func(s *state.State) { contested = s.Contested() })
	return contested
}

// Reclaim raises this node's epoch above that of any earlier claim to slots, when a majority of primaries knows no new
// owner of them. done is called in a turn, while no unit is open, when the epoch is raised or a slot is lost. Between
// only.
func (c *Cluster) Reclaim(list []uint16, done func()) {
	c.with(func(s *state.State) { s.Reclaim(list, done) })
}

// Saved reports whether all decisions so far are on disk. If they are not, done is called once they are, on any
// goroutine.
func (c *Cluster) Saved(done func()) bool { return c.saved(done) }
