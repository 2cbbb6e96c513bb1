package memory

import (
	"math/rand/v2"
	"testing"
)

// TestHoles: pages without a live block in slabs in use go back to the system, and return when blocks are needed. Live
// blocks are not touched, whatever happens while a reclaimer gives pages back.
func TestHoles(t *testing.T) {
	h := newHeap(t, Options{Warm: 1 << 20})
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	var live []modelBlock
	alloc := func(n int) {
		for range n {
			m := modelBlock{size: 200 + rng.IntN(8000), purpose: Values, seed: rng.Uint64()}
			m.ref = h.Alloc(m.size, m.purpose)
			m.stamp()
			live = append(live, m)
		}
	}
	free := func(share float64) {
		kept := live[:0]
		for _, m := range live {
			if !m.intact() {
				t.Fatalf("seed %d: block %#x of %d bytes was overwritten", seed, m.ref, m.size)
			}
			if rng.Float64() < share {
				h.Free(m.ref, m.purpose)
			} else {
				kept = append(kept, m)
			}
		}
		live = kept
	}
	count := unlessChecked(20_000, 4000)
	alloc(count)
	free(0.9)
	var before, after Stats
	h.Stats(&before)
	h.Purge()
	reclaim(t, h, nil)
	h.Stats(&after)
	if h.trim.holes == 0 || after.Active > before.Active/2 {
		t.Errorf("%d pages given back, %d bytes active, %d before, %d used",
			h.trim.holes, after.Active, before.Active, after.Used)
	}
	free(0) // check that all are intact
	for round := range 40 {
		h.Purge()
		job, _ := h.TakeJob()
		alloc(count / 20) // while a reclaimer gives pages back
		free(0.3)
		if round%10 == 9 {
			free(1) // some slabs become empty meanwhile
		}
		reclaim(t, h, job)
	}
	free(1)
	h.Purge()
	reclaim(t, h, nil)
	if h.trim.holes > numClasses*slabPages || h.Used() != 0 { // current slabs keep their holes
		t.Errorf("%d holes in an empty heap, %d bytes used", h.trim.holes, h.Used())
	}
}

// TestHolesAtRest: without a purge, idle slabs with many free blocks get holes over time. Slabs that are being used do
// not.
func TestHolesAtRest(t *testing.T) {
	h := newHeap(t, Options{Warm: 1 << 20})
	refs := make([]Ref, unlessChecked(40_000, 20_000))
	for i := range refs {
		refs[i] = h.Alloc(2000, Values)
	}
	for i, r := range refs {
		if i%10 != 0 {
			h.Free(r, Values)
		}
	}
	h.Age()
	reclaim(t, h, nil)
	if h.trim.holes != 0 {
		t.Errorf("%d holes at once", h.trim.holes)
	}
	h.Age()
	reclaim(t, h, nil)
	if least := int64(len(refs)) / 4; h.trim.holes < least {
		t.Errorf("%d holes, want %d and more", h.trim.holes, least)
	}
	for i := range refs {
		if i%10 != 0 {
			refs[i] = h.Alloc(2000, Values)
		}
	}
	if h.trim.holes != 0 {
		t.Errorf("%d holes in full slabs", h.trim.holes)
	}
	reclaim(t, h, nil)
}

// TestHolesOfTheSlabInUse: a reclaimer frees all blocks of a current slab that has holes. The slab is carved again from
// its beginning, and its holes are used like its other pages.
func TestHolesOfTheSlabInUse(t *testing.T) {
	h := newHeap(t, Options{})
	const size = osPage
	take := func(n int) (refs []Ref) {
		for range n {
			refs = append(refs, h.Alloc(size, Values))
		}
		return refs
	}
	first, second := take(slabPages), take(slabPages)
	for _, r := range first[1:] {
		h.Free(r, Values)
	}
	h.Purge()
	reclaim(t, h, nil)
	if h.trim.holes == 0 {
		t.Fatal("no page was given back")
	}
	mine := append(take(1), first[0]) // the second slab is full: the first is current again
	if mine[0]&^(slabSize-1) != first[0]&^(slabSize-1) || h.trim.holes == 0 {
		t.Fatalf("block %#x was taken, %d holes are left", mine[0], h.trim.holes)
	}
	returner := h.Returner()
	for _, r := range mine {
		returner.Free(r, Values)
	}
	returner.Flush()
	h.Drain(100)
	if h.trim.holes != 0 {
		t.Fatalf("%d holes are left in a slab without blocks", h.trim.holes)
	}
	for _, r := range append(take(slabPages), second...) {
		h.Free(r, Values)
	}
	if err := h.Check(); err != nil {
		t.Error(err)
	}
}
