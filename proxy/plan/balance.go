// Package plan decides which slots of a product move where, and in which order the slots of a move change their states.
//
// Owner: its caller. All functions are pure: the same input gives the same plan.
// Never: asks a server or the store.
// Start at balance.go, which makes plans; table.go has a slot's states, next.go carries a plan out step by step.
package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"spindle/proxy/store"
)

// A Shard is a group of a product, or a shard of a cluster.
type Shard struct {
	ID       string
	Draining bool // the shard receives no slots and gives all its slots away
}

// A Layout is the input of a plan: the shards, and the owner of each slot.
type Layout struct {
	Shards []Shard
	Owners []string // the shard of each slot; a slot with "" has none and does not move
	// Weights are the weights of the slots: keys, bytes or time. If it is nil, every slot has the weight 1.
	Weights []int64
}

// A Plan is a list of steps that do not overlap, and their effect.
//
// plan.P1. No slot moves twice. No shard both gives and receives slots.
// plan.P2. After Balance, each shard that receives slots is above the mean by at most 2 %, or by one slot's weight.
type Plan struct {
	Steps     []store.Step `json:"steps"`
	Moved     int          `json:"moved"` // slots
	Shards    []Load       `json:"shards"`
	Imbalance Change       `json:"imbalance"` // by how many percent the fullest shard exceeds the mean
}

// A Load is a shard's share before and after the plan.
type Load struct {
	ID       string `json:"id"`
	Draining bool   `json:"draining,omitempty"`
	Slots    Pair   `json:"slots"`
	Weight   Pair   `json:"weight"`
}

// A Pair is a figure before and after the plan.
type Pair struct {
	Before int64 `json:"before"`
	After  int64 `json:"after"`
}

