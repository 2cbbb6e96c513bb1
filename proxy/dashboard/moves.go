package dashboard

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"spindle/proxy/plan"
	"spindle/proxy/store"
)

// A moveView is a move and its progress.
type moveView struct {
	ID       string       `json:"id"`
	State    string       `json:"state"`
	By       string       `json:"by"`
	Created  time.Time    `json:"created"`
	Ended    *time.Time   `json:"ended,omitempty"`
	Pace     int          `json:"pace"` // keys a second; 0 means no limit
	Slots    int          `json:"slots"`
	Done     int          `json:"done"` // slots
	Slot     int          `json:"slot"` // a slot that is under way, or -1
	Keys     int64        `json:"keys"`
	Bytes    int64        `json:"bytes"`
	KeysRate float64      `json:"keys_rate"`         // a second, since it began
	LeftS    int64        `json:"left_s"`            // an estimate in seconds, or -1 if unknown
	Waiting  []string     `json:"waiting"`           // proxies that have not confirmed
	Problem  string       `json:"problem,omitempty"` // why the move waits
	Steps    []store.Step `json:"steps"`
}

// underway reports whether a move is not over.
func (m *model) underway() bool {
	return m.move != nil && m.move.State != store.MoveDone && m.move.Ended.IsZero()
}

func (d *Dashboard) moveView(m *model) *moveView {
	if m.move == nil {
		return nil
	}
	v := &moveView{ID: m.move.ID, State: m.move.State, By: m.move.By, Created: m.move.Created, Pace: m.move.Pace,
		Slot: -1, LeftS: -1, Waiting: []string{}, Steps: m.move.Steps}
	for _, s := range m.move.Steps {
		v.Slots += s.To - s.From + 1
	}
	until := time.Now()
	if !m.move.Ended.IsZero() {
		v.Ended, until = &m.move.Ended, m.move.Ended
	}
	if p := m.progress; p != nil && p.Move == m.move.ID {
		v.Done, v.Slot, v.Keys, v.Bytes, v.Problem = p.Done, p.Slot, p.Keys, p.Bytes, p.Problem
		v.Waiting = append(v.Waiting, p.Waiting...)
		if took := until.Sub(m.move.Created).Seconds(); took > 0 {
			v.KeysRate = float64(p.Keys) / took
			if v.Done > 0 && v.Ended == nil {
				v.LeftS = int64(took / float64(v.Done) * float64(v.Slots-v.Done))
			}
		}
	}
	return v
}

func (d *Dashboard) showMove(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	v := d.moveView(m)
	if v == nil {
		return nil, failed(http.StatusNotFound, "no_move", "no slots of this product have been moved")
	}
	return v, nil
}

// A planOrder asks for a plan. Exactly one of its parts is given.
type planOrder struct {
	Balance string `json:"balance"` // by "slots", "keys", "bytes" or "cpu"
	Drain   string `json:"drain"`   // a group that shall lose all its slots
	Move    *struct {
		Ranges [][2]int `json:"ranges"` // the first and the last slot of each
		Target string   `json:"target"`
	} `json:"move"`
}

// A planView is a plan. startMove accepts its steps unchanged.
type planView struct {
	By string `json:"by"` // the kind of weights
	*plan.Plan
}

func (d *Dashboard) makePlan(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	o, parts := c.body.(*planOrder), 0
	for _, given := range []bool{o.Balance != "", o.Drain != "", o.Move != nil} {
		if given {
			parts++
		}
	}
	if parts != 1 {
		return nil, failed(http.StatusBadRequest, "bad_request", "one of balance, drain and move is needed")
	}
	by := o.Balance
	if by == "" {
		by = "slots"
	}
	l, err := d.layout(c.ctx, m, by)
	if err != nil {
		return nil, err
	}
	var p *plan.Plan
	switch {
	case o.Balance != "":
		p, err = plan.Balance(*l)
	case o.Drain != "":
		p, err = plan.Drain(*l, o.Drain)
	default:
		p, err = plan.Move(*l, o.Move.Ranges, o.Move.Target)
	}
	if err != nil {
		return nil, failed(http.StatusConflict, "conflict", "%s", err)
	}
	return planView{by, p}, nil
}

// cpuTime is the interval over which the CPU time of servers is measured for a plan.
const cpuTime = time.Second

