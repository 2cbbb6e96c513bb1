package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"spindle/proxy/store"
)

// joinTime is how long nodes of a cluster may take to learn of each other.
const joinTime = 30 * time.Second

// createShard joins new nodes to the cluster: a primary without slots, and its replicas.
func (d *Dashboard) createShard(ctx context.Context, m *model, o *newGroup) (any, error) {
	if o.ID != "" || o.Label != "" || o.Master != "" {
		return nil, errShards
	}
	addresses := []string{o.Primary}
	for _, s := range o.Servers {
		if s.Address != o.Primary {
			addresses = append(addresses, s.Address)
		}
	}
	for _, a := range addresses {
		if store.CheckAddress(a) != nil {
			return nil, failed(http.StatusBadRequest, "bad_request", "address %.80q is no host:port", a)
		}
	}
	v, err := d.cluster(ctx, m)
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		if n := v.node(a); a == o.Primary || n != nil && v.node(n.primary) != v.node(o.Primary) {
			if err := v.refuseReplica(a); err != nil {
				return nil, err
			}
		}
		if err := d.meet(ctx, v, a); err != nil {
			return nil, err
		}
	}
	if v, err = d.cluster(ctx, m); err != nil {
		return nil, err
	}
	primary := v.node(o.Primary)
	if primary == nil {
		return nil, failed(http.StatusBadGateway, "failed", "the cluster does not see %s under that address", o.Primary)
	}
	for _, a := range addresses[1:] {
		if err := d.replicate(ctx, v, a, primary.id); err != nil {
			return nil, err
		}
	}
	return d.groupView(ctx, m, primary.id)
}

// meet joins an empty node to the cluster, and waits until both see each other. A node that the cluster knows already
// does not have to be empty. It is known by its ID: another node may have had its address.
func (d *Dashboard) meet(ctx context.Context, v *clusterView, address string) error {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	fresh, err := d.dialer.open(ctx, address)
	if err != nil {
		return err
	}
	defer fresh.close()
	fields, err := fresh.info()
	if err != nil {
		return err
	}
	if fields["cluster_enabled"] != "1" {
		return failed(http.StatusConflict, "wrong_server", "%s is no node of a cluster: see its cluster-enabled", address)
	}
	there, err := fresh.nodesOf()
	if err != nil {
		return err
	}
	mine := myself(there)
	if mine == nil {
		return fmt.Errorf("%s does not name itself in CLUSTER NODES", address)
	}
	var look ServerView
	look.fill(fields)
	if v.node(mine.id) == nil && (look.Keys > 0 || len(there) != 1 || len(mine.slots) > 0) {
		return failed(http.StatusConflict, "not_empty", "%s holds keys or slots, or knows other nodes", address)
	}
	member, err := d.dialer.open(ctx, v.seen)
	if err != nil {
		return err
	}
	defer member.close()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if _, err := member.ask("CLUSTER", "MEET", host, port, mine.bus); err != nil {
		return err
	}
	for {
		nodes, err := member.nodesOf()
		if err != nil {
			return err
		}
		if there, err = fresh.nodesOf(); err != nil {
			return err
		}
		joined := slices.ContainsFunc(nodes, func(n *clusterNode) bool { return n.id == mine.id && n.lives() && n.linked })
		// A node that imports a slot before it knows the owner never learns it: it keeps importing slots as they are.
		if joined && len(there) >= len(nodes) && slotsIn(there) >= slotsIn(nodes) &&
			!slices.ContainsFunc(there, func(n *clusterNode) bool { return n.is("handshake") }) {
			return nil
		}
		if wait(ctx, 100*time.Millisecond) != nil {
			return failed(http.StatusGatewayTimeout, "failed", "%s and %s do not see each other", address, v.seen)
		}
	}
}

// slotsIn counts the slots that have an owner.
func slotsIn(nodes []*clusterNode) (count int) {
	for _, n := range nodes {
		for _, r := range n.slots {
			count += r[1] - r[0] + 1
		}
	}
	return count
}

// myself finds the node that sent the list.
func myself(nodes []*clusterNode) *clusterNode {
	for _, n := range nodes {
		if n.is("myself") {
			return n
		}
	}
	return nil
}

// replicate makes a node a replica as soon as it knows the primary. It waits until all primaries see the replica.
func (d *Dashboard) replicate(ctx context.Context, v *clusterView, address, primary string) error {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	l, err := d.dialer.open(ctx, address)
	if err != nil {
		return err
	}
	defer l.close()
	for {
		_, err := l.ask("CLUSTER", "REPLICATE", primary)
		if err == nil {
			return d.awaitReplica(ctx, v, address, primary)
		}
		if code(err) != "ERR" || wait(ctx, 200*time.Millisecond) != nil {
			return err
		}
		nodes, failed := l.nodesOf()
		if failed != nil {
			return failed
		}
		for _, n := range nodes {
			if n.id == primary {
				return err // the node is known, so the error has another reason
			}
		}
	}
}

