package memory

import (
	"math/rand/v2"
	"testing"
)

// check fails the test if the heap breaks an invariant.
func check(t *testing.T, h *Heap) {
	t.Helper()
	if err := h.Check(); err != nil {
		t.Fatal(err)
	}
}

// TestEvacuate: live blocks of slabs that are a tenth full move to few slabs, and every step keeps the invariants. The
// moves need no more memory than memory.V2 says.
func TestEvacuate(t *testing.T) {
	h := newHeap(t, Options{Warm: 1 << 20})
	rng := rand.New(rand.NewPCG(1, 2))
	blocks := map[Ref]byte{}
	for i := range 20_000 {
		r := h.Alloc(16+rng.IntN(1000), Values)
		blocks[r] = byte(i)
		Bytes(r, 16)[15] = byte(i)
	}
	for r := range blocks {
		if rng.IntN(10) > 0 {
			h.Free(r, Values)
			delete(blocks, r)
		}
	}
	before := h.active()
	for range 10 {
		h.Evacuate(64 << 10)
		for h.StepEvacuation() != EvacuationMoves && h.Evacuation() != EvacuationOver {
			check(t, h)
		}
		if h.Evacuation() == EvacuationOver {
			break
		}
		most := int64(0)
		for r, b := range blocks {
			if !h.Leaves(r) {
				continue
			}
			n := UsableSize(r)
			to := h.Alloc(n, Values)
			if h.Leaves(to) {
				t.Fatal("memory.V1: a block was allocated in a slab that is being emptied")
			}
			copy(Bytes(to, n), Bytes(r, n))
			h.Free(r, Values)
			delete(blocks, r)
			blocks[to] = b
			most = max(most, h.active())
		}
		check(t, h)
		if most > before+before/octiles+h.options.Warm {
			t.Errorf("memory.V2: %d bytes were active, %d before", most, before)
		}
		h.EndEvacuation()
		for h.StepEvacuation() != EvacuationOver {
		}
		check(t, h)
	}
	for r, b := range blocks {
		if Bytes(r, 16)[15] != b {
			t.Fatalf("block %#x has changed", r)
		}
	}
	used := h.Used()
	if after := h.active(); after > used*3/2+int64(numClasses)*slabSize {
		t.Errorf("%d bytes active for %d used, %d before", after, used, before)
	}
	t.Logf("%d active for %d used, %d before", h.active(), used, before)
}
