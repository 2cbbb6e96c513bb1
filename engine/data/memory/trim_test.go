//go:build !race

package memory

import (
	"runtime"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"
)

// TestResidentFalls: freed memory leaves the process. Freed small blocks and long runs lower RSS, not only Used.
func TestResidentFalls(t *testing.T) {
	h := newHeap(t, Options{})
	const small, count = 56, 1_000_000
	list := make([]Ref, count)
	clear(list) // the test's own memory is resident before and after
	debug.FreeOSMemory()
	before := resident()
	for i := range list {
		r := h.Alloc(small, Keys)
		*Word(r) = 1
		list[i] = r
	}
	run := h.Alloc(64<<20, Values)
	for i := 0; i < 64<<20; i += osPage {
		*Word(run + Ref(i)) = 1
	}
	full := resident()
	if full-before < 110<<20 {
		t.Fatalf("RSS grew by %d only", full-before)
	}
	hold := h.Freeze()
	for _, r := range list {
		h.RetireWide(r, Keys)
	}
	for range 1023 { // an adopted argument, freed chunk by chunk
		second := h.Split(run, 64<<10)
		h.RetireWide(run, Values)
		run = second
	}
	h.RetireWide(run, Values)
	hold.Close()
	reclaim(t, h, nil)
	rest(h)
	reclaim(t, h, nil)
	if h.Used() != 0 {
		t.Fatalf("%d bytes used", h.Used())
	}
	debug.FreeOSMemory()
	left := resident() - before
	runtime.KeepAlive(list)
	if left > 16<<20 { // the warm reserve, records
		t.Errorf("of %d MB, %d MB are still resident", (full-before)>>20, left>>20)
	}
	h.Purge()
	reclaim(t, h, nil)
	var s Stats
	if h.Stats(&s); s.Dirty > 1<<20 {
		t.Errorf("%d bytes dirty after a purge", s.Dirty)
	}
}

// TestTrimIsResident: what a trim has yet to give back counts as empty and resident, in each step of the trim.
func TestTrimIsResident(t *testing.T) {
	const size = 64 << 20
	h := newHeap(t, Options{})
	run := h.Alloc(size, Values)
	for i := 0; i < size; i += osPage {
		*Word(run + Ref(i)) = 1
	}
	h.Free(run, Values)
	h.Purge()
	job, _ := h.TakeJob()
	var s Stats
	h.Stats(&s)
	full, counted := resident(), s.Dirty
	for steps, done := 0, false; !done; steps++ {
		done = job(trimCost)
		h.Stats(&s)
		gone, fewer := full-resident(), counted-s.Dirty
		if max(gone-fewer, fewer-gone) > 8<<20 { // Go's runtime also gives memory back
			t.Fatalf("after step %d: %d bytes are gone, %d fewer are counted", steps, gone, fewer)
		}
		if steps == 0 && s.Dirty < size/2 {
			t.Fatalf("%d bytes are empty and resident after the first step", s.Dirty)
		}
	}
}

// TestJoinedMemoryGoesBack: the kernel may fill memory that was given back, because it shares a huge page with live
// memory. A later trim gives this memory back with the rest of that page.
func TestJoinedMemoryGoesBack(t *testing.T) {
	h := newHeap(t, Options{})
	touch := func(r Ref, n int) {
		for at := Ref(0); at < Ref(n); at += osPage {
			*Word(r + at) = 1
		}
	}
	before := resident()
	var stay, gone []Ref
	sizes := map[Ref]int{}
	for range 40 { // runs: of each 2 MB, 64 KB stay
		for i, n := range []int{64 << 10, 1984 << 10} {
			r := h.Alloc(n, Values)
			touch(r, n)
			sizes[r] = n
			if i == 0 {
				stay = append(stay, r)
			} else {
				gone = append(gone, r)
			}
		}
	}
	for i := range 40 * hugeSlabs { // slabs: one of 32 stays
		var full []Ref
		for range slabSize / 8192 {
			r := h.Alloc(8192, Values)
			touch(r, 8192)
			sizes[r] = 8192
			full = append(full, r)
		}
		if i%hugeSlabs == 0 {
			stay = append(stay, full...)
		} else {
			gone = append(gone, full...)
		}
	}
	for _, r := range gone {
		h.Free(r, Values)
	}
	h.Purge()
	work(h)
	if left := resident() - before; left > 40<<20 {
		t.Fatalf("%d MB are resident after a purge", left>>20)
	}
	for _, r := range gone { // what the kernel would do
		populate(r&^(osPage-1), sizes[r])
	}
	if left := resident() - before; left < 120<<20 {
		t.Fatalf("%d MB are resident where the kernel has joined pages", left>>20)
	}
	for _, r := range stay {
		h.Free(r, Values)
	}
	h.Purge()
	work(h)
	if err := h.Check(); err != nil {
		t.Fatal(err)
	}
	if left := resident() - before; left > 32<<20 {
		t.Errorf("%d MB are resident and nothing lives", left>>20)
	}
}

// TestTouchedRecords: after TouchRecords a run is split into many parts without page faults.
func TestTouchedRecords(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	faults := func() int64 {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
			t.Fatal(err)
		}
		return u.Minflt
	}
	const size, part = 64 << 20, 64 << 10
	h := newHeap(t, Options{})
	var took [2]int64
	for i := range took {
		r := h.Alloc(size, Values)
		if i == 1 {
			TouchRecords(r, size)
		}
		before := faults()
		for range size/part - 1 {
			r = h.Split(r, part)
		}
		took[i] = faults() - before
	}
	if took[0] < 100 || took[1] > took[0]/4 {
		t.Errorf("%d page faults, and %d of touched records", took[0], took[1])
	}
}

func resident() int64 {
	all, _ := ResidentParts()
	return all
}
