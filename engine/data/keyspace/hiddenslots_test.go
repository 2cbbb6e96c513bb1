package keyspace

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/internal/slots"
)

// TestModelHiddenSlots makes random writes to a keyspace and to a map, while slots are hidden and shown. Counts, walks,
// samples and views include only keys of slots that are shown.
func TestModelHiddenSlots(t *testing.T) {
	heap, err := memory.New(memory.Options{Databases: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer heap.Close()
	k := New(heap, Options{Databases: 2, StartMs: 1000, Slots: true})
	db := k.DB(1)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	tags := []string{"a", "b", "c", "d", "e", "f"}
	hidden := map[uint16]bool{}
	stored := map[string]int64{}
	for step := range 4000 {
		switch n := rng.IntN(100); {
		case n < 55:
			key := fmt.Sprintf("{%s}%d", tags[rng.IntN(len(tags))], rng.IntN(200))
			deadline := int64(0)
			if rng.IntN(3) == 0 {
				deadline = 2_000_000
			}
			db.SetString([]byte(key), []byte("v"), deadline)
			stored[key] = deadline
		case n < 70:
			key := fmt.Sprintf("{%s}%d", tags[rng.IntN(len(tags))], rng.IntN(200))
			if db.SetDeadline([]byte(key), int64(n%2)*3_000_000) {
				stored[key] = int64(n%2) * 3_000_000
			}
		case n < 85:
			key := fmt.Sprintf("{%s}%d", tags[rng.IntN(len(tags))], rng.IntN(200))
			db.Delete([]byte(key))
			delete(stored, key)
		case n < 90:
			slot := slots.Of([]byte(tags[rng.IntN(len(tags))]))
			hidden[slot] = !hidden[slot]
			k.Hide([]uint16{slot}, hidden[slot])
		}
		if step%50 != 0 {
			continue
		}
		shown, volatile := 0, 0
		for key, deadline := range stored {
			if !hidden[slots.Of([]byte(key))] {
				shown++
				if deadline != 0 {
					volatile++
				}
			}
		}
		view := k.Freeze()
		counts := map[string]int{"Len": db.Len(), "View.Len": view.Len(1)}
		count := func(name string) func(v value.Value) bool {
			return func(v value.Value) bool {
				if hidden[slots.Of(v.Key())] {
					t.Fatalf("seed %d, step %d: %s has %q", seed, step, name, v.Key())
				}
				counts[name]++
				return true
			}
		}
		for _, name := range []string{"All", "Scan", "View.Walk", "EachInSlot"} {
			counts[name] = 0
		}
		db.All(count("All"))
		for cursor := uint64(0); ; {
			if cursor = db.Scan(cursor, 100, func(v value.Value) { count("Scan")(v) }); cursor == 0 {
				break
			}
		}
		view.Walk(1, 0, 1, count("View.Walk"))
		view.Close()
		for _, tag := range tags {
			slot := slots.Of([]byte(tag))
			db.EachInSlot(slot, 1000, func(v value.Value) { count("EachInSlot")(v) })
			if n := db.InSlot(slot); hidden[slot] && (n != 0 || k.InSlot(slot) != 0) {
				t.Fatalf("seed %d, step %d: a hidden slot has %d keys", seed, step, n)
			}
		}
		for name, n := range counts {
			if n != shown {
				t.Fatalf("seed %d, step %d: %s has %d keys, want %d", seed, step, name, n, shown)
			}
		}
		if n := db.Volatile(); n != volatile {
			t.Fatalf("seed %d, step %d: %d volatile keys, want %d", seed, step, n, volatile)
		}
		if v := db.Random(); v.Exists() != (shown > 0) || v.Exists() && hidden[slots.Of(v.Key())] {
			t.Fatalf("seed %d, step %d: a random key of %d: %t", seed, step, shown, v.Exists())
		}
		for key := range stored {
			if !db.Stored([]byte(key)).Exists() {
				t.Fatalf("seed %d, step %d: %q is not found", seed, step, key)
			}
		}
		if err := db.d.t.Check(); err != nil {
			t.Fatalf("seed %d, step %d: %v", seed, step, err)
		}
	}
}

// TestEvictionOfTheOnlyShownKey: each policy finds the only key that is shown, also among many hidden ones with
// deadlines.
func TestEvictionOfTheOnlyShownKey(t *testing.T) {
	heap, err := memory.New(memory.Options{Databases: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer heap.Close()
	k := New(heap, Options{Databases: 1, StartMs: 1000, Slots: true})
	db := k.DB(0)
	k.Hide([]uint16{slots.Of([]byte("h"))}, true)
	for i := range 30_000 {
		db.SetString(fmt.Appendf(nil, "{h}%d", i), []byte("v"), 1_000_000)
	}
	for i := range 100 { // a segment of few slots
		db.SetString(fmt.Appendf(nil, "other:%d", i), []byte("v"), 0)
	}
	for k.Policy = VolatileLRU; k.Policy <= VolatileLRM; k.Policy++ {
		for range 3 {
			db.SetString([]byte("other"), []byte("v"), 1_000_000)
			if _, ok := k.EvictOne(); !ok || db.Stored([]byte("other")).Exists() {
				t.Errorf("policy %d: the key that is shown was not evicted", k.Policy)
			}
			if _, ok := k.EvictOne(); ok {
				t.Errorf("policy %d: another key was evicted", k.Policy)
			}
		}
	}
	if err := db.d.t.Check(); err != nil {
		t.Error(err)
	}
}

// TestHiddenKeysStay: keys of hidden slots neither expire nor are evicted. Once their slot is shown, they do and are.
func TestHiddenKeysStay(t *testing.T) {
	for range 10 { // the samples are random
		playHiddenKeys(t)
	}
}

func playHiddenKeys(t *testing.T) {
	heap, err := memory.New(memory.Options{Databases: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer heap.Close()
	k := New(heap, Options{Databases: 1, StartMs: 1000, Slots: true})
	db, slot := k.DB(0), slots.Of([]byte("h"))
	k.Hide([]uint16{slot}, true)
	const keys = 340 // samples of these may not meet the key that is shown
	for i := range keys {
		db.SetString(fmt.Appendf(nil, "{h}%d", i), []byte("v"), 1500)
	}
	db.SetString([]byte("other"), []byte("v"), 0)
	k.SetNow(5000)
	if n, more := k.ExpireDue(time.Second); n != 0 || more {
		t.Errorf("%d hidden keys expired, more: %t", n, more)
	}
	if at := k.NextDeadline(); at != 0 && at <= 5000 {
		t.Errorf("expiry is due again at %d", at)
	}
	k.Policy = AllKeysLRU
	if _, ok := k.EvictOne(); !ok || db.Stored([]byte("other")).Exists() {
		t.Error("the key that is shown was not evicted")
	}
	if _, ok := k.EvictOne(); ok {
		t.Error("a hidden key was evicted")
	}
	k.Policy = VolatileRandom
	if _, ok := k.EvictOne(); ok {
		t.Error("a hidden key was evicted at random")
	}
	k.Hide([]uint16{slot}, false)
	k.SetNow(7000)
	if n, _ := k.ExpireDue(time.Second); n != keys {
		t.Errorf("%d keys expired when they were shown", n)
	}
}
