package memory

import "testing"

// TestJustFreedStays: a trim takes only memory that has been empty for a whole period, even if another trim ran in that
// period (memory.T3).
func TestJustFreedStays(t *testing.T) {
	h := newHeap(t, Options{})
	idle, fresh := h.Alloc(256<<20, Values), h.Alloc(128<<20, Values)
	h.Free(idle, Values)
	rest(h)
	if work(h) == 0 {
		t.Fatal("no trim of idle memory")
	}
	h.Free(fresh, Values)
	h.Age() // the period in which it was freed
	work(h)
	if n := h.Reclaimable(); n < 128<<20 {
		t.Errorf("%d bytes are left of %d freed in the period before", n, 128<<20)
	}
	h.Age()
	work(h)
	if n := h.Reclaimable(); n > 2*h.options.Warm {
		t.Errorf("%d bytes are left a period later", n)
	}
}

// TestPurgeEnds: a purge takes only the memory that is empty when the purge is requested. So it ends under load, and
// memory freed later waits as usual.
func TestPurgeEnds(t *testing.T) {
	h := newHeap(t, Options{})
	const size = 64 << 20
	var small []Ref
	for range 64 << 20 / 8192 {
		small = append(small, h.Alloc(8192, Values))
	}
	last := h.Alloc(size, Values)
	h.Free(h.Alloc(size, Values), Values)
	h.Purge()
	for i := 0; h.trim.purge > 0; i++ {
		next := h.Alloc(size, Values)
		h.Free(last, Values)
		last = next
		if job, _ := h.TakeJob(); job != nil {
			for !job(1 << 20) {
			}
		}
		h.Drain(100)
		if i > 100 {
			t.Fatal("the purge does not end")
		}
	}
	for _, r := range small {
		h.Free(r, Values)
	}
	work(h)
	if n := h.slabs.reclaimable(); n < 60<<20 {
		t.Errorf("%d bytes of slabs are left that were freed after the purge", n)
	}
}

// TestPurgeWaitsForReclaimers: a purge also takes the memory that reclaimers have yet to free.
func TestPurgeWaitsForReclaimers(t *testing.T) {
	h := newHeap(t, Options{})
	hold := h.Freeze()
	for range 64 << 20 / 8192 {
		r := h.Alloc(8192, Values)
		h.RetireWide(r, Values)
	}
	h.RetireWide(h.Alloc(64<<20, Values), Values)
	hold.Close()
	h.Drain(100)
	h.Purge()
	reclaim(t, h, nil)
	if n := h.Reclaimable(); n > h.warm() || h.trim.purge != 0 { // that much was touched early meanwhile
		t.Errorf("%d bytes are left warm, %d still to go", n, h.trim.purge)
	}
}

// TestRunsKeepSlabsReserve: replacing large values keeps their pages warm. It takes nothing from the slabs' reserve
// (memory.T2).
func TestRunsKeepSlabsReserve(t *testing.T) {
	h := newHeap(t, Options{})
	const size = 64 << 20
	last := h.Alloc(size, Values)
	for range 128 << 20 / 8192 {
		h.Alloc(8192, Values)
	}
	work(h)
	cold := 0
	for range 20 {
		for range 4 {
			next := h.Alloc(size, Values)
			h.Free(last, Values)
			last = next
		}
		for range 100 {
			if h.slabs.dirty.n == 0 {
				cold++
			}
			h.Alloc(8192, Values)
		}
		work(h)
		h.Age()
		work(h)
	}
	if cold > 0 || h.slabs.reclaimable() < h.warm()/2 {
		t.Errorf("%d allocations found no warm slab, %d bytes of slabs are warm at the end", cold, h.slabs.reclaimable())
	}
}

// TestTrimCutsAtHugePages: a trim that may take only part of a run cuts the run at the boundary of a huge page. If the
// part is less than one huge page, it takes nothing.
func TestTrimCutsAtHugePages(t *testing.T) {
	for _, before := range []int{1, 6, 7, 8, 100} { // units of the run before the next huge page
		h := newHeap(t, Options{Warm: slabSize})
		probe := h.Alloc(64<<10, Values)
		first := unitOf(probe)
		h.Alloc(int(-(first+64)%hugeUnits+hugeUnits-uint32(before))<<runShift, Values)
		run := h.Alloc(3<<20, Values)
		if at := unitOf(run) % hugeUnits; contiguous && at != uint32(hugeUnits-before) {
			t.Fatalf("the run begins %d units into a huge page", at)
		}
		h.Alloc(64<<10, Values)
		h.Free(run, Values)
		h.trim.runs.idle = 1 << 20
		for job := h.trimJob(); job != nil && !job(1<<20); {
		}
		h.Drain(1 << 10)
		if err := h.Check(); err != nil {
			t.Fatal(err)
		}
		taken := 3<<20 - h.runs.dirty.units<<runShift
		if want := int64(before) << runShift; contiguous && before >= 7 && taken != want&^(osPage-1) ||
			before < 7 && taken != 0 {
			t.Errorf("%d units before a huge page: %d bytes were taken", before, taken)
		}
	}
}

// TestRestGivesBack: a heap at rest keeps a quarter of the warm memory, and also gives back the pages between blocks.
// The next allocation from empty memory restores the whole reserve (memory.T6).
func TestRestGivesBack(t *testing.T) {
	h := newHeap(t, Options{})
	var kept, gone []Ref
	for i := range 48 << 20 / 2048 { // 48 MB of blocks, of which every eighth stays
		if r := h.Alloc(2048, Index); i%8 == 0 {
			kept = append(kept, r)
		} else {
			gone = append(gone, r)
		}
	}
	for _, r := range gone {
		h.Free(r, Index)
	}
	work(h)
	for range restAges {
		h.Age()
		work(h)
	}
	if n := h.Reclaimable(); n < 4<<20 {
		t.Fatalf("%d bytes are warm after a load, want the whole reserve", n)
	}
	for range 4 {
		h.Age()
		work(h)
	}
	var s Stats
	h.Stats(&s)
	if s.Dirty > 2<<20 || s.Active > 2*s.Used+4<<20 {
		t.Errorf("at rest %d bytes are empty and %d resident, of %d used", s.Dirty, s.Active, s.Used)
	}
	for range 16 << 20 / 4096 {
		kept = append(kept, h.Alloc(4096, Values))
	}
	work(h)
	if n := h.Reclaimable(); h.trim.calm != 0 || n < 3<<20 {
		t.Errorf("%d bytes are warm when the load continues", n)
	}
	if err := h.Check(); err != nil {
		t.Error(err)
	}
}
