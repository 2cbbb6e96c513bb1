package client

import (
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
)

// check checks client.G1 and client.G2.
func (r *Registry) check(t *testing.T) {
	t.Helper()
	last, n := int64(0), 0
	for i, c := range r.list {
		if c == nil {
			continue
		}
		n++
		if c.index != i || r.byID[c.ID] != c {
			t.Fatalf("client.G1: client %d at %d, says %d", c.ID, i, c.index)
		}
		if c.ID <= last {
			t.Fatalf("client.G2: %d after %d", c.ID, last)
		}
		last = c.ID
	}
	if n != len(r.byID) {
		t.Fatalf("client.G1: %d listed, %d known", n, len(r.byID))
	}
}

// TestRegistryModel compares a registry with a sorted slice of the present clients. Some of them were entered late.
func TestRegistryModel(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	r := NewRegistry()
	var model, late []*Client
	most := 0
	for step := range 20_000 {
		if grow := step/4000%2 == 0; rng.IntN(3) == 0 != grow {
			c := &Client{ID: r.NextID()}
			if rng.IntN(50) == 0 {
				late = append(late, c) // it has its id, and enters after others
				continue
			}
			if n := len(late); n > 0 && rng.IntN(10) == 0 {
				c, late[n-1] = late[n-1], c
			}
			r.Add(c)
			at := sort.Search(len(model), func(i int) bool { return model[i].ID > c.ID })
			model = slices.Insert(model, at, c)
		} else if len(model) > 0 {
			i := rng.IntN(len(model))
			r.Remove(model[i])
			r.Remove(model[i]) // twice has the same effect as once
			model = slices.Delete(model, i, i+1)
		}
		most = max(most, len(model))
		if step%97 != 0 {
			continue
		}
		r.check(t)
		if got := slices.Collect(r.All); !slices.Equal(got, model) || r.Len() != len(model) {
			t.Fatalf("seed %d, step %d: %d clients, want %d", seed, step, len(got), len(model))
		}
		from := rng.Int64N(r.last.Load() + 2)
		want := model[len(model):]
		if i := slices.IndexFunc(model, func(c *Client) bool { return c.ID >= from }); i >= 0 {
			want = model[i:]
		}
		if got := slices.Collect(r.From(from)); !slices.Equal(got, want) {
			t.Fatalf("seed %d, step %d: %d from id %d, want %d", seed, step, len(got), from, len(want))
		}
	}
	if len(r.list) > 4*most+compactFrom {
		t.Errorf("%d places for at most %d clients", len(r.list), most)
	}
}

// TestRegistryLosesClientsWhileItIsRead: if clients are removed during a walk, the walk must not miss another client.
func TestRegistryLosesClientsWhileItIsRead(t *testing.T) {
	r := NewRegistry()
	for range 1000 {
		r.Add(&Client{ID: r.NextID()})
	}
	for c := range r.All {
		r.Remove(c)
	}
	if r.Len() != 0 {
		t.Errorf("%d are left", r.Len())
	}
}
