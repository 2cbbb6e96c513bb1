package proxy

import (
	"time"

	"spindle/proxy/topology"
)

// The part of the hub that follows the map of shards. A hub calls it on its own loop.

// strangerMost is how long a link to any shard stays at a server that is not in the map. After a failover, the old
// primary is missing there until the other nodes know that it is a replica, and the map is read again.
const strangerMost = 10 * time.Second

// follow has topics that are held at all shards held at those of m, and sharded channels at the shard of their slot. A
// link to any shard leaves a server that stays out of the map. A map without shards changes nothing.
func (h *hub) follow(m *topology.Map) {
	if len(m.Shards) == 0 {
		return
	}
	h.of = m
	now := map[string]bool{}
	for _, s := range m.Shards {
		now[s.Primary] = s.Primary != ""
	}
	if !h.leaves && len(h.strangers()) > 0 {
		h.leaves = true
		time.AfterFunc(strangerMost/2, h.w.p.finder.Refresh)
		time.AfterFunc(strangerMost, func() { h.run(h.leaveStrangers) })
	}
	for _, t := range h.topics {
		if t.kind == shardKind {
			h.followSlot(t)
		}
		if !h.everywhere(t.topicName) {
			continue
		}
		for _, l := range append([]*link(nil), t.links...) {
			if l.key.at != "" && !now[l.key.at] {
				l.release(t)
			}
		}
		for at, is := range now {
			if is {
				h.hold(t, at)
			}
		}
		t.settle()
	}
}

// strangers returns the links to any shard whose servers are not in the map.
func (h *hub) strangers() (all []*link) {
	for key, l := range h.links {
		if key.at == "" && l.d != nil && h.of.Find(l.at) == nil {
			all = append(all, l)
		}
	}
	return all
}

// leaveStrangers closes such links: a server that has left the cluster gets no messages.
func (h *hub) leaveStrangers() {
	h.leaves = false
	for _, l := range h.strangers() {
		l.d.Close(false)
	}
}

// followSlot takes a sharded channel to the shard of its slot. A plain server does not tell that a slot has moved.
func (h *hub) followSlot(t *topic) {
	index := h.of.Owner(h.w.p.table().Hasher.Slot([]byte(t.name)))
	if index < 0 || h.of.Shards[index].Primary == "" {
		return
	}
	at := h.of.Shards[index].Primary
	h.hold(t, at)
	for _, l := range append([]*link(nil), t.links...) {
		if l.key.at != at {
			l.release(t)
		}
	}
	t.settle()
}
