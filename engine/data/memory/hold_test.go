package memory

import (
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
)

// A modelView is a frozen copy of the model. Readers of the hold must still find this content.
type modelView struct {
	hold *Hold
	want map[uint64]modelBlock
}

// keyHash spreads small keys over all prefixes of the hash.
func keyHash(key uint64) uint64 { return (key + 1) * 0x9E3779B97F4A7C15 }

// TestHoldsAgainstModel makes random writes and freezes, while readers pass prefixes and views close. No block that a
// view may read is freed; all others are.
func TestHoldsAgainstModel(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3, 4} {
		testHoldsModel(t, seed)
	}
}

func testHoldsModel(t *testing.T, seed uint64) {
	const databases, tree = 3, Kind(1)
	h := newHeap(t, Options{Databases: databases, Warm: 1 << 20})
	// A tree is a linked list through the blocks' first words. It is destroyed block by block, so that a budget can end
	// anywhere.
	h.Register(tree, func(r *Returner, root Ref, budget int) (rest Ref, spent int) {
		for ; root != 0 && spent < budget; spent++ {
			next := Ref(*Word(root))
			r.Free(root, Values)
			root = next
		}
		return root, spent
	})
	rng := rand.New(rand.NewPCG(seed, 0))
	var live [databases]map[uint64]modelBlock
	for db := range live {
		live[db] = map[uint64]modelBlock{}
	}
	var views [][databases]modelView
	var job func(int) bool
	objects := int64(0)
	for step := range unlessChecked(40_000, 10_000) {
		db, key := rng.IntN(databases), rng.Uint64N(300)
		switch op := rng.IntN(1000); {
		case op < 900:
			h.SetPosition(db, keyHash(key))
			if old, ok := live[db][key]; ok {
				if !old.intact() {
					t.Fatalf("seed %d, step %d: live block overwritten", seed, step)
				}
				h.Retire(old.ref, old.purpose)
				delete(live[db], key)
			}
			if rng.IntN(4) > 0 {
				m := modelBlock{size: 8 + rng.IntN(200), purpose: Keys, seed: rng.Uint64()}
				if rng.IntN(50) == 0 {
					m.size = 9000 + rng.IntN(50_000)
				}
				m.ref = h.Alloc(m.size, m.purpose)
				m.stamp()
				live[db][key] = m
			}
		case op < 920: // a tree that no view froze, or that every view may see
			root := Ref(0)
			for range 1 + rng.IntN(300) {
				r := h.Alloc(16+rng.IntN(40), Values)
				*Word(r) = uint64(root)
				root = r
			}
			objects++
			if rng.IntN(2) == 0 {
				h.SetPosition(db, keyHash(key))
				h.RetireTree(root, tree, 1)
			} else {
				h.RetireTreeWide(root, tree, 1)
			}
		case op < 925:
			h.RetireWide(h.Alloc(100, Index), Index)
		case op < 930 && len(views) < 4:
			epoch := h.Epoch()
			hold := h.Freeze()
			if hold.Epoch() != epoch || h.Frozen() != epoch || h.Epoch() != epoch+1 {
				t.Fatalf("memory.E1: froze %d: hold %d, frozen %d, epoch %d", epoch, hold.Epoch(), h.Frozen(), h.Epoch())
			}
			var v [databases]modelView
			for db := range v {
				v[db] = modelView{hold, maps.Clone(live[db])}
			}
			views = append(views, v)
		case op < 950 && len(views) > 0:
			v := views[rng.IntN(len(views))]
			prefix := uint8(rng.Uint32())
			maps.DeleteFunc(v[db].want, func(key uint64, _ modelBlock) bool { return uint8(keyHash(key)>>56) == prefix })
			v[db].hold.Passed(db, prefix)
		case op < 952 && len(views) > 0:
			v := views[rng.IntN(len(views))]
			clear(v[db].want)
			v[db].hold.passedDB(db)
		case op < 955 && len(views) > 0:
			i := rng.IntN(len(views))
			views[i][0].hold.Close()
			views[i][0].hold.Close()
			views = append(views[:i], views[i+1:]...)
		case op < 980:
			if job == nil {
				job, _ = h.TakeJob()
			}
			if job != nil && job(1+rng.IntN(500)) {
				job = nil
			}
		default:
			h.Drain(rng.IntN(300))
		}
		if step%1000 == 0 {
			for _, v := range views {
				for db := range v {
					for key, m := range v[db].want {
						if !m.intact() {
							t.Fatalf("memory.E2: seed %d, step %d: view %d lost key %d of db %d", seed, step, v[db].hold.Epoch(), key, db)
						}
					}
				}
			}
		}
	}
	// The views close in random order. Their blocks move to older holds or are freed, and at the end none is kept.
	for _, i := range rng.Perm(len(views)) {
		views[i][0].hold.Close()
		h.Drain(10)
	}
	reclaim(t, h, job)
	want := int64(0)
	for db := range live {
		for _, m := range live[db] {
			want += int64(UsableSize(m.ref))
		}
	}
	if h.Used() != want || h.Frozen() != 0 || h.Holding() {
		t.Fatalf("seed %d: %d bytes used with all holds closed, want %d; frozen %d", seed, h.Used(), want, h.Frozen())
	}
	if pending, freed := h.LazyObjects(); pending != 0 || freed != objects {
		t.Fatalf("seed %d: %d objects pending and %d freed of %d", seed, pending, freed, objects)
	}
}

