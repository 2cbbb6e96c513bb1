package keyspace

import (
	"fmt"
	"slices"
	"testing"
)

// TestEvictionByAge: at the limit, each insert evicts one key. The number of old keys left shows whether the policy
// sees all of them, because samples that prefer some slots leave more.
func TestEvictionByAge(t *testing.T) {
	const keys = 20_000
	for _, c := range []struct {
		name         string
		policy       Policy
		rounds       int // of as many inserts as there are keys
		least, most  float64
		onlyVolatile bool
	}{
		{"allkeys-random", AllKeysRandom, 1, 0.355, 0.381, false}, // e^-1 is 0.368
		{"volatile-random", VolatileRandom, 1, 0.355, 0.381, true},
		{"allkeys-lru", AllKeysLRU, 2, 0, 0.006, false},
		{"volatile-lru", VolatileLRU, 2, 0, 0.006, true},
		{"volatile-ttl", VolatileTTL, 2, 0, 0.006, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := open(t)
			k.Policy, k.Samples = c.policy, 5
			db := k.DB(0)
			put := func(i int) {
				k.SetNow(k.Now() + 100)
				deadline := int64(0)
				if c.onlyVolatile {
					deadline = k.Now() + 1_000_000_000
					db.SetString(fmt.Append(nil, "stays:", i), nil, 0)
				}
				db.SetString(fmt.Append(nil, "key:", i), nil, deadline)
			}
			for i := range keys {
				put(i)
			}
			for i := range c.rounds * keys {
				if _, ok := k.EvictOne(); !ok {
					t.Fatal("nothing to evict")
				}
				put(keys + i)
			}
			left := 0
			for i := range keys {
				if db.Peek(fmt.Append(nil, "key:", i)).Exists() {
					left++
				}
			}
			if share := float64(left) / keys; share < c.least || share > c.most {
				t.Errorf("%.2f %% of the old keys are left, want %.2f to %.2f", 100*share, 100*c.least, 100*c.most)
			} else {
				t.Logf("%.2f %% of the old keys are left", 100*share)
			}
		})
	}
}

// TestLeastRecentlyModified: under the LRM policies, keys are evicted in the order of their last change. Reads do not
// matter.
func TestLeastRecentlyModified(t *testing.T) {
	for _, policy := range []Policy{AllKeysLRM, VolatileLRM} {
		k := open(t)
		k.Policy, k.Samples = policy, 64
		db := k.DB(0)
		name := func(i int) []byte { return fmt.Append(nil, "key:", i) }
		for i := range 10 {
			db.SetString(name(i), []byte("v"), k.Now()+1_000_000_000)
		}
		db.SetString([]byte("stays"), nil, 0)
		want := []int{3, 1, 4, 5, 9, 2, 6, 8, 7, 0}
		for _, i := range want {
			k.SetNow(k.Now() + 1000)
			db.SetString(name(i), []byte("w"), KeepTTL)
		}
		k.SetNow(k.Now() + 1000)
		k.NoTouch = true // it is about reads
		db.SetString([]byte("stays"), nil, 0)
		k.NoTouch = false
		for i := range 10 {
			k.SetNow(k.Now() + 1000)
			db.Lookup(name(i))
		}
		var evicted []int
		k.Hooks.Evicted = func(_ int, key []byte) {
			var i int
			if _, err := fmt.Sscanf(string(key), "key:%d", &i); err != nil {
				i = -1
			}
			evicted = append(evicted, i)
		}
		for range want {
			k.EvictOne()
		}
		if !slices.Equal(evicted, want) {
			t.Errorf("policy %d: evicted %v, want %v", policy, evicted, want)
		}
		if _, ok := k.EvictOne(); ok != (policy == AllKeysLRM) {
			t.Errorf("policy %d: the key without a deadline is evicted: %t", policy, ok)
		}
	}
}
