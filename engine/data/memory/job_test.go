package memory

import "testing"

// TestJobsAreUsedAgain: a turn that frees reuses a finished job, so that it need not allocate one.
func TestJobsAreUsedAgain(t *testing.T) {
	h := newHeap(t, Options{})
	for range 3 * maxSpareJobs {
		hold := h.Freeze()
		h.RetireWide(h.Alloc(64, Values), Values)
		hold.Close()
		h.Drain(1 << 10)
		job, _ := h.TakeFreeing()
		if n := len(h.spareJobs); n != maxSpareJobs-1 {
			t.Fatalf("%d jobs to spare while one is out", n)
		}
		for !job(100) {
		}
		if n := len(h.spareJobs); n != maxSpareJobs {
			t.Fatalf("%d jobs to spare when it has ended", n)
		}
	}
}