// TestPassedMemoryReturns: blocks that a reader has passed are freed while the hold is still live, whether they were
// retired before or after.
func TestPassedMemoryReturns(t *testing.T) {
	h := newHeap(t, Options{})
	var refs [256][]Ref
	for prefix := range refs {
		for range 100 {
			refs[prefix] = append(refs[prefix], h.Alloc(56, Keys))
		}
	}
	full := h.UsedBy(Keys)
	older, hold := h.Freeze(), h.Freeze()
	retire := func(from, to int) {
		for prefix := from; prefix < to; prefix++ {
			h.SetPosition(0, uint64(prefix)<<56)
			for _, r := range refs[prefix] {
				h.Retire(r, Keys)
			}
		}
	}
	retire(0, 128)
	reclaim(t, h, nil)
	if h.UsedBy(Keys) != full {
		t.Fatalf("memory.E2: %d of %d bytes are left before anything was passed", h.UsedBy(Keys), full)
	}
	for prefix := range 256 {
		hold.Passed(0, uint8(prefix))
	}
	reclaim(t, h, nil)
	if h.UsedBy(Keys) != full {
		t.Fatalf("memory.E2: %d of %d bytes are left though the older hold passed nothing", h.UsedBy(Keys), full)
	}
	for prefix := range 64 {
		older.Passed(0, uint8(prefix))
	}
	reclaim(t, h, nil)
	if h.UsedBy(Keys) != full*3/4 {
		t.Fatalf("%d of %d bytes are left with a quarter passed by both", h.UsedBy(Keys), full)
	}
	older.passedDB(0)
	retire(128, 256) // passed by both holds: freed at once
	reclaim(t, h, nil)
	if used := h.Used(); used != 0 {
		t.Fatalf("%d bytes are left with everything passed", used)
	}
	hold.Close()
	older.Close()
}

// TestCloseIsShort: closing a long hold costs the turn time per shelf, not per block.
func TestCloseIsShort(t *testing.T) {
	h := newHeap(t, Options{})
	blocks := unlessChecked(300_000, 50_000)
	hold := h.Freeze()
	for i := range blocks {
		h.SetPosition(0, keyHash(uint64(i)))
		h.Retire(h.Alloc(16, Keys), Keys)
	}
	hold.Close()
	h.sweepHolds()
	if h.ready.entries != int64(blocks) {
		t.Fatalf("%d blocks are with the reclaimer, want %d", h.ready.entries, blocks)
	}
	job, _ := h.TakeJob()
	if h.ready.head != 0 { // that was the next segment's pages
		job, _ = h.TakeJob()
	}
	if h.ready.head != 0 || job == nil {
		t.Fatal("the list was not handed over whole")
	}
	reclaim(t, h, job)
	if h.Used() != 0 {
		t.Fatalf("%d bytes used at the end", h.Used())
	}
}

