package plan

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"spindle/proxy/store"
)

// owners expands a layout in short form: "a3 b2" is three slots of a, then two of b; "-" stands for no shard.
func owners(runs string) (list []string) {
	for _, run := range strings.Fields(runs) {
		var n int
		fmt.Sscan(run[1:], &n)
		for range n {
			list = append(list, strings.Trim(run[:1], "-"))
		}
	}
	return list
}

func shards(names string) (list []Shard) {
	for _, name := range strings.Fields(names) {
		id, drains := strings.CutSuffix(name, "!")
		list = append(list, Shard{id, drains})
	}
	return list
}

func steps(p *Plan) string {
	var list []string
	for _, s := range p.Steps {
		list = append(list, fmt.Sprintf("%d-%d:%s>%s", s.From, s.To, s.Source, s.Target))
	}
	return strings.Join(list, " ")
}

func TestBalance(t *testing.T) {
	for _, c := range []struct{ name, shards, owners, want string }{
		{"even", "a b", "a4 b4", ""},
		{"one more", "a b", "a5 b4", ""},
		{"new shard", "a b c", "a6 b6", "0-1:a>c 6-7:b>c"},
		{"drained shard", "a! b c", "a4 b2 c2", "0-1:a>b 2-3:a>c"},
		{"slots of no shard", "a b", "-4 a4", "4-5:a>b"},
		{"nothing", "a b", "-8", ""},
		{"odd", "a b c", "a7", "0-1:a>b 2-3:a>c"},
	} {
		p, err := Balance(Layout{Shards: shards(c.shards), Owners: owners(c.owners)})
		if err != nil || steps(p) != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, steps(p), err, c.want)
		}
	}
	if _, err := Balance(Layout{Shards: shards("a! b!"), Owners: owners("a4")}); err != ErrNoTarget {
		t.Errorf("all shards drain: %v", err)
	}
	for _, bad := range []Layout{{Shards: shards("a a")}, {Shards: shards("a"), Owners: owners("b1")},
		{Shards: shards("a"), Owners: owners("a1"), Weights: []int64{-1}}, {Shards: shards("a"), Weights: []int64{1}}} {
		if p, err := Balance(bad); err == nil {
			t.Errorf("%+v is planned as %+v", bad, p)
		}
	}
}

func TestWeights(t *testing.T) {
	l := Layout{Shards: shards("a b"), Owners: owners("a4"), Weights: []int64{1, 50, 20, 29}}
	p, err := Balance(l)
	if err != nil || steps(p) != "1-1:a>b" || p.Imbalance != (Change{100, 0}) {
		t.Errorf("%+v, %v", p, err)
	}
	if want := (Load{ID: "b", Slots: Pair{0, 1}, Weight: Pair{0, 50}}); p.Shards[1] != want {
		t.Errorf("%+v", p.Shards)
	}
}

func TestDrain(t *testing.T) {
	l := Layout{Shards: shards("a b c d!"), Owners: owners("a4 b1 c3 d2")}
	p, err := Drain(l, "a")
	if err != nil || steps(p) != "0-2:a>b 3-3:a>c" {
		t.Errorf("%s, %v", steps(p), err)
	}
	if _, err := Drain(l, "z"); err == nil {
		t.Error("an unknown shard is drained")
	}
	if _, err := Drain(Layout{Shards: shards("a"), Owners: owners("a1")}, "a"); err != ErrNoTarget {
		t.Errorf("the only shard: %v", err)
	}
}

func TestMove(t *testing.T) {
	l := Layout{Shards: shards("a b c!"), Owners: owners("a4 b2 -1")}
	p, err := Move(l, [][2]int{{2, 5}}, "b")
	if err != nil || steps(p) != "2-3:a>b" {
		t.Errorf("%s, %v", steps(p), err)
	}
	for _, target := range []string{"z", "c"} {
		if _, err := Move(l, [][2]int{{0, 0}}, target); err == nil {
			t.Errorf("slots move to %s", target)
		}
	}
	for _, r := range [][2]int{{-1, 0}, {3, 2}, {0, 7}, {6, 6}} {
		if _, err := Move(l, [][2]int{r}, "b"); err == nil {
			t.Errorf("slots %v move", r)
		}
	}
}

