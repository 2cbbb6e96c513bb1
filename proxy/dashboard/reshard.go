package dashboard

import (
	"context"
	"fmt"
	"slices"

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
// The state of a slot is the cluster's own. So after a crash in any line the mover begins at the first line. No slot
// stays open: one that is migrating or importing is completed first, also after the move is cancelled or paused.
func (w *mover) stepCluster(ctx context.Context, m *model) (more bool, err error) {
	move := w.running(m)
	if move == nil {
		return false, nil
	}
	v, err := w.d.cluster(ctx, m)
	if err != nil {
		return true, err
	}
	if move.State != store.MoveRunning || !w.closed {
		if w.open, err = w.d.openSlots(ctx, v, move); err != nil {
			return true, err
		}
	}
	slot, step := nextSlot(v.owners(), w.open, move)
	t := make(plan.Table, clusterSlots)
	for slot, owner := range v.owners() {
		t[slot].Group = owner
	}
	w.count(t)
	if slot < 0 {
		if move.State == store.MovePaused {
			return false, nil
		}
		return false, w.finish(ctx, m, t)
	}
	w.done.Slot = slot
	w.report(ctx, "", nil)
	if err := w.moveSlot(ctx, v, slot, step); err != nil {
		w.closed = false
		return true, err
	}
	delete(w.open, slot)
	w.closed = len(w.open) == 0
	return true, nil
}

// openSlots returns the slots of a move that a shard of it has as migrating or importing. Each node only shows its own.
func (d *Dashboard) openSlots(ctx context.Context, v *clusterView, move *store.Move) (map[int]bool, error) {
	open := map[int]bool{}
	for _, s := range v.shards {
		if !uses(move, s.primary.id) {
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

// nextSlot returns the next slot to move; -1: none is left. A slot that is open comes first.
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

// moveSlot moves one slot, whatever of it is done already.
func (w *mover) moveSlot(ctx context.Context, v *clusterView, slot int, s store.Step) error {
	from, to := v.shard(s.Source), v.shard(s.Target)
	if from == nil || to == nil {
		return fmt.Errorf("slot %d moves from %s to %s, which are no longer primaries of the cluster", slot, s.Source, s.Target)
	}
	source, err := w.d.openPrimary(ctx, from.primary.address)
	if err != nil {
		return err
	}
	defer source.close()
	target, err := w.d.openPrimary(ctx, to.primary.address)
	if err != nil {
		return err
	}
	defer target.close()
	if has, err := target.owns(slot); err != nil {
		return err
	} else if !has {
		if _, err := target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", s.Source); err != nil {
			return err
		}
	}
	has, err := source.owns(slot)
	if err != nil {
		return err
	}
	if has {
		if _, err := source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", s.Target); err != nil {
			return err
		}
	}
	c := &carrier{w: w, from: source, target: to.primary.address}
	for has {
		v, err := source.ask("CLUSTER", "GETKEYSINSLOT", slot, keysAtOnce)
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
	// The target first: if the source knew it first, and both then died, no node would have the slot.
	for _, l := range []*link{target, source} {
		if _, err := l.ask("CLUSTER", "SETSLOT", slot, "NODE", s.Target); err != nil {
			return err
		}
	}
	for _, other := range v.shards {
		if other == from || other == to || !other.primary.lives() {
			continue
		}
		// They also learn it from the target; this only spares clients a redirection.
		_, _ = w.d.dialer.once(ctx, other.primary.address, "CLUSTER", "SETSLOT", slot, "NODE", s.Target)
	}
	return nil
}

// owns reports whether a node sees itself as the owner of a slot.
func (l *link) owns(slot int) (bool, error) {
	nodes, err := l.nodesOf()
	for _, n := range nodes {
		if n.is("myself") {
			return slices.ContainsFunc(n.slots, func(r [2]int) bool { return r[0] <= slot && slot <= r[1] }), err
		}
	}
	return false, err
}
