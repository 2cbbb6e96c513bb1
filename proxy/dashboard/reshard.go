package dashboard

import (
	"context"
	"fmt"
	"slices"
	"time"

	"spindle/proxy/plan"
	"spindle/proxy/store"
)

// stepCluster moves the next slot of a cluster, as redis-cli --cluster reshard does.
//
//	target   CLUSTER SETSLOT n IMPORTING source
//	source   CLUSTER SETSLOT n MIGRATING target
//	source   CLUSTER GETKEYSINSLOT n, MIGRATE; until there are none
//	target, source, all others   CLUSTER SETSLOT n NODE target
//
// The cluster itself holds the state of a slot. So after a crash at any line, the mover begins at the first line again.
// No slot stays open: a slot that is migrating or importing is completed first, even if the move is cancelled or
// paused.
func (w *mover) stepCluster(ctx context.Context, m *model) (more bool, err error) {
	move := w.running(m)
	if move == nil {
		return false, nil
	}
	v, err := w.d.cluster(ctx, m)
	if err != nil {
		return true, err
	}
	kept, err := w.keepShards(ctx, m, v, move)
	if kept || err != nil && move.State == store.MoveRunning {
		return true, err
	}
	problem := ""
	if err != nil {
		problem = err.Error() // a move that is cancelled or paused does not wait for the shard
	}
	t := make(plan.Table, clusterSlots)
	for slot, owner := range v.owners() {
		t[slot].Group = nameIn(move, owner)
	}
	w.count(t)
	if move.State != store.MoveRunning || !w.closed {
		if w.open, err = w.d.openSlots(ctx, v, move); err != nil {
			return true, err
		}
	}
	slot, step := nextSlot(t.Owners(), w.open, move)
	if slot < 0 {
		if move.State == store.MovePaused {
			return false, nil
		}
		return false, w.finish(ctx, m, t, problem)
	}
	if err := w.moveSlots(ctx, v, t.Owners(), slot, step); err != nil {
		w.closed = false
		return true, err
	}
	w.closed = len(w.open) == 0
	return true, nil
}

// members returns the nodes of each shard that the steps name.
func (d *Dashboard) members(ctx context.Context, m *model, steps []store.Step) (map[string][]string, error) {
	v, err := d.cluster(ctx, m)
	if err != nil {
		return nil, err
	}
	members := map[string][]string{}
	for _, step := range steps {
		for _, id := range []string{step.Source, step.Target} {
			s := v.shard(id)
			if s == nil {
				return nil, fmt.Errorf("shard %s has gone", id)
			}
			members[id] = []string{id}
			for _, r := range s.replicas {
				members[id] = append(members[id], r.id)
			}
		}
	}
	return members, nil
}

// nameIn returns the name by which a move refers to a node's shard. It is the ID of the shard's primary when the move
// began.
func nameIn(move *store.Move, node string) string {
	for id, members := range move.Members {
		if slices.Contains(members, node) {
			return id
		}
	}
	return node
}

// shardOf returns the shard to which a move refers by a name, with the current primary.
func (v *clusterView) shardOf(move *store.Move, name string) (*shard, error) {
	var found *shard
	for _, s := range v.shards {
		if nameIn(move, s.primary.id) == name && s.primary.lives() && (found == nil || len(s.primary.slots) > 0) {
			found = s
		}
	}
	if found == nil {
		return nil, fmt.Errorf("shard %s has no primary that is alive", name)
	}
	return found, nil
}

// openSlots returns the slots of a move that are migrating or importing at one of its shards. It queries each shard,
// because a node only shows its own open slots.
func (d *Dashboard) openSlots(ctx context.Context, v *clusterView, move *store.Move) (map[int]bool, error) {
	open := map[int]bool{}
	for _, s := range v.shards {
		if !uses(move, nameIn(move, s.primary.id)) || !s.primary.lives() {
			continue
		}
		own, err := d.clusterAt(ctx, s.primary.address)
		if err != nil {
			return nil, err
		}
		for _, n := range own.nodes {
			for slot := range n.migrating {
				open[slot] = true
			}
			for slot := range n.importing {
				open[slot] = true
			}
		}
	}
	return open, nil
}

// nextSlot returns the next slot to move, or -1 if none is left. Open slots come first.
func nextSlot(owners []string, open map[int]bool, move *store.Move) (int, store.Step) {
	next, step := -1, store.Step{}
	for _, s := range move.Steps {
		for slot := s.From; slot <= s.To; slot++ {
			if open[slot] {
				return slot, s
			}
			if next < 0 && owners[slot] == s.Source && move.State == store.MoveRunning {
				next, step = slot, s
			}
		}
	}
	return next, step
}