// awaitReplica waits until every primary that answers sees the node at address as a replica of primary. If primary is
// empty, they must see the node as a primary itself.
func (d *Dashboard) awaitReplica(ctx context.Context, v *clusterView, address, primary string) error {
	for {
		views := each(primaries(v), func(at string) *clusterView {
			view, _ := d.clusterAt(ctx, at)
			return view
		})
		all := true
		for _, view := range views {
			if view != nil {
				n := view.node(address)
				all = all && n != nil && n.primary == primary
			}
		}
		if all {
			return nil
		}
		if wait(ctx, 100*time.Millisecond) != nil {
			return failed(http.StatusGatewayTimeout, "failed", "not all primaries see the new role of %s", address)
		}
	}
}

// primaries returns the addresses of the primaries that are alive.
func primaries(v *clusterView) (list []string) {
	for _, s := range v.shards {
		if s.primary.lives() {
			list = append(list, s.primary.address)
		}
	}
	return list
}

func (d *Dashboard) joinShard(ctx context.Context, m *model, id, address string) (any, error) {
	v, s, err := d.loadShard(ctx, m, id)
	if err != nil {
		return nil, err
	}
	if err := d.meet(ctx, v, address); err != nil {
		return nil, err
	}
	if err := d.replicate(ctx, v, address, s.primary.id); err != nil {
		return nil, err
	}
	return d.groupView(ctx, m, id)
}