// layout returns the product's slots with their weights.
//
// Only a cluster knows the keys of each slot. Elsewhere a group's figure is spread evenly over its slots. Slots are
// checksums of keys, so they have about the same number of keys.
func (d *Dashboard) layout(ctx context.Context, m *model, by string) (*plan.Layout, error) {
	if by != "slots" && by != "keys" && by != "bytes" && by != "cpu" {
		return nil, failed(http.StatusBadRequest, "bad_request", "%.40q is none of slots, keys, bytes and cpu", by)
	}
	l, primaries := &plan.Layout{}, map[string]string{}
	if m.isCluster() {
		v, err := d.cluster(ctx, m)
		if err != nil {
			return nil, err
		}
		for _, s := range v.shards {
			if !s.primary.lives() && len(s.primary.slots) > 0 {
				return nil, failed(http.StatusConflict, "primary_down", "shard %s has failed, and its slots cannot move",
					s.primary.id)
			}
			if s.primary.lives() {
				l.Shards = append(l.Shards, plan.Shard{ID: s.primary.id})
				primaries[s.primary.id] = s.primary.address
			}
		}
		l.Owners = v.owners()
	} else {
		t, err := m.table()
		if err != nil {
			return nil, err
		}
		for _, g := range m.sorted() {
			l.Shards = append(l.Shards, plan.Shard{ID: g.ID, Draining: g.Draining})
			primaries[g.ID] = g.Primary
		}
		l.Owners = t.Owners()
	}
	if by == "slots" {
		return l, nil
	}
	weights := map[string]int64{}
	var names, addresses []string
	for id, address := range primaries {
		names, addresses = append(names, id), append(addresses, address)
	}
	figures := each(addresses, func(address string) int64 { return d.figure(ctx, address, by) })
	for i, id := range names {
		if figures[i] < 0 {
			return nil, failed(http.StatusBadGateway, "failed", "%s, the primary of %s, does not answer", addresses[i], id)
		}
		weights[id] = figures[i]
	}
	counts := map[string]int64{}
	for _, owner := range l.Owners {
		counts[owner]++
	}
	l.Weights = make([]int64, len(l.Owners))
	for slot, owner := range l.Owners {
		if owner != "" {
			l.Weights[slot] = weights[owner] * weightUnit / counts[owner]
		}
	}
	if by != "cpu" && m.isCluster() {
		return l, d.weighKeys(ctx, l, primaries, weights, by)
	}
	return l, nil
}

// weightUnit scales the weights, so that slots with few keys still differ.
const weightUnit = 1000

// figure returns a primary's keys, bytes or CPU time. It returns -1 if the primary does not answer.
func (d *Dashboard) figure(ctx context.Context, address, by string) int64 {
	v := d.dialer.look(ctx, address)
	if v.Problem != "" {
		return -1
	}
	switch by {
	case "keys":
		return v.Keys
	case "bytes":
		return v.Memory
	}
	if wait(ctx, cpuTime) != nil {
		return -1
	}
	later := d.dialer.look(ctx, address)
	if later.Problem != "" {
		return -1
	}
	return max(0, later.CPUMs-v.CPUMs)
}

// weighKeys spreads the figures of a cluster's shards over their slots by the slots' keys.
func (d *Dashboard) weighKeys(ctx context.Context, l *plan.Layout, primaries map[string]string,
	figures map[string]int64, by string) error {
	for id, address := range primaries {
		link, err := d.dialer.open(ctx, address)
		if err != nil {
			return err
		}
		var slots []int
		for slot, owner := range l.Owners {
			if owner == id {
				slots = append(slots, slot)
				link.Send("CLUSTER", "COUNTKEYSINSLOT", slot)
			}
		}
		counts, total := make([]int64, len(slots)), int64(0)
		for i := range slots {
			v, err := link.Receive()
			if err == nil {
				err = v.Err()
			}
			if err != nil {
				link.close()
				return fmt.Errorf("%s: %w", address, err)
			}
			counts[i] = v.Int
			total += v.Int
		}
		link.close()
		for i, slot := range slots {
			switch {
			case by == "keys":
				l.Weights[slot] = counts[i] * weightUnit
			case total > 0:
				l.Weights[slot] = int64(float64(figures[id]) * float64(weightUnit) * float64(counts[i]) / float64(total))
			}
		}
	}
	return nil
}

// A moveOrder starts a move.
type moveOrder struct {
	Steps []store.Step `json:"steps"` // of a plan
	Pace  int          `json:"pace"`  // keys a second; 0 means no limit
}

