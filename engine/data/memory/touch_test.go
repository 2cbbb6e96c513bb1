package memory

import "testing"

// work runs the heap's jobs until none is left, and returns their number.
func work(h *Heap) (jobs int) {
	for {
		job, _ := h.TakeJob()
		if job == nil {
			return jobs
		}
		for !job(1 << 20) {
			h.Drain(1 << 10)
		}
		h.Drain(1 << 10)
		jobs++
	}
}

// rest lets a period pass in which nothing is allocated (memory.T3).
func rest(h *Heap) {
	h.Age()
	h.Age()
}

// TestTurnsFindWarmMemory: reclaimers keep up with turns that take slabs at a moderate rate, so that turns find warm
// memory. Trims do not take it away again.
func TestTurnsFindWarmMemory(t *testing.T) {
	h := newHeap(t, Options{})
	const block = 4096
	var blocks []Ref
	cold := 0
	for range 256 << 20 / 16 / block { // 16 MB
		if h.slabs.dirty.n == 0 && h.bins[classFit[block>>3]].current.carved == h.bins[classFit[block>>3]].current.cap {
			cold++
		}
		blocks = append(blocks, h.Alloc(block, Values))
		work(h)
		if err := h.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if h.slabs.clean.n != 0 {
		t.Errorf("%d slabs were touched and given back again", h.slabs.clean.n)
	}
	if max := 32; cold > max { // the first slabs: less is warm than is used
		t.Errorf("the turn came first %d times, want %d at most", cold, max)
	}
	if n := work(h); n != 0 {
		t.Errorf("a heap at rest gave %d jobs", n)
	}
	for _, r := range blocks {
		h.Free(r, Values)
	}
	h.Drain(1 << 20)
	rest(h)
	work(h)
	if err := h.Check(); err != nil {
		t.Fatal(err)
	}
	if got, most := h.slabs.dirty.n<<slabShift, 2*h.warm(); got > most {
		t.Errorf("%d bytes stay warm, want %d at most", got, most)
	}
}

// TestBurstUnderHoldTakesUnbornSlabs: while a hold is live and no warm slab is left, the heap takes slabs never used
// before. They come in by small pages.
func TestBurstUnderHoldTakesUnbornSlabs(t *testing.T) {
	h := newHeap(t, Options{})
	var blocks []Ref
	for range 1000 {
		blocks = append(blocks, h.Alloc(8192, Values))
	}
	for _, r := range blocks {
		h.Free(r, Values)
	}
	h.Purge()
	work(h)
	clean := h.slabs.clean.n
	if clean == 0 {
		t.Fatal("the purge gave nothing back")
	}
	hold := h.Freeze()
	h.Alloc(8192, Values)
	if h.slabs.clean.n != clean {
		t.Error("a slab whose pages were given back was taken under a hold")
	}
	hold.Close()
}

// TestReserveAfterPurge: after a purge, some memory is made warm again, for the next turn that needs a slab. If no
// block is live, no memory is made warm.
func TestReserveAfterPurge(t *testing.T) {
	h := newHeap(t, Options{})
	var stay, gone []Ref
	for i := range 4000 {
		if r := h.Alloc(8192, Values); i%2 == 0 {
			stay = append(stay, r)
		} else {
			gone = append(gone, r)
		}
	}
	free := func(refs []Ref) {
		for _, r := range refs {
			h.Free(r, Values)
		}
	}
	free(gone)
	free(stay[:1000])
	h.Purge()
	work(h)
	warm, clean := h.slabs.dirty.n, h.slabs.clean.n
	if warm == 0 || warm<<slabShift > 2*h.warm() {
		t.Errorf("%d slabs are warm after a purge", warm)
	}
	h.Alloc(64, Values)
	if h.slabs.clean.n != clean {
		t.Error("a turn took a slab whose pages were given back")
	}
	h.Free(stay[1000], Values)
	free(stay[1001:])
	h.Purge()
	work(h)
	work(h)
	if n := h.slabs.dirty.n; n > int64(h.Used()>>slabShift)+slabSegment {
		t.Errorf("%d slabs are warm after a purge of an empty heap", n)
	}
	empty := newHeap(t, Options{})
	empty.Purge()
	if work(empty); empty.trim.cold {
		t.Error("a purge that found nothing has not ended")
	}
}

// TestTakeFreeing: a turn may have to run a job that frees, but never a job that calls the kernel.
func TestTakeFreeing(t *testing.T) {
	h := newHeap(t, Options{})
	var blocks []Ref
	for range 4000 {
		blocks = append(blocks, h.Alloc(8192, Values))
	}
	hold := h.Freeze() // announces copies: memory is to be touched
	for _, r := range blocks {
		h.RetireWide(r, Values)
	}
	if job, _ := h.TakeFreeing(); job != nil {
		t.Fatal("a job while the hold keeps everything")
	}
	hold.Close()
	h.Drain(1 << 10)
	job, _ := h.TakeFreeing()
	if job == nil {
		t.Fatal("nothing to free")
	}
	for !job(100) {
	}
	h.Drain(1 << 20)
	h.Purge()
	if job, _ := h.TakeFreeing(); job != nil {
		t.Error("a job though nothing is to be freed")
	}
	if h.Paging() {
		t.Error("no job is out, but pages are said to be on their way")
	}
	job, _ = h.TakeJob()
	if job == nil || !h.Paging() {
		t.Fatal("no job though memory is to be touched, or given back")
	}
	for !job(1 << 20) {
	}
	if h.Drain(1 << 10); h.Paging() {
		t.Error("the job has ended, but pages are said to be on their way")
	}
}

// TestChurnKeepsItsPages: memory that is freed and used again within a period stays warm. Memory unused for a whole
// period is given back.
func TestChurnKeepsItsPages(t *testing.T) {
	h := newHeap(t, Options{})
	const size = 64 << 20
	var small []Ref
	for range 100_000 {
		small = append(small, h.Alloc(512, Values))
	}
	for _, r := range small { // empty slabs that nothing needs: they go back instead of the runs
		h.Free(r, Values)
	}
	last := h.Alloc(size, Values)
	for i := range 20 { // values replaced: the new one is made before the old one goes
		next := h.Alloc(size, Values)
		h.Free(last, Values)
		last = next
		work(h)
		if i > 1 && h.runs.reclaimable() < size {
			t.Fatalf("%d bytes of runs are left warm after value %d, want the one before it", h.runs.reclaimable(), i)
		}
		if i%4 == 3 {
			h.Age()
		}
		h.Drain(32)
	}
	if n := h.slabs.reclaimable(); n > 2*h.warm() {
		t.Errorf("%d bytes of slabs stay warm, want %d at most", n, 2*h.warm())
	}
	h.Free(last, Values)
	rest(h)
	work(h)
	if err := h.Check(); err != nil {
		t.Fatal(err)
	}
	if got, most := h.Reclaimable(), 2*h.warm(); got > most {
		t.Errorf("%d bytes stay warm at rest, want %d at most", got, most)
	}
}

// TestFreedRunsAreUsedFirst: a turn that needs a run first uses those that reclaimers have freed, even if they are not
// yet listed. Only then does it use untouched memory.
func TestFreedRunsAreUsedFirst(t *testing.T) {
	h := newHeap(t, Options{})
	const size, count = 64 << 10, 200
	fill := func() (list []Ref) {
		for range count {
			list = append(list, h.Alloc(size, Values))
		}
		return list
	}
	first := fill()
	born := h.runs.dirty.units + h.runs.clean.units
	reclaimer := h.Returner()
	for _, r := range first {
		reclaimer.Free(r, Values)
	}
	reclaimer.Flush()
	second := fill()
	if left := h.runs.dirty.units + h.runs.clean.units; left != born {
		t.Errorf("%d units that were never used are left after the runs were used again, %d before", left, born)
	}
	for _, r := range second {
		h.Free(r, Values)
	}
	h.Drain(1 << 20)
	if err := h.Check(); err != nil {
		t.Fatal(err)
	}
}
