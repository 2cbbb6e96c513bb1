package topology

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A chart computes the state of a cluster from the views of its nodes and from redirections. It does no I/O.
//
// topology.C1. A view whose epoch is below that of the current Map is stale: its node has missed changes. It is
// accepted only when more than half of the known nodes have such views, as after a reset of the cluster.
// topology.C2. If a view leaves a slot without an owner, the slot keeps its shard for holeGrace. In a failover, nodes
// learn that the old primary has no slots before they learn that the new primary has them. The old owner replies
// meanwhile, with a redirection or an error.
type chart struct {
	now   *Map
	epoch uint64
	stale map[string]bool // the nodes with stale views since the last good one
	holes time.Time       // since when views leave slots without an owner; zero if the last view left none
}

// maxNodes is the maximum number of nodes that are remembered of a shard.
const maxNodes = 64

// holeGrace is longer than a failover.
const holeGrace = 10 * time.Second

// take processes the view of the node at from, at an instant. It returns a new Map, or nil if nothing has changed. If
// holes is true, the view leaves slots of the Map without an owner, and another view should follow soon.
//
// Errors: the view is stale.
func (c *chart) take(v view, from string, at time.Time) (m *Map, holes bool, err error) {
	if v.epoch != 0 && v.epoch < c.epoch {
		if c.stale == nil {
			c.stale = map[string]bool{}
		}
		c.stale[from] = true
		if 2*len(c.stale) <= c.size() {
			return nil, false, fmt.Errorf("its epoch is %d; other nodes have %d", v.epoch, c.epoch)
		}
	}
	clear(c.stale)
	if v.epoch != 0 {
		c.epoch = v.epoch
	}
	next := c.build(v)
	if holes = c.hasHoles(next); !holes {
		c.holes = time.Time{}
	} else if c.holes.IsZero() {
		c.holes = at
	}
	if holes && at.Sub(c.holes) < holeGrace {
		c.patch(next)
	} else {
		holes = false
	}
	next.sortShards()
	c.share(next)
	if c.now != nil && sameMap(c.now, next) {
		return nil, holes, nil
	}
	return c.set(next), holes, nil
}

// hasHoles reports whether next leaves slots of the current Map without an owner.
func (c *chart) hasHoles(next *Map) bool {
	if c.now == nil {
		return false
	}
	for slot, i := range next.owners {
		if i == None && c.now.owners[slot] != None {
			return true
		}
	}
	return false
}

// patch gives each slot without an owner to its shard in the current Map.
func (c *chart) patch(next *Map) {
	place := map[*Shard]uint16{}
	for slot, i := range next.owners {
		old := c.now.Shard(slot)
		if i != None || old == nil {
			continue
		}
		at, known := place[old]
		if !known {
			n := slices.IndexFunc(next.Shards, func(s *Shard) bool { return s.ID == old.ID })
			if n < 0 {
				n = len(next.Shards)
				next.Shards = append(next.Shards, old)
			}
			at = uint16(n)
			place[old] = at
		}
		next.owners[slot] = at
	}
}

// size returns the number of known nodes.
func (c *chart) size() (n int) {
	if c.now == nil {
		return 0
	}
	for _, s := range c.now.Shards {
		n += 1 + len(s.Replicas)
	}
	return n
}

// set sets the version of a Map and makes it the current Map.
func (c *chart) set(next *Map) *Map {
	next.Version = 1
	if c.now != nil {
		next.Version = c.now.Version + 1
	}
	c.now = next
	return next
}

// build makes a Map from a view. Shards keep their IDs.
func (c *chart) build(v view) *Map {
	m := &Map{owners: emptySlots(maxSlots)}
	ids := c.adopt(v)
	present := map[string]bool{}
	for _, s := range v.shards {
		present[s.primary.id] = true
		for _, r := range s.replicas {
			present[r.id] = true
		}
	}
	for i, s := range v.shards {
		shard := &Shard{ID: ids[i], Primary: s.primary.addr, Failed: s.primary.failed}
		shard.nodes = append(shard.nodes, s.primary.id)
		for _, r := range s.replicas {
			shard.nodes = append(shard.nodes, r.id)
			if !r.failed {
				shard.Replicas = append(shard.Replicas, c.replica(r.addr))
			}
		}
		if old := c.byID(shard.ID); old != nil { // a replica that takes over is in no shard for a moment
			for _, id := range old.nodes {
				if !present[id] && len(shard.nodes) < maxNodes {
					shard.nodes = append(shard.nodes, id)
				}
			}
		}
		slices.SortFunc(shard.Replicas, func(a, b *Replica) int { return strings.Compare(a.Addr, b.Addr) })
		m.Shards = append(m.Shards, shard)
		for _, r := range s.ranges {
			for slot := r[0]; slot <= r[1]; slot++ {
				m.owners[slot] = uint16(i)
			}
		}
	}
	return m
}

