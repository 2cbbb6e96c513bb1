package memory

import "testing"

func newHeap(t testing.TB, o Options) *Heap {
	t.Helper()
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// BenchmarkAllocFree is one allocation and one free on the turn. Watch ns/op; allocs/op is 0.
func BenchmarkAllocFree(b *testing.B) {
	h := newHeap(b, Options{})
	b.ReportAllocs()
	for b.Loop() {
		h.Free(h.Alloc(56, Keys), Keys)
	}
}