func (d *Dashboard) startMove(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	o := c.body.(*moveOrder)
	if len(o.Steps) == 0 {
		return nil, failed(http.StatusBadRequest, "bad_request", "the move has no steps")
	}
	if m.underway() {
		return nil, failed(http.StatusConflict, "in_use", "move %s is under way: cancel it first", m.move.ID)
	}
	l, err := d.layout(c.ctx, m, "slots")
	if err != nil {
		return nil, err
	}
	takes := map[string]bool{}
	for _, s := range l.Shards {
		takes[s.ID] = !s.Draining
	}
	count := 0
	for _, s := range o.Steps {
		if s.From < 0 || s.To < s.From || s.To >= len(l.Owners) {
			return nil, failed(http.StatusBadRequest, "bad_request", "slots %d to %d are out of bounds", s.From, s.To)
		}
		if !takes[s.Target] {
			if v, err := d.cluster(c.ctx, m); m.isCluster() && err == nil {
				if err := v.refuseReplica(s.Target); err != nil {
					return nil, err
				}
			}
			return nil, failed(http.StatusConflict, "conflict", "%.80q is no group that takes slots", s.Target)
		}
		for slot := s.From; slot <= s.To; slot++ {
			if l.Owners[slot] != s.Source {
				return nil, failed(http.StatusConflict, "changed", "slot %d belongs to %q, and not to %.80q: make a new plan",
					slot, l.Owners[slot], s.Source)
			}
		}
		count += s.To - s.From + 1
	}
	id := make([]byte, 6)
	_, _ = rand.Read(id) // it never fails
	move := &store.Move{ID: hex.EncodeToString(id), State: store.MoveRunning, Steps: o.Steps, Pace: o.Pace, By: c.who.name,
		Created: now()}
	if m.isCluster() {
		if move.Members, err = d.members(c.ctx, m, o.Steps); err != nil {
			return nil, err
		}
	}
	c.detail = fmt.Sprintf("%s: %d slots", move.ID, count)
	e := d.edit(m).put(move, "move").expect("slots").expect("product")
	e.put(&store.Progress{Move: move.ID, Slots: count, Slot: -1, Updated: now()}, "progress")
	e.conditions = e.conditions[:len(e.conditions)-1] // an old progress may still be written
	if _, err := e.commit(c.ctx); err != nil {
		return nil, err
	}
	d.wake()
	return d.moveAgain(c)
}

// moveAgain returns the move as it is now.
func (d *Dashboard) moveAgain(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	return d.moveView(m), nil
}

// A moveChange changes the move that is under way. Missing fields stay unchanged.
type moveChange struct {
	State *string `json:"state"` // "running", "paused" or "cancelled"
	Pace  *int    `json:"pace"`
}

func (d *Dashboard) changeMove(c *call) (any, error) {
	m, err := d.load(c.ctx, c.part("product"))
	if err != nil {
		return nil, err
	}
	if !m.underway() {
		return nil, failed(http.StatusNotFound, "no_move", "no move is under way")
	}
	o, changed := c.body.(*moveChange), *m.move
	if o.State != nil {
		c.detail = describe(*o.State)
		switch {
		case *o.State != store.MoveRunning && *o.State != store.MovePaused && *o.State != store.MoveCancelled:
			return nil, failed(http.StatusBadRequest, "bad_request", "state %.40q is none of running, paused and cancelled",
				*o.State)
		case changed.State == store.MoveCancelled:
			return nil, failed(http.StatusConflict, "conflict", "the move is cancelled already")
		}
		changed.State = *o.State
	}
	if o.Pace != nil {
		changed.Pace = *o.Pace
		c.detail = strings.TrimSpace(fmt.Sprintf("%s pace %d", c.detail, *o.Pace))
	}
	if _, err := d.edit(m).put(&changed, "move").commit(c.ctx); err != nil {
		return nil, err
	}
	d.wake()
	return d.moveAgain(c)
}

// uses reports whether a move has a group as source or target.
func uses(m *store.Move, group string) bool {
	for _, s := range m.Steps {
		if s.Source == group || s.Target == group {
			return true
		}
	}
	return false
}

// errorContains reports whether an error's text contains part.
func errorContains(err error, part string) bool {
	return err != nil && strings.Contains(err.Error(), part)
}

// wake makes the mover check the products at once.
func (d *Dashboard) wake() {
	select {
	case d.woken <- struct{}{}:
	default:
	}
}

// work runs the background work of the active dashboard until ctx ends: it carries out moves and follows failovers.
func (d *Dashboard) work(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.watchPrimaries(ctx)
	}()
	defer func() { <-done }()
	ended := make(chan string)
	busy := map[string]bool{}
	ticks := time.NewTicker(2 * time.Second)
	defer ticks.Stop()
	for {
		if names, err := d.products(ctx); err == nil {
			for _, name := range names {
				if !busy[name] {
					busy[name] = true
					go func() {
						d.carryOut(ctx, name)
						ended <- name
					}()
				}
			}
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				for range busy {
					<-ended
				}
				return
			case name := <-ended:
				delete(busy, name)
				if len(busy) == 0 {
					continue
				}
			case <-ticks.C:
				waiting = false
			case <-d.woken:
				waiting = false
			}
		}
	}
}

// carryOut carries out the product's move until it is over or paused, or until the leadership is lost.
func (d *Dashboard) carryOut(ctx context.Context, name string) {
	w := &mover{d: d, product: name, clean: map[string]bool{}}
	for failures := 0; ctx.Err() == nil; {
		more, err := w.step(ctx)
		switch {
		case errors.Is(err, store.ErrLost), ctx.Err() != nil:
			return
		case errors.Is(err, store.ErrConflict):
			_ = wait(ctx, 10*time.Millisecond) // then look again
		case err != nil:
			w.report(ctx, describe(err.Error()), nil)
			_ = wait(ctx, min(100*time.Millisecond<<min(failures, 6), 3*time.Second))
			failures++
		case !more:
			return
		default:
			failures = 0
		}
	}
}