// share replaces shards of m by equal shards of the current Map.
func (c *chart) share(m *Map) {
	for i, s := range m.Shards {
		if old := c.byID(s.ID); old != nil && old.equal(s) && slices.Equal(old.nodes, s.nodes) {
			m.Shards[i] = old
		}
	}
}

// adopt finds the IDs of a view's shards. A shard keeps the ID of the shard that had the same primary, or else of the
// shard that had its primary as a replica. Otherwise it keeps the ID of a shard that had any of its nodes. A new
// shard's ID is its primary's.
func (c *chart) adopt(v view) []string {
	ids := make([]string, len(v.shards))
	used := map[string]bool{}
	claim := func(same func(old *Shard, s *viewShard) bool) {
		for i := range v.shards {
			if ids[i] != "" || c.now == nil {
				continue
			}
			for _, old := range c.now.Shards {
				if !used[old.ID] && same(old, &v.shards[i]) {
					ids[i], used[old.ID] = old.ID, true
					break
				}
			}
		}
	}
	claim(func(old *Shard, s *viewShard) bool {
		return len(old.nodes) > 0 && s.primary.id != "" && old.nodes[0] == s.primary.id || old.Primary == s.primary.addr
	})
	claim(func(old *Shard, s *viewShard) bool { return old.has(s.primary) })
	claim(func(old *Shard, s *viewShard) bool { return slices.ContainsFunc(s.replicas, old.has) })
	for i, s := range v.shards {
		for _, id := range []string{s.primary.id, s.primary.addr, s.primary.id + "@" + s.primary.addr} {
			if ids[i] == "" && id != "" && !used[id] {
				ids[i], used[id] = id, true
			}
		}
	}
	return ids
}

func (s *Shard) has(n node) bool {
	return n.id != "" && slices.Contains(s.nodes, n.id) || s.Primary == n.addr || s.replica(n.addr) != nil
}

// moved processes a redirection: the primary at addr serves slot. It returns a new Map, or nil if nothing has changed.
func (c *chart) moved(slot int, addr string) *Map {
	if c.now == nil || slot < 0 || slot >= len(c.now.owners) {
		return nil
	}
	owner := c.now.Shard(slot)
	if owner != nil && owner.Primary == addr {
		return nil
	}
	next := &Map{Shards: slices.Clone(c.now.Shards), owners: c.now.owners}
	target := c.now.Find(addr)
	at := slices.Index(next.Shards, target)
	switch {
	case target == nil: // a shard that no view has shown yet
		if len(next.Shards) >= None-1 {
			return nil
		}
		at = len(next.Shards)
		next.Shards = append(next.Shards, &Shard{ID: addr, Primary: addr})
	case target.Primary != addr: // a replica took over
		next.Shards[at] = c.promoted(target, addr)
	}
	if target != owner || owner == nil {
		next.owners = slices.Clone(next.owners)
		next.owners[slot] = uint16(at)
	}
	return c.set(next)
}

// promoted returns the shard after its replica at addr has become the primary. The shard keeps all its slots.
func (c *chart) promoted(s *Shard, addr string) *Shard {
	next := &Shard{ID: s.ID, Primary: addr, nodes: s.nodes}
	for _, r := range s.Replicas {
		if r.Addr != addr {
			next.Replicas = append(next.Replicas, r)
		}
	}
	return next
}

// replica returns the Replica of an address. All Maps share one Replica per address.
func (c *chart) replica(addr string) *Replica {
	if c.now != nil {
		for _, s := range c.now.Shards {
			if r := s.replica(addr); r != nil {
				return r
			}
		}
	}
	return &Replica{Addr: addr}
}

func (c *chart) byID(id string) *Shard {
	if c.now != nil {
		for _, s := range c.now.Shards {
			if s.ID == id {
				return s
			}
		}
	}
	return nil
}

// sortShards orders the shards by their first slots, so that equal views make equal Maps.
func (m *Map) sortShards() {
	place := make([]uint16, len(m.Shards)) // old index → new index
	for i := range place {
		place[i] = None
	}
	var ordered []*Shard
	for i, old := range m.owners {
		if old == None {
			continue
		}
		if place[old] == None {
			place[old] = uint16(len(ordered))
			ordered = append(ordered, m.Shards[old])
		}
		m.owners[i] = place[old]
	}
	m.Shards = ordered
}

func sameMap(a, b *Map) bool {
	return slices.EqualFunc(a.Shards, b.Shards, (*Shard).equal) && slices.Equal(a.owners, b.owners)
}

func emptySlots(n int) []uint16 {
	slots := make([]uint16, n)
	for i := range slots {
		slots[i] = None
	}
	return slots
}
