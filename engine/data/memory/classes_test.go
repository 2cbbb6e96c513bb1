package memory

import "testing"

// TestEverySizeFits: every size gets a block that holds it and wastes at most an eighth. Multiples of 64 get aligned
// blocks.
func TestEverySizeFits(t *testing.T) {
	h := newHeap(t, Options{})
	for n := 1; n <= 70_000; n++ { // every size, in every build: all else depends on this table
		good := GoodSize(n)
		if good < n {
			t.Fatalf("%d bytes get a block of %d", n, good)
		}
		if n >= 64 && (good-n)*8 > good {
			t.Errorf("memory.C2: %d bytes get a block of %d", n, good)
		}
		if n < 64 && good-n > 7 {
			t.Errorf("%d bytes get a block of %d", n, good)
		}
		r := h.Alloc(n, Keys)
		if got := UsableSize(r); got != good {
			t.Fatalf("Alloc(%d) gave %d bytes, GoodSize says %d", n, got, good)
		}
		if n%64 == 0 && r%64 != 0 || r%8 != 0 {
			t.Fatalf("memory.C1: Alloc(%d) gave %#x", n, r)
		}
		h.Free(r, Keys)
	}
	for c, size := range classSize {
		if c > 0 && size <= classSize[c-1] || size%8 != 0 {
			t.Errorf("class %d has size %d", c, size)
		}
		if rest := slabSize % size; rest*8 > slabSize {
			t.Errorf("memory.C2: a slab of %d-byte blocks loses %d bytes", size, rest)
		}
	}
	if h.Used() != 0 {
		t.Errorf("%d bytes used at the end", h.Used())
	}
}