// runTime is how long slots are moved before the mover reads the store and the cluster again.
const runTime = 500 * time.Millisecond

// moveSlots moves a slot, and the slots after it in its step, for up to runTime.
func (w *mover) moveSlots(ctx context.Context, v *clusterView, owners []string, slot int, step store.Step) error {
	from, err := v.shardOf(w.move, step.Source)
	if err != nil {
		return err
	}
	to, err := v.shardOf(w.move, step.Target)
	if err != nil {
		return err
	}
	r := &resharding{w: w, sourceID: from.primary.id, targetID: to.primary.id}
	if r.source, err = w.d.openPrimary(ctx, from.primary.address); err != nil {
		return err
	}
	defer r.source.close()
	if r.target, err = w.d.openPrimary(ctx, to.primary.address); err != nil {
		return err
	}
	defer r.target.close()
	if _, r.sourceHas, err = r.source.owns(); err != nil {
		return err
	}
	own, has, err := r.target.owns()
	if err != nil {
		return err
	}
	r.targetHas, r.importing = has, own.importing
	for _, s := range v.shards {
		if s == from || s == to || !s.primary.lives() {
			continue
		}
		if l, err := w.d.dialer.open(ctx, s.primary.address); err == nil { // a dead node does not have to know it
			r.others = append(r.others, l)
			defer l.close()
		}
	}
	for until := time.Now().Add(runTime); ; slot++ {
		w.done.Slot = slot
		if err := r.move(ctx, slot); err != nil {
			return err
		}
		delete(w.open, slot)
		w.done.Done = min(w.done.Done+1, w.done.Slots) // an estimate until the next count
		w.report(ctx, "", nil)
		if w.move.State != store.MoveRunning || slot == step.To || owners[slot+1] != step.Source ||
			time.Now().After(until) {
			return nil
		}
	}
}

// A resharding holds the connections that move slots from one shard to another.
type resharding struct {
	w                    *mover
	source, target       *link
	sourceID, targetID   string
	others               []*link        // to all other primaries
	sourceHas, targetHas []bool         // the slots of each, in its own view
	importing            map[int]string // the target's slots that are importing, in its own view
}

// move moves one slot, whatever part of the move is done already. It refuses a slot that another node has: SETSLOT NODE
// would take the slot from that node, without its keys.
func (r *resharding) move(ctx context.Context, slot int) error {
	if !r.targetHas[slot] && !r.sourceHas[slot] {
		if r.importing[slot] == r.sourceID {
			if err := r.setSlot(r.target, slot, "STABLE"); err != nil {
				return err
			}
		}
		return fmt.Errorf("neither %s nor %s has slot %d in its own view: another node does, or none", r.source.address,
			r.target.address, slot)
	}
	if !r.targetHas[slot] {
		if err := r.setSlot(r.target, slot, "IMPORTING", r.sourceID); err != nil {
			return err
		}
	}
	if r.sourceHas[slot] {
		if err := r.setSlot(r.source, slot, "MIGRATING", r.targetID); err != nil {
			return err
		}
	}
	c := &carrier{w: r.w, from: r.source, target: r.target.address}
	for r.sourceHas[slot] {
		v, err := r.source.ask("CLUSTER", "GETKEYSINSLOT", slot, keysAtOnce)
		if err != nil {
			return err
		}
		if len(v.Elems) == 0 {
			break
		}
		if err := c.move(ctx, 0, v.Strings()); err != nil {
			return err
		}
	}
	// The target must be first. If the source were first, and both then died, no node would own the slot.
	for _, l := range []*link{r.target, r.source} {
		if err := r.setSlot(l, slot, "NODE", r.targetID); err != nil {
			return err
		}
	}
	for _, l := range r.others {
		// The other nodes also learn the owner from the target. This call only saves clients a redirection, so errors
		// do not matter.
		_ = r.setSlot(l, slot, "NODE", r.targetID)
	}
	return nil
}

// setSlot sends CLUSTER SETSLOT to a node.
func (r *resharding) setSlot(l *link, slot int, words ...any) error {
	return r.w.d.order(l, append([]any{"CLUSTER", "SETSLOT", slot}, words...)...)
}

// owns returns a node according to its own view, and which slots it owns.
func (l *link) owns() (own *clusterNode, has []bool, err error) {
	nodes, err := l.nodesOf()
	if err != nil {
		return nil, nil, err
	}
	if own = myself(nodes); own == nil {
		return nil, nil, fmt.Errorf("%s does not name itself in CLUSTER NODES", l.address)
	}
	has = make([]bool, clusterSlots)
	for _, r := range own.slots {
		for slot := r[0]; slot <= r[1]; slot++ {
			has[slot] = true
		}
	}
	return own, has, nil
}
