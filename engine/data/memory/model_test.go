package memory

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"

	"spindle/internal/invariant"
)

// A modelBlock is a block in the model, the simplest allocator.
type modelBlock struct {
	ref     Ref
	size    int
	purpose Purpose
	seed    uint64
}

// stamp fills both ends of the block, or all of a small block, with bytes that no other block has.
func (m modelBlock) stamp() {
	b := Bytes(m.ref, m.size)
	m.each(b, func(piece []byte, v uint64) { binary.LittleEndian.PutUint64(piece, v) })
}

func (m modelBlock) intact() bool {
	ok := true
	m.each(Bytes(m.ref, m.size), func(piece []byte, v uint64) { ok = ok && binary.LittleEndian.Uint64(piece) == v })
	return ok
}

func (m modelBlock) each(b []byte, visit func(piece []byte, v uint64)) {
	step := 8
	if len(b) > 512 {
		step = 256
	}
	for i := 0; i+16 <= len(b); i += step {
		visit(b[i:], m.seed+uint64(i))
	}
	if len(b) >= 8 {
		visit(b[len(b)-8:], m.seed^0xFFFF)
	}
}

// unlessChecked returns n. In builds with checks, which are much slower, it returns checked.
func unlessChecked(n, checked int) int {
	if invariant.Enabled {
		return checked
	}
	return n
}

func modelSize(rng *rand.Rand) int {
	switch rng.IntN(12) {
	case 0:
		return rng.IntN(300_000)
	case 1, 2:
		return rng.IntN(40_000)
	case 3, 4:
		return rng.IntN(9_000)
	default:
		return rng.IntN(600)
	}
}

// TestHeapAgainstModel: blocks of all sizes are allocated, freed, split and returned by reclaimers. No two overlap, and
// every byte is counted.
func TestHeapAgainstModel(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3} {
		testHeapModel(t, seed, unlessChecked(60_000, 10_000))
	}
}

func FuzzHeapModel(f *testing.F) {
	f.Add(uint64(7))
	f.Fuzz(func(t *testing.T, seed uint64) { testHeapModel(t, seed, 4_000) })
}

