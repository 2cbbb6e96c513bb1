package tracked

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/value"
)

func open(t testing.TB) *Table {
	h, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	h.Register(value.KindDue, table.DestroyDue)
	return New(h)
}

// reclaim frees the retired blocks, as reclaimers do.
func reclaim(h *memory.Heap) {
	for range 4 { // Drain notices that a hold has closed
		h.Drain(1 << 20)
		for job, _ := h.TakeFreeing(); job != nil; job, _ = h.TakeFreeing() {
			for done := false; !done; {
				done = job(64)
			}
		}
	}
	h.Drain(1 << 20)
}

func (t *Table) check() error {
	if err := t.t.Check(); err != nil {
		return err
	}
	items := 0
	var err error
	t.t.All(func(ref memory.Ref) bool {
		ids := table.AppendTracked(nil, ref)
		slices.Sort(ids)
		if n := len(ids); n == 0 || n != table.TrackedLen(ref) || len(slices.Compact(ids)) != n {
			err = fmt.Errorf("table.K2: %q has %d ids, says %d", table.TrackedKey(memory.Pointer(ref)), n, table.TrackedLen(ref))
		}
		items += len(ids)
		return true
	})
	if err == nil && items != t.items {
		err = fmt.Errorf("tracked.T1: %d ids, counted %d", items, t.items)
	}
	return err
}

// TestTableModel makes the same steps on a table and on a map of sets. Views are open now and then. At the end no
// memory may be left.
func TestTableModel(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 0))
		got, want := open(t), map[string]map[int64]bool{}
		draw := rand.NewPCG(seed, 1)
		empty := got.heap.Used()
		var hold *memory.Hold
		for step := range 60_000 {
			key := fmt.Sprintf("%0*d", rng.IntN(3)*rng.IntN(200), rng.IntN(300))
			id := 1 + rng.Int64N([]int64{2, 30, 2000}[rng.IntN(3)])
			switch op := rng.IntN(1000); {
			case op < 950:
				got.Add([]byte(key), id)
				if want[key] == nil {
					want[key] = map[int64]bool{}
				}
				want[key][id] = true
			case op < 990:
				if op < 970 {
					if random := got.Random(draw); random != nil {
						key = string(random)
						if want[key] == nil {
							t.Fatalf("seed %d, step %d: %q at random is not there", seed, step, key)
						}
					}
				}
				ids := got.Pop([]byte(key), nil)
				slices.Sort(ids)
				var expect []int64
				for id := range want[key] {
					expect = append(expect, id)
				}
				slices.Sort(expect)
				if !slices.Equal(ids, expect) {
					t.Fatalf("seed %d, step %d: %q has %v, want %v", seed, step, key, ids, expect)
				}
				delete(want, key)
			case op < 998:
				if hold == nil {
					hold = got.heap.Freeze()
				} else {
					hold.Close()
					hold = nil
				}
			case rng.IntN(10) == 0:
				got.Clear()
				clear(want)
			}
			if got.Len() != len(want) {
				t.Fatalf("seed %d, step %d: %d keys, want %d", seed, step, got.Len(), len(want))
			}
			if step%1000 == 0 {
				if err := got.check(); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
			}
		}
		if hold != nil {
			hold.Close()
		}
		got.Clear()
		reclaim(got.heap)
		if used := got.heap.Used(); used != empty {
			t.Errorf("seed %d: %d bytes used at the end, %d when it was empty", seed, used, empty)
		}
	}
}

// TestKeyOfOneClientIsSmall limits the cost, including the index, of a key of 16 bytes that one client has read.
func TestKeyOfOneClientIsSmall(t *testing.T) {
	got := open(t)
	before := got.heap.Used()
	const n = 100_000
	for i := range n {
		got.Add(fmt.Appendf(nil, "key:%012d", i), 7)
	}
	if bytes := (got.heap.Used() - before) / n; bytes > 48 {
		t.Errorf("%d bytes a key", bytes)
	}
}

// BenchmarkAdd adds keys that the same client has read before. Watch allocs/op: 0.
func BenchmarkAdd(b *testing.B) {
	t := open(b)
	keys := make([][]byte, 1<<16)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key:%012d", i)
		t.Add(keys[i], 7)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		t.Add(keys[i*40503&(1<<16-1)], 7)
	}
}