// A Change is a percentage before and after the plan.
type Change struct {
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// A draft is a plan under construction.
type draft struct {
	layout Layout
	ids    []string // of the shards, in order
	drains map[string]bool
	owners []string // after the moves so far
	load   map[string]int64
}

func newDraft(l Layout) (*draft, error) {
	d := &draft{layout: l, owners: slices.Clone(l.Owners), load: map[string]int64{}, drains: map[string]bool{}}
	if l.Weights != nil && len(l.Weights) != len(l.Owners) {
		return nil, fmt.Errorf("%d weights for %d slots", len(l.Weights), len(l.Owners))
	}
	for _, s := range l.Shards {
		if _, twice := d.load[s.ID]; twice || s.ID == "" {
			return nil, fmt.Errorf("shard %q stands there twice, or has no name", s.ID)
		}
		d.load[s.ID], d.drains[s.ID] = 0, s.Draining
	}
	d.ids = slices.Sorted(maps.Keys(d.load))
	for slot, owner := range l.Owners {
		if _, known := d.load[owner]; owner != "" && !known {
			return nil, fmt.Errorf("slot %d belongs to %q, which is no shard", slot, owner)
		}
		if d.weight(slot) < 0 {
			return nil, fmt.Errorf("slot %d has a negative weight", slot)
		}
		if owner != "" {
			d.load[owner] += d.weight(slot)
		}
	}
	return d, nil
}

func (d *draft) weight(slot int) int64 {
	if d.layout.Weights == nil {
		return 1
	}
	return d.layout.Weights[slot]
}

// ErrNoTarget means that no shard may receive slots.
var ErrNoTarget = errors.New("every shard drains, so that none can take slots")

// takers returns the shards that may receive slots.
func (d *draft) takers() (ids []string) {
	for _, id := range d.ids {
		if !d.drains[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// Balance makes a plan after which all shards that are not draining have about the same weight. It moves few slots.
func Balance(l Layout) (*Plan, error) {
	d, err := newDraft(l)
	if err != nil {
		return nil, err
	}
	takers := d.takers()
	if len(takers) == 0 {
		return nil, ErrNoTarget
	}
	var total int64
	for _, n := range d.load {
		total += n
	}
	mean := float64(total) / float64(len(takers))
	room := map[string]float64{}
	for _, id := range takers {
		if missing := mean - float64(d.load[id]); missing > 0 {
			room[id] = missing
		}
	}
	if len(room) > 0 { // else only slots without weight move: those of shards that drain
		takers = slices.Sorted(maps.Keys(room)) // plan.P1
	}
	at := maps.Clone(d.load) // before any slot moves
	for _, id := range d.ids {
		surplus := float64(at[id]) - mean
		if d.drains[id] {
			surplus = math.Inf(1)
		}
		if surplus <= 0 {
			continue
		}
		for _, slot := range d.heaviestFirst(id) {
			w := float64(d.weight(slot))
			if !d.drains[id] && (w == 0 || w > surplus) {
				continue
			}
			d.give(slot, takers, room)
			surplus -= w
		}
	}
	return d.done(), nil
}

// Drain makes a plan that moves all slots away from one shard. It moves no other slots.
func Drain(l Layout, id string) (*Plan, error) {
	d, err := newDraft(l)
	if err != nil {
		return nil, err
	}
	if _, known := d.load[id]; !known {
		return nil, fmt.Errorf("there is no shard %q", id)
	}
	d.drains[id] = true
	takers := d.takers()
	if len(takers) == 0 {
		return nil, ErrNoTarget
	}
	level := waterLevel(d.load, takers, d.load[id])
	room := map[string]float64{}
	for _, t := range takers {
		if missing := level - float64(d.load[t]); missing > 0 {
			room[t] = missing
		}
	}
	for _, slot := range d.heaviestFirst(id) {
		d.give(slot, takers, room)
	}
	return d.done(), nil
}

// Move makes a plan that moves the slots of ranges to one shard.
func Move(l Layout, ranges [][2]int, target string) (*Plan, error) {
	d, err := newDraft(l)
	if err != nil {
		return nil, err
	}
	if drains, known := d.drains[target]; !known || drains {
		return nil, fmt.Errorf("%q is no shard that takes slots", target)
	}
	for _, r := range ranges {
		if r[0] < 0 || r[1] < r[0] || r[1] >= len(d.owners) {
			return nil, fmt.Errorf("slots %d to %d are out of bounds", r[0], r[1])
		}
		for slot := r[0]; slot <= r[1]; slot++ {
			if d.owners[slot] == "" {
				return nil, fmt.Errorf("slot %d belongs to no shard: assign it", slot)
			}
			d.owners[slot] = target
		}
	}
	return d.done(), nil
}

// waterLevel returns the load to which the least loaded shards rise if amount is given to the least loaded first.
func waterLevel(load map[string]int64, ids []string, amount int64) float64 {
	levels := make([]int64, len(ids))
	for i, id := range ids {
		levels[i] = load[id]
	}
	slices.Sort(levels)
	sum := float64(amount)
	for i, level := range levels {
		sum += float64(level)
		mean := sum / float64(i+1)
		if i+1 == len(levels) || mean <= float64(levels[i+1]) {
			return mean
		}
	}
	return 0
}

// heaviestFirst returns a shard's slots, the heaviest first. So few slots move, and light slots fill the remaining
// room. Slots of equal weight stay in order, so that they move together.
func (d *draft) heaviestFirst(id string) (list []int) {
	for slot, owner := range d.layout.Owners {
		if owner == id {
			list = append(list, slot)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(d.weight(b), d.weight(a)) })
	return list
}

// give moves a slot to the first shard with enough room, or else to the shard with the most room. If several have
// equally little room, the shard with the least load receives it.
func (d *draft) give(slot int, takers []string, room map[string]float64) {
	w, best := d.weight(slot), ""
	for _, id := range takers {
		if room[id] >= float64(w) && room[id] > 0 {
			best = id
			break
		}
		switch {
		case best == "", room[id] > room[best], room[id] == room[best] && d.load[id] < d.load[best]:
			best = id
		}
	}
	room[best] -= float64(w)
	d.load[best] += w
	d.owners[slot] = best
}

// done makes the plan from the owners before and after.
func (d *draft) done() *Plan {
	p := &Plan{Steps: []store.Step{}}
	before, after := map[string]*Load{}, map[string]*Load{}
	for _, id := range d.ids {
		load := &Load{ID: id, Draining: d.drains[id]}
		before[id], after[id] = load, load
	}
	for slot, old := range d.layout.Owners {
		now := d.owners[slot]
		if old == "" {
			continue
		}
		before[old].Slots.Before++
		before[old].Weight.Before += d.weight(slot)
		after[now].Slots.After++
		after[now].Weight.After += d.weight(slot)
		if old == now {
			continue
		}
		p.Moved++
		if n := len(p.Steps); n > 0 {
			if last := &p.Steps[n-1]; last.To == slot-1 && last.Source == old && last.Target == now {
				last.To = slot
				continue
			}
		}
		p.Steps = append(p.Steps, store.Step{From: slot, To: slot, Source: old, Target: now})
	}
	for _, id := range d.ids {
		p.Shards = append(p.Shards, *before[id])
	}
	p.Imbalance = Change{imbalance(p.Shards, func(l Load) int64 { return l.Weight.Before }),
		imbalance(p.Shards, func(l Load) int64 { return l.Weight.After })}
	return p
}

// imbalance returns by how many percent the fullest shard exceeds the mean. The mean is the weight that each shard
// would have if draining shards had none.
func imbalance(shards []Load, weight func(Load) int64) float64 {
	var total, most, takers int64
	for _, s := range shards {
		total += weight(s)
		if !s.Draining {
			takers++
			most = max(most, weight(s))
		}
	}
	if total == 0 || takers == 0 {
		return 0
	}
	mean := float64(total) / float64(takers)
	return math.Round(max(0, float64(most)-mean)/mean*1e4) / 100
}
