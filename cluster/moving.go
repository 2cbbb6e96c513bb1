package cluster

import "spindle/cluster/state"

// This node as moves of whole slots see it: slotmove.Cluster.

// Me returns this node's ID.
func (c *Cluster) Me() (id string) {
	c.look(func(s *state.State) { id = s.Me().ID })
	return id
}

// Peer returns where another node is replicated from. label is its human name; it may be empty.
func (c *Cluster) Peer(id string) (host string, port int, label string, known bool) {
	c.look(func(s *state.State) {
		if n := s.Lookup(id); n != nil {
			host, port = s.Replicated(n)
			label, known = n.HumanName, true
		}
	})
	return host, port, label, known
}

// Owner returns the ID of a slot's owner; "" if there is none. It goes by the published map, and by nodes.conf before
// there is one.
func (c *Cluster) Owner(slot uint16) (id string) {
	if m := c.parts.Current.Load(); m != nil {
		if n := m.Owner(slot); n != nil {
			id = n.ID
		}
		return id
	}
	c.look(func(s *state.State) {
		if n := s.Owner(int(slot)); n != nil {
			id = n.ID
		}
	})
	return id
}

// Manual reports whether an operator moves single slots away or here by SETSLOT.
func (c *Cluster) Manual() (away, here bool) {
	c.look(func(s *state.State) { away, here = s.Manual() })
	return away, here
}

// Claim makes this node the owner of slots that have moved here as a whole. Between only.
func (c *Cluster) Claim(list []uint16) {
	c.with(func(s *state.State) { s.Claim(list) })
	c.errands.run()
}

// Reclaim raises this node's epoch above that of any claim to its slots that was made before. Between only.
func (c *Cluster) Reclaim() { c.with(func(s *state.State) { s.Reclaim() }) }

// Saved reports whether all decisions so far are on disk. If not, done is called when they are, by any goroutine.
func (c *Cluster) Saved(done func()) bool { return c.saved(done) }