func (d *Dashboard) loadShard(ctx context.Context, m *model, id string) (*clusterView, *shard, error) {
	v, err := d.cluster(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	s := v.shard(id)
	if s == nil {
		if err := v.refuseReplica(id); err != nil {
			return nil, nil, err
		}
		return nil, nil, failed(http.StatusNotFound, "no_group", "the cluster has no primary with the ID %.80q", id)
	}
	return v, s, nil
}

func (d *Dashboard) leaveShard(ctx context.Context, m *model, id, address string) (any, error) {
	v, s, err := d.loadShard(ctx, m, id)
	if err != nil {
		return nil, err
	}
	for _, r := range s.replicas {
		if r.address == address || r.id == address {
			if err := d.checkUnused(ctx, r); err != nil {
				return nil, err
			}
			if err := d.forget(ctx, m, v, []*clusterNode{r}); err != nil {
				return nil, err
			}
			return d.groupView(ctx, m, id)
		}
	}
	if s.primary.address == address {
		return nil, failed(http.StatusConflict, "in_use", "%s is the primary: promote another server first", address)
	}
	return nil, failed(http.StatusNotFound, "no_server", "shard %s has no server %.80q", id, address)
}

// deleteShard removes a primary without slots, and its replicas, from the cluster.
func (d *Dashboard) deleteShard(ctx context.Context, m *model, id string) (any, error) {
	v, s, err := d.loadShard(ctx, m, id)
	if err != nil {
		return nil, err
	}
	switch {
	case len(s.primary.slots) > 0:
		return nil, failed(http.StatusConflict, "in_use", "shard %s has slots: drain it first", id)
	case m.underway() && uses(m.move, id):
		return nil, failed(http.StatusConflict, "in_use", "shard %s is part of the move that is under way", id)
	case len(v.shards) == 1:
		return nil, failed(http.StatusConflict, "in_use", "shard %s is the only one", id)
	}
	gone := append(slices.Clone(s.replicas), s.primary)
	for _, n := range gone {
		if err := d.checkUnused(ctx, n); err != nil {
			return nil, err
		}
	}
	return done{true}, d.forget(ctx, m, v, gone)
}

// checkUnused refuses the removal of a node that serves slots, or is a primary with keys, by its own view. The view of
// another node may be late: the node may have got slots since, or have become a primary. A node that does not answer is
// not asked.
func (d *Dashboard) checkUnused(ctx context.Context, n *clusterNode) error {
	l, err := d.dialer.open(ctx, n.address)
	if err != nil {
		return nil
	}
	defer l.close()
	own, _, err := l.owns()
	if err != nil {
		return err
	}
	fields, err := l.info()
	if err != nil {
		return err
	}
	var look ServerView
	look.fill(fields)
	switch {
	case own.id == n.id && len(own.slots) > 0:
		return failed(http.StatusConflict, "in_use", "%s (%s) has slots by its own view", n.id, n.address)
	case own.id == n.id && own.primary == "" && look.Keys > 0:
		return failed(http.StatusConflict, "not_empty", "%s (%s) has no slots, but %d keys: delete them there first", n.id,
			n.address, look.Keys)
	}
	return nil
}

// replaceSeeds replaces the product's seeds by primaries that stay after the nodes in gone have left the cluster.
func (d *Dashboard) replaceSeeds(ctx context.Context, m *model, v *clusterView, isGone func(*clusterNode) bool) error {
	seeds := []string{}
	for _, s := range v.shards {
		if s.primary.lives() && !isGone(s.primary) {
			seeds = append(seeds, s.primary.address)
		}
	}
	if len(seeds) == 0 {
		return failed(http.StatusConflict, "in_use", "no other primary is alive")
	}
	changed := m.product
	changed.Seeds = seeds[:min(len(seeds), 16)]
	if _, err := d.edit(m).put(&changed, "product").commit(ctx); err != nil {
		return err
	}
	m.product = changed
	return nil
}

// forget makes all other nodes forget the nodes in gone, and then resets those. Before that, it replaces the product's
// seeds.
func (d *Dashboard) forget(ctx context.Context, m *model, v *clusterView, gone []*clusterNode) error {
	isGone := func(n *clusterNode) bool { return slices.Contains(gone, n) }
	if err := d.replaceSeeds(ctx, m, v, isGone); err != nil {
		return err
	}
	stay := []string{}
	for _, n := range v.nodes {
		if !isGone(n) && n.lives() {
			stay = append(stay, n.address)
		}
	}
	problems := each(stay, func(address string) error {
		l, err := d.dialer.open(ctx, address)
		if err != nil {
			return err
		}
		defer l.close()
		for _, n := range gone {
			if _, err := l.ask("CLUSTER", "FORGET", n.id); err != nil && !unknownNode(err) {
				return err
			}
		}
		return nil
	})
	for _, n := range gone {
		if n.address == "" {
			continue
		}
		if err := d.resetNode(ctx, n); err != nil {
			d.log.Warning("%s left the cluster without a reset: %s", n.address, err)
		}
	}
	return errors.Join(problems...)
}

// resetNode sends CLUSTER RESET to a node, unless another node has its address by now.
func (d *Dashboard) resetNode(ctx context.Context, n *clusterNode) error {
	l, err := d.dialer.open(ctx, n.address)
	if err != nil {
		return err
	}
	defer l.close()
	own, _, err := l.owns()
	if err != nil {
		return err
	}
	if own.id != n.id {
		return fmt.Errorf("node %s has this address now", own.id)
	}
	_, err = l.ask("CLUSTER", "RESET")
	return err
}

// unknownNode reports whether a node replied that it does not know the node to forget.
func unknownNode(err error) bool {
	return code(err) == "ERR" && errorContains(err, "nknown node")
}

func (d *Dashboard) promoteShard(ctx context.Context, m *model, id string, o *serverOrder) (any, error) {
	_, s, err := d.loadShard(ctx, m, id)
	if err != nil {
		return nil, err
	}
	for _, r := range s.replicas {
		if r.address != o.Server && r.id != o.Server {
			continue
		}
		args := []any{"CLUSTER", "FAILOVER"}
		if o.Force {
			args = append(args, "FORCE")
		}
		l, err := d.dialer.open(ctx, r.address)
		if err != nil {
			return nil, err
		}
		defer l.close()
		if _, err := l.ask(args...); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, joinTime)
		defer cancel()
		for {
			v, err := l.ask("ROLE")
			if err != nil {
				return nil, err
			}
			if len(v.Elems) > 0 && v.Elems[0].Text == "master" {
				return d.groupView(ctx, m, r.id)
			}
			if wait(ctx, 100*time.Millisecond) != nil {
				return nil, failed(http.StatusGatewayTimeout, "failed", "%s has not become the primary", r.address)
			}
		}
	}
	return nil, failed(http.StatusNotFound, "no_server", "shard %s has no replica %.80q", id, o.Server)
}

func (d *Dashboard) resyncShard(ctx context.Context, m *model, id, server string) (any, error) {
	_, s, err := d.loadShard(ctx, m, id)
	if err != nil {
		return nil, err
	}
	for _, r := range s.replicas {
		if r.address == server || r.id == server {
			if _, err := d.dialer.once(ctx, r.address, "CLUSTER", "REPLICATE", id); err != nil {
				return nil, fmt.Errorf("resync: %w", err)
			}
			return d.groupView(ctx, m, id)
		}
	}
	return nil, failed(http.StatusNotFound, "no_server", "shard %s has no replica %.80q", id, server)
}
