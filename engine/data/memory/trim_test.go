//go:build !race

package memory

import "testing"

// Memory that was let go leaves the process: small blocks and long runs, RSS and not only used.
func TestResidentFalls(t *testing.T) {
	h := newHeap(t, Options{})
	before := Resident()
	const small, count = 56, 1_000_000
	var list []Ref
	for range count {
		r := h.Alloc(small, Keys)
		*Word(r) = 1
		list = append(list, r)
	}
	run := h.Alloc(64<<20, Values)
	for i := 0; i < 64<<20; i += osPage {
		*Word(run + Ref(i)) = 1
	}
	full := Resident()
	if full-before < 110<<20 {
		t.Skipf("RSS grew by %d only: not told by this system", full-before)
	}
	hold := h.Freeze()
	for _, r := range list {
		h.RetireWide(r, Keys)
	}
	for range 1023 { // an adopted argument, let go chunk by chunk
		second := h.Split(run, 64<<10)
		h.RetireWide(run, Values)
		run = second
	}
	h.RetireWide(run, Values)
	hold.Close()
	list = nil
	settle(t, h, nil)
	rest(h)
	settle(t, h, nil)
	if h.Used() != 0 {
		t.Fatalf("%d bytes used", h.Used())
	}
	if left := Resident() - before; left > 40<<20 { // the test's own list is 8 MB and more
		t.Errorf("of %d MB, %d MB are still resident", (full-before)>>20, left>>20)
	}
	h.Purge()
	settle(t, h, nil)
	var s Stats
	if h.Stats(&s); s.Dirty > 1<<20 {
		t.Errorf("%d bytes dirty after a purge", s.Dirty)
	}
}
