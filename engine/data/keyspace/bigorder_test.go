package keyspace

import (
	"math/rand/v2"
	"testing"
)

// TestBigOrder: the heap's order and its index are right after random steps.
func TestBigOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedOf(t), 0))
	o, want := &bigOrder{at: map[uint64]int32{}}, map[uint64]int64{}
	for range 20_000 {
		hash := rng.Uint64N(300)
		if i, there := o.at[hash]; there && rng.IntN(3) == 0 {
			o.remove(int(i))
			delete(want, hash)
		} else {
			size := rng.Int64N(1000)
			if added := o.put(hash, size); added == there {
				t.Fatalf("put says added %t of a key that was there: %t", added, there)
			}
			want[hash] = size
		}
		if len(o.heap) != len(want) || len(o.at) != len(want) {
			t.Fatalf("%d in the heap, %d in the index, want %d", len(o.heap), len(o.at), len(want))
		}
		for i, it := range o.heap {
			if i > 0 && o.heap[(i-1)/2].size < it.size || int(o.at[it.hash]) != i || want[it.hash] != it.size {
				t.Fatalf("item %d of %d: %+v, want size %d", i, len(o.heap), it, want[it.hash])
			}
		}
	}
}