func testHeapModel(t *testing.T, seed uint64, steps int) {
	h := newHeap(t, Options{Warm: 1 << 20})
	rng := rand.New(rand.NewPCG(seed, 0))
	returner := h.Returner()
	var live []modelBlock
	var want [Purposes]int64
	var job func(int) bool
	take := func() modelBlock {
		i := rng.IntN(len(live))
		m := live[i]
		live[i] = live[len(live)-1]
		live = live[:len(live)-1]
		if !m.intact() {
			t.Fatalf("seed %d: block %#x of %d bytes was overwritten", seed, m.ref, m.size)
		}
		want[m.purpose] -= int64(UsableSize(m.ref))
		return m
	}
	put := func(m modelBlock) {
		m.seed = rng.Uint64()
		m.stamp()
		live = append(live, m)
		want[m.purpose] += int64(UsableSize(m.ref))
	}
	for step := range steps {
		grow := step/(steps/6)%2 == 0 // waves, so that slabs and runs empty and fill
		switch op := rng.IntN(100); {
		case len(live) == 0 || op < 30 || grow && op < 55:
			m := modelBlock{size: modelSize(rng), purpose: Purpose(rng.IntN(int(Purposes)))}
			m.ref = h.Alloc(m.size, m.purpose)
			put(m)
		case op < 75:
			m := take()
			h.Free(m.ref, m.purpose)
		case op < 90:
			m := take()
			returner.Free(m.ref, m.purpose)
		case op < 94:
			m := take()
			if n := UsableSize(m.ref); n > MaxSmall {
				cut := (1 + rng.IntN(n/RunUnit-1)) * RunUnit
				second := h.Split(m.ref, cut)
				if UsableSize(m.ref) != cut || UsableSize(second) != n-cut {
					t.Fatalf("seed %d: %d bytes split at %d gave %d and %d", seed, n, cut, UsableSize(m.ref), UsableSize(second))
				}
				put(modelBlock{ref: second, size: n - cut, purpose: m.purpose})
				m.size = cut
			}
			put(m)
		case op < 95:
			m := take()
			m.size = rng.IntN(m.size + 1)
			h.Shrink(m.ref, m.size, m.purpose)
			put(m)
		case op < 96 && rng.IntN(4) == 0:
			h.Purge()
		case op < 98:
			if job == nil {
				job, _ = h.TakeJob()
			}
			if job != nil && job(1+rng.IntN(1000)) {
				job = nil
			}
		default:
			returner.Flush()
			h.Drain(rng.IntN(200))
			if rng.IntN(8) == 0 {
				h.Age()
			}
		}
		if step%(steps/40) == 0 {
			returner.Flush()
			if err := h.Check(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			for p, n := range want {
				if got := h.UsedBy(Purpose(p)); got != n {
					t.Fatalf("memory.H2: seed %d, step %d: %d bytes of %v, want %d", seed, step, got, Purpose(p), n)
				}
			}
		}
	}
	for len(live) > 0 {
		m := take()
		returner.Free(m.ref, m.purpose)
	}
	returner.Flush()
	reclaim(t, h, job)
	rest(h)
	reclaim(t, h, nil)
	if h.Used() != 0 {
		t.Fatalf("seed %d: %d bytes used at the end", seed, h.Used())
	}
	var s Stats
	if h.Stats(&s); s.Active > numClasses*slabSize || s.Dirty > 2<<20+64<<10 {
		t.Fatalf("seed %d: empty heap has %d bytes active and %d dirty", seed, s.Active, s.Dirty)
	}
}

// reclaim runs all jobs and drains until nothing is left to do.
func reclaim(t testing.TB, h *Heap, job func(int) bool) {
	t.Helper()
	for i := 0; ; i++ {
		for job != nil && !job(1000) {
		}
		more := h.Drain(1000)
		if job, _ = h.TakeJob(); job == nil && !more {
			break
		}
		if i > 1_000_000 {
			t.Fatal("the heap does not settle")
		}
	}
	if err := h.Check(); err != nil {
		t.Fatal(err)
	}
}

// TestReturnsDuringTurns: reclaimers return blocks while the turn allocates. No block is lost, and no block is
// allocated twice.
func TestReturnsDuringTurns(t *testing.T) {
	h := newHeap(t, Options{Warm: 1 << 20})
	rng := rand.New(rand.NewPCG(1, 2))
	line := make(chan []modelBlock, 8)
	jobs := make(chan func(int) bool, 1)
	var reclaimers sync.WaitGroup
	for range 2 {
		reclaimers.Go(func() {
			returner := h.Returner()
			for blocks := range line {
				for _, m := range blocks {
					if !m.intact() {
						t.Errorf("block %#x of %d bytes was overwritten", m.ref, m.size)
					}
					returner.Free(m.ref, m.purpose)
				}
				returner.Flush()
			}
		})
	}
	reclaimers.Go(func() {
		for job := range jobs {
			for !job(100) {
			}
		}
	})
	for step := range unlessChecked(300, 50) {
		var blocks []modelBlock
		for range 200 {
			m := modelBlock{size: modelSize(rng), purpose: Purpose(rng.IntN(int(Purposes))), seed: rng.Uint64()}
			if rng.IntN(100) == 0 {
				m.size += rng.IntN(4 << 20) // trims cut runs at huge pages, and take neighbours with them
			}
			m.ref = h.Alloc(m.size, m.purpose)
			m.stamp()
			blocks = append(blocks, m)
		}
		rng.Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
		line <- blocks
		h.Drain(100)
		if len(jobs) == 0 {
			if job, _ := h.TakeJob(); job != nil {
				jobs <- job
			}
		}
		if step%3 == 0 {
			h.Age()
		}
		if step%50 == 0 {
			h.Purge()
		}
	}
	close(line)
	close(jobs)
	reclaimers.Wait()
	reclaim(t, h, nil)
	if h.Used() != 0 {
		t.Fatalf("%d bytes used at the end", h.Used())
	}
}
