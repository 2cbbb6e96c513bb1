package memory

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"spindle/internal/invariant"
)

func newHeap(t testing.TB, o Options) *Heap {
	t.Helper()
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// TestNoGoAllocations: Alloc, Free and Retire take no Go memory in steady state.
func TestNoGoAllocations(t *testing.T) {
	if invariant.Enabled {
		t.Skip("this build checks invariants, which allocate: run it without -race and -tags invariants")
	}
	h := newHeap(t, Options{})
	if n := testing.AllocsPerRun(1000, func() {
		h.Free(h.Alloc(56, Keys), Keys)
		h.Free(h.Alloc(20_000, Keys), Keys)
		h.SetPosition(0, 1)
		h.Retire(h.Alloc(100, Keys), Keys)
		h.Drain(100)
	}); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
}

// TestFigures: the heap's figures lag by at most one turn.
func TestFigures(t *testing.T) {
	h := newHeap(t, Options{})
	r := h.Alloc(1000, Values)
	h.Drain(1)
	f := h.Figures()
	if f.Used != int64(GoodSize(1000)) || f.ByPurpose[Values] != f.Used || f.Peak != f.Used || f.Active < slabSize {
		t.Errorf("%+v", f)
	}
	h.Free(r, Values)
	h.Drain(1)
	if f := h.Figures(); f.Used != 0 || f.Peak == 0 {
		t.Errorf("%+v", f)
	}
}

// BenchmarkAllocFree makes one allocation and one free in the turn. Watch ns/op; allocs/op is 0.
func BenchmarkAllocFree(b *testing.B) {
	for _, size := range []int{56, 1000, 65536} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			h := newHeap(b, Options{})
			b.ReportAllocs()
			for b.Loop() {
				h.Free(h.Alloc(size, Keys), Keys)
			}
		})
	}
}

// BenchmarkReplace frees a random block out of a million and allocates another. It includes cache misses on the block
// and on the slab's record.
func BenchmarkReplace(b *testing.B) {
	h := newHeap(b, Options{})
	refs := make([]Ref, 1<<20)
	for i := range refs {
		refs[i] = h.Alloc(56, Keys)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for b.Loop() {
		i := rng.Uint32() & (1<<20 - 1)
		h.Free(refs[i], Keys)
		refs[i] = h.Alloc(48+int(i&15), Keys)
	}
}

// BenchmarkReturn frees random blocks as a reclaimer does. It reports the turn's share separately.
func BenchmarkReturn(b *testing.B) {
	h := newHeap(b, Options{})
	refs := make([]Ref, 1<<20)
	rng := rand.New(rand.NewPCG(1, 1))
	r := h.Returner()
	for b.Loop() {
		b.StopTimer()
		for i := range refs {
			refs[i] = h.Alloc(56, Keys)
		}
		rng.Shuffle(len(refs), func(i, j int) { refs[i], refs[j] = refs[j], refs[i] })
		b.StartTimer()
		for _, ref := range refs {
			r.Free(ref, Keys)
		}
		r.Flush()
		h.Drain(1 << 30)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(refs)), "ns/block")
}

// BenchmarkRetire keeps replaced blocks for a hold. Watch allocs/op: 0 except for the first block of a database.
func BenchmarkRetire(b *testing.B) {
	h := newHeap(b, Options{})
	hold := h.Freeze()
	defer hold.Close()
	i := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		i++
		h.SetPosition(0, keyHash(i))
		h.Retire(h.Alloc(56, Keys), Keys)
		if i%(1<<20) == 0 {
			b.StopTimer()
			hold.Close()
			reclaim(b, h, nil)
			hold = h.Freeze()
			b.StartTimer()
		}
	}
}

// BenchmarkDrain measures what a turn pays when reclaimers have returned nothing.
func BenchmarkDrain(b *testing.B) {
	h := newHeap(b, Options{})
	for b.Loop() {
		h.Drain(100)
	}
}
