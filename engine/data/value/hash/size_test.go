package hash_test

import (
	"fmt"
	"testing"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/engine/data/value/hash"
	"spindle/internal/invariant"
)

var usual = hash.Limits{Entries: 512, Value: 64}

func newSpace(t testing.TB) (*memory.Heap, *keyspace.Keyspace) {
	h, err := memory.New(memory.Options{Databases: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	k := keyspace.New(h, keyspace.Options{Databases: 1, StartMs: 1_000_000, Seed: 1})
	k.SetNow(1_000_000)
	return h, k
}

// TestMemory limits the cost of a small hash with its key, and of a field of a large hash. Both include their share of
// the index.
func TestMemory(t *testing.T) {
	small, large := 200_000, 1_000_000
	if invariant.Enabled {
		small, large = 20_000, 100_000
	}
	t.Run("hashes of 5 fields", func(t *testing.T) {
		h, k := newSpace(t)
		before := h.Used()
		pairs := make([][]byte, 10)
		for i := range small {
			for f := range 5 {
				pairs[2*f], pairs[2*f+1] = fmt.Appendf(pairs[2*f][:0], "f%d", f), fmt.Appendf(pairs[2*f+1][:0], "v%07d", i+f)
			}
			e := k.DB(0).Create(fmt.Appendf(nil, "key:%012d", i), value.Hash, value.Listpack, hash.FillBytes(pairs))
			hash.Fill(e, pairs, usual)
		}
		each := float64(h.Used()-before) / float64(small)
		t.Logf("%.1f bytes", each)
		if each > 120 {
			t.Errorf("%.1f bytes a hash", each)
		}
	})
	t.Run("a hash of a million fields", func(t *testing.T) {
		h, k := newSpace(t)
		before := h.Used()
		b := hash.NewBuilder(k.Store(), 0)
		k.DB(0).PutRoot([]byte("hash"), value.Hash, value.HashTable, b.Root(), 0)
		var field, val []byte
		for i := range large {
			field, val = fmt.Appendf(field[:0], "field:%08d", i), fmt.Appendf(val[:0], "value:%08d", i)
			hash.Set(k.DB(0).Edit([]byte("hash")), field, val, false, usual)
		}
		each := float64(h.Used()-before) / float64(large)
		t.Logf("%.1f bytes", each)
		if each > 60 {
			t.Errorf("%.1f bytes a field", each)
		}
		if cost := float64(k.MemoryUsage(k.DB(0).Peek([]byte("hash")), 5)) / float64(large); cost < each*0.8 ||
			cost > each*1.2 {
			t.Errorf("MEMORY USAGE says %.1f bytes a field, it is %.1f", cost, each)
		}
	})
}
