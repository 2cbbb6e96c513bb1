package dashboard

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"spindle/proxy/store"
)

// keepShards keeps the shards of a move that have no slot. A primary that gives its last slot away becomes a replica of
// the receiver, unless cluster-allow-replica-migration is no, and so do its replicas. keepShards makes it a primary
// again, so that the shard can be removed, or be filled by this move or a later one. kept is true if it changed a node.
//
//	primary              CLUSTER RESET: it leaves the receiver, drops the copy, and keeps its ID
//	another primary      CLUSTER MEET
//	the old replicas     CLUSTER REPLICATE
//
// After a crash between the first two, the primary knows no other node. keepShards finds that, and does the rest.
func (w *mover) keepShards(ctx context.Context, m *model, v *clusterView, move *store.Move) (kept bool, err error) {
	for _, name := range slices.Sorted(maps.Keys(move.Members)) {
		members := move.Members[name]
		isMember := func(n *clusterNode) bool { return slices.Contains(members, n.id) }
		if slices.ContainsFunc(v.nodes, func(n *clusterNode) bool { return isMember(n) && len(n.slots) > 0 }) {
			continue
		}
		n := emptied(v, members)
		if n == nil {
			continue // the shard has gone, or nothing of it is alive
		}
		own, err := w.d.clusterAt(ctx, n.address) // a view of another node may be late
		if err != nil {
			return kept, err
		}
		me := myself(own.nodes)
		switch {
		case me == nil || me.id != n.id:
			continue
		case me.primary != "" && !slices.Contains(members, me.primary):
			w.d.log.Notice("Shard %s of %s became a replica with its last slot, and is made a primary again", n.address,
				w.product)
			err = w.d.restoreShard(ctx, m, v, n, members, true)
		case me.primary == "" && len(own.nodes) == 1:
			err = w.d.restoreShard(ctx, m, v, n, members, false)
		default:
			continue
		}
		if err != nil {
			return kept, fmt.Errorf("shard %s (%s) is no primary since it lost its last slot: %w", n.id, n.address, err)
		}
		kept = true
	}
	return kept, nil
}

// emptied returns the node that is, or shall be, the primary of a shard without slots. That is its primary, or else the
// first of its members that is alive. It returns nil if the shard has a primary that is not alive.
func emptied(v *clusterView, members []string) (first *clusterNode) {
	for _, id := range members {
		switch n := v.node(id); {
		case n == nil:
		case n.is("master"):
			if !n.lives() {
				return nil
			}
			return n
		case first == nil && n.lives():
			first = n
		}
	}
	return first
}

// restoreShard makes n the primary of a shard without slots, and the other members its replicas.
func (d *Dashboard) restoreShard(ctx context.Context, m *model, v *clusterView, n *clusterNode, members []string,
	reset bool) error {
	isMember := func(n *clusterNode) bool { return slices.Contains(members, n.id) }
	// After the reset, a seed among the members would show a cluster of one node.
	if err := d.replaceSeeds(ctx, m, v, isMember); err != nil {
		return err
	}
	member := slices.IndexFunc(v.shards, func(s *shard) bool { return s.primary.lives() && !isMember(s.primary) })
	if member < 0 {
		return failed(http.StatusConflict, "in_use", "no other primary is alive")
	}
	v, err := d.clusterAt(ctx, v.shards[member].primary.address)
	if err != nil {
		return err
	}
	if reset {
		l, err := d.dialer.open(ctx, n.address)
		if err != nil {
			return err
		}
		defer l.close()
		if err := d.order(l, "CLUSTER", "RESET"); err != nil {
			return err
		}
	}
	if err := d.meet(ctx, v, n.address); err != nil {
		return err
	}
	if err := d.awaitReplica(ctx, v, n.address, ""); err != nil {
		return err
	}
	for _, r := range v.nodes {
		if !isMember(r) || r.id == n.id || !r.lives() {
			continue
		}
		if err := d.awaitNoSlots(ctx, r.address, n.id); err != nil {
			return err
		}
		if err := d.replicate(ctx, v, r.address, n.id); err != nil {
			return err
		}
	}
	return nil
}

// awaitNoSlots waits until a replica sees its old primary without slots. A replica that learns of it later follows the
// receiver of the last slot, whatever CLUSTER REPLICATE has said before.
func (d *Dashboard) awaitNoSlots(ctx context.Context, replica, primary string) error {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	for {
		v, err := d.clusterAt(ctx, replica)
		if err != nil {
			return err
		}
		if n := v.node(primary); n != nil && len(n.slots) == 0 {
			return nil
		}
		if wait(ctx, 100*time.Millisecond) != nil {
			return failed(http.StatusGatewayTimeout, "failed", "%s does not see that %s has no slots", replica, primary)
		}
	}
}

// refuseReplica returns an error if the node with a name is a replica in v.
func (v *clusterView) refuseReplica(name string) error {
	n := v.node(name)
	if n == nil || n.primary == "" {
		return nil
	}
	return failed(http.StatusConflict, "conflict",
		"%s (%s) is a replica of shard %s: remove it from that shard, and create a shard of it", n.id, n.address, n.primary)
}