// TestReadersDuringTurns: readers of views run while the core rewrites everything. The race detector watches
// (backing_race.go).
func TestReadersDuringTurns(t *testing.T) {
	h := newHeap(t, Options{})
	const keys = 2000
	live := map[uint64]modelBlock{}
	write := func(key, seed uint64) {
		h.SetPosition(0, keyHash(key))
		if old, ok := live[key]; ok {
			h.Retire(old.ref, Keys)
		}
		m := modelBlock{size: 8 + int(seed%300), seed: seed}
		m.ref = h.Alloc(m.size, Keys)
		m.stamp()
		live[key] = m
	}
	for key := range uint64(keys) {
		write(key, key)
	}
	rng := rand.New(rand.NewPCG(5, 5))
	done := make(chan struct{}, 3)
	readers := 0
	jobs := make(chan func(int) bool, 1)
	var reclaimer sync.WaitGroup
	reclaimer.Go(func() {
		for job := range jobs {
			for !job(64) {
			}
		}
	})
	for round := range 60 {
		if round%10 == 0 {
			hold, frozen := h.Freeze(), maps.Clone(live)
			readers++
			go func() {
				var by [256][]modelBlock
				for key, m := range frozen {
					by[keyHash(key)>>56] = append(by[keyHash(key)>>56], m)
				}
				for prefix := range by {
					for _, m := range by[prefix] {
						if !m.intact() {
							t.Errorf("memory.E2: a frozen block was overwritten")
						}
					}
					hold.Passed(0, uint8(prefix))
				}
				hold.Close()
				done <- struct{}{}
			}()
		}
		for range 500 {
			write(rng.Uint64N(keys), rng.Uint64())
		}
		h.Drain(200)
		if len(jobs) == 0 {
			if job, _ := h.TakeJob(); job != nil {
				jobs <- job
			}
		}
	}
	for range readers {
		<-done
	}
	for len(h.holds) > 0 || h.ready.head != 0 {
		h.Drain(1000)
		if job, _ := h.TakeJob(); job != nil {
			jobs <- job
		}
	}
	close(jobs)
	reclaimer.Wait()
	want := int64(0)
	for _, m := range live {
		want += int64(UsableSize(m.ref))
	}
	for i := 0; h.Used() != want; i++ {
		if h.Drain(1000); i > 10_000_000 {
			t.Fatalf("%d bytes used, want %d", h.Used(), want)
		}
	}
}

// TestLeaving: Leaving counts blocks from Retire or Park until they are freed. It never exceeds the data, whatever
// Measure returns.
func TestLeaving(t *testing.T) {
	h := newHeap(t, Options{})
	h.Register(1, func(r *Returner, root Ref, _ int) (Ref, int) {
		r.Free(root, Values)
		return 0, 1
	})
	told := int64(1000)
	h.Measure(1, func(Ref) int64 { return told })
	want := func(what string, n int64) {
		t.Helper()
		if got := h.Leaving(); got != n {
			t.Errorf("%s: %d bytes are leaving, want %d", what, got, n)
		}
	}
	for range 10 {
		h.Alloc(1024, Keys)
	}
	h.Alloc(1024, Clients) // this is not data
	hold := h.Freeze()
	h.RetireTreeWide(h.Alloc(1024, Values), 1, 1)
	want("retired under a hold", 1000)
	h.Park(500, 0)
	want("and parked", 1500)
	h.Unpark(500, 0)
	hold.Close()
	h.Drain(100)
	want("with a reclaimer", 1000)
	told = 1 << 40
	h.RetireTreeWide(h.Alloc(1024, Values), 1, 1)
	want("measured far too high", 12*1024)
	job, _ := h.TakeJob()
	for !job(10) {
	}
	want("done", 0)
}
