package plan

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"spindle/proxy/store"
)

func TestTable(t *testing.T) {
	entry := &store.Slots{Slots: 1024, Ranges: []store.Range{{From: 0, To: 9, Group: "a"},
		{From: 10, To: 10, Group: "a", State: store.Prepare, Target: "b"}, {From: 20, To: 1023, Group: "b"}}}
	table := NewTable(entry)
	if got := table.Entry(); !reflect.DeepEqual(got.Ranges, entry.Ranges) || got.Slots != 1024 {
		t.Errorf("%+v", got)
	}
	for what, err := range map[string]error{
		"a slot under way is prepared":     table.Prepare([]int{10}, "c"),
		"a slot of no group is prepared":   table.Prepare([]int{11}, "c"),
		"a slot is prepared for its own":   table.Prepare([]int{0}, "a"),
		"a slot migrates unprepared":       table.Migrate([]int{0}),
		"a slot is finished unmigrated":    table.Finish([]int{10}),
		"a slot online is abandoned":       table.Abandon([]int{0}),
		"a slot is assigned twice":         table.Assign(9, 12, "b"),
		"slots out of bounds are assigned": table.Assign(11, 1024, "b"),
	} {
		if err == nil {
			t.Errorf("%s", what)
		}
	}
	for _, err := range []error{table.Migrate([]int{10}), table.Finish([]int{10}), table.Prepare([]int{0}, "b"),
		table.Abandon([]int{0}), table.Assign(11, 19, "c")} {
		if err != nil {
			t.Error(err)
		}
	}
	if table[10] != (Cell{Group: "b"}) || table[0] != (Cell{Group: "a"}) || table[19] != (Cell{Group: "c"}) {
		t.Errorf("%+v", table[:20])
	}
}

// A member is a simulated proxy. It acts on one of the tables so far, and confirms the tables that it acts on.
type member struct{ acts, confirmed int }

// TestMovesAreSafe simulates moves with proxies that receive tables late, with pauses, cancellations, and dashboards
// that lose their memory between two steps. Two proxies never send requests for one slot to different groups. No proxy
// sends requests to a slot's source while its keys are carried.
func TestMovesAreSafe(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		groups := []string{"a", "b", "c"}
		table := make(Table, 32)
		for slot := range table {
			table[slot].Group = groups[rng.IntN(2)]
		}
		move := &store.Move{State: store.MoveRunning}
		for slot := range table {
			if rng.IntN(2) == 0 {
				move.Steps = append(move.Steps, store.Step{From: slot, To: slot, Source: table[slot].Group, Target: "c"})
			}
		}
		history := []Table{slices.Clone(table)} // the revision is the index
		proxies := make([]member, 3)
		batch, done := 1+rng.IntN(8), false
		for step := 0; !done; step++ {
			if step > 20000 {
				t.Fatalf("seed %d: the move does not end", seed)
			}
			for i := range proxies {
				if p := &proxies[i]; rng.IntN(3) == 0 {
					p.acts += rng.IntN(len(history) - p.acts)
				} else if rng.IntN(2) == 0 {
					p.confirmed = p.acts
				}
			}
			agree(t, seed, history, proxies)
			switch rng.IntN(40) {
			case 0:
				move.State = store.MovePaused
			case 1:
				move.State = store.MoveRunning
			case 2:
				if step > 200 {
					move.State = store.MoveCancelled
				}
			}
			if rng.IntN(4) == 0 {
				continue // the dashboard is slow, or another one begins
			}
			next := slices.Clone(table)
			var err error
			switch a := Next(table, move, batch); a.Deed {
			case Begin:
				err = next.Prepare(a.Slots, a.Target)
			case Switch:
				registered := []store.Proxy{}
				for i, p := range proxies {
					registered = append(registered, store.Proxy{ID: fmt.Sprint(i), Confirmed: int64(p.confirmed)})
				}
				if Waiting(registered, int64(len(history)-1)) != nil {
					continue
				}
				err = next.Migrate(a.Slots)
			case Carry:
				for _, p := range proxies {
					for _, slot := range a.Slots {
						if c := history[p.acts][slot]; c.State == "" && c.Group == a.Source {
							t.Fatalf("seed %d: slot %d is carried while a proxy sends to its source", seed, slot)
						}
					}
				}
				err = next.Finish(a.Slots)
			case Return:
				err = next.Abandon(a.Slots)
			case Finished:
				done = move.State != store.MovePaused
				continue
			}
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			table = next
			history = append(history, slices.Clone(table))
		}
		for slot, c := range table {
			if c.State != "" || c.Group == "" {
				t.Fatalf("seed %d: slot %d ends as %+v", seed, slot, c)
			}
		}
		if arrived, all, left := Done(table, move); move.State == store.MoveRunning && (arrived != all || left != 0) {
			t.Fatalf("seed %d: %d of %d slots have arrived, %d cannot", seed, arrived, all, left)
		}
	}
}

// agree checks that no two proxies send requests for one slot to different groups.
func agree(t *testing.T, seed uint64, history []Table, proxies []member) {
	t.Helper()
	for slot := range history[0] {
		served := ""
		for _, p := range proxies {
			c := history[p.acts][slot]
			group := c.Group
			switch c.State {
			case store.Prepare:
				continue // held back
			case store.Migrating:
				group = c.Target
			}
			if served != "" && served != group {
				t.Fatalf("seed %d: slot %d is served by %s and %s", seed, slot, served, group)
			}
			served = group
		}
	}
}