// TestPlansHoldTheirRules makes plans for random layouts. Every plan keeps plan.P1 and plan.P2, moves the slots that it
// should, and is the same when it is made again.
func TestPlansHoldTheirRules(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		l := Layout{Owners: make([]string, []int{1024, 16384}[rng.IntN(2)])}
		for i := range 2 + rng.IntN(12) {
			l.Shards = append(l.Shards, Shard{ID: fmt.Sprintf("s%d", i), Draining: i > 0 && rng.IntN(6) == 0})
		}
		favoured := 1 + rng.IntN(len(l.Shards))
		for slot := range l.Owners {
			l.Owners[slot] = l.Shards[rng.IntN(favoured)].ID
		}
		if rng.IntN(2) == 0 {
			l.Weights = make([]int64, len(l.Owners))
			for slot := range l.Weights {
				l.Weights[slot] = rng.Int64N(1000)
			}
		}
		p, err := Balance(l)
		if err != nil {
			t.Fatal(seed, err)
		}
		check(t, seed, l, p)
		limit := 2.0
		var total, heaviest int64
		for slot := range l.Owners {
			w := int64(1)
			if l.Weights != nil {
				w = l.Weights[slot]
			}
			total, heaviest = total+w, max(heaviest, w)
		}
		takers := 0
		for _, s := range l.Shards {
			if !s.Draining {
				takers++
			}
		}
		limit = max(limit, 100*float64(heaviest)*float64(takers)/float64(total))
		if p.Imbalance.After > limit+0.01 {
			t.Errorf("seed %d: the imbalance is %v, and %.2f is allowed", seed, p.Imbalance, limit)
		}
		again, err := Balance(l)
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Errorf("seed %d: the second plan differs", seed)
		}
		drained, err := Drain(l, l.Shards[0].ID)
		if takers == 1 {
			continue
		}
		if err != nil {
			t.Fatal(seed, err)
		}
		check(t, seed, l, drained)
		for _, s := range drained.Steps {
			if s.Source != l.Shards[0].ID {
				t.Errorf("seed %d: a drain of %s moves slots of %s", seed, l.Shards[0].ID, s.Source)
			}
		}
	}
}

// check checks that a plan's steps fit its layout, and that its figures fit its steps.
func check(t *testing.T, seed uint64, l Layout, p *Plan) {
	t.Helper()
	moved := map[int]bool{}
	gives, takes := map[string]bool{}, map[string]bool{}
	for _, s := range p.Steps {
		gives[s.Source], takes[s.Target] = true, true
		for slot := s.From; slot <= s.To; slot++ {
			if moved[slot] || l.Owners[slot] != s.Source {
				t.Fatalf("seed %d: slot %d of %s moves from %s, twice: %t", seed, slot, l.Owners[slot], s.Source, moved[slot])
			}
			moved[slot] = true
		}
	}
	after := map[string]int64{}
	for _, load := range p.Shards {
		after[load.ID] = load.Slots.After
	}
	for _, s := range p.Steps {
		if gives[s.Target] || takes[s.Source] {
			t.Fatalf("seed %d: %+v: a shard gives and gets", seed, s)
		}
	}
	if len(moved) != p.Moved {
		t.Errorf("seed %d: %d slots move, and the plan says %d", seed, len(moved), p.Moved)
	}
	for _, s := range l.Shards {
		if s.Draining && after[s.ID] > 0 && slices.ContainsFunc(p.Steps,
			func(x store.Step) bool { return x.Target == s.ID }) {
			t.Errorf("seed %d: %s drains and gets slots", seed, s.ID)
		}
	}
}
