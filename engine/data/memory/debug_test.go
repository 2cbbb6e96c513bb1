//go:build invariants || race

package memory

import (
	"strings"
	"testing"
)

// TestMistakesAreCaught: a build that checks stops at mistakes that only our own code can make.
func TestMistakesAreCaught(t *testing.T) {
	for _, c := range []struct {
		name, says string
		do         func(h *Heap)
	}{
		{"double free", "freed twice", func(h *Heap) { r := h.Alloc(40, Keys); h.Free(r, Keys); h.Free(r, Keys) }},
		{"double free from elsewhere", "freed twice",
			func(h *Heap) { r := h.Alloc(40, Keys); h.Free(r, Keys); h.Returner().Free(r, Keys) }},
		{"double free of a run", "freed", func(h *Heap) { r := h.Alloc(40_000, Keys); h.Free(r, Keys); h.Free(r, Keys) }},
		{"another purpose", "purpose", func(h *Heap) { h.Free(h.Alloc(40, Keys), Values) }},
		{"another purpose of a run", "purpose", func(h *Heap) { h.Free(h.Alloc(40_000, Keys), Values) }},
		{"inside a block", "beginning", func(h *Heap) { h.Free(h.Alloc(40, Keys)+8, Keys) }},
		{"write after free", "after it was freed", func(h *Heap) {
			r := h.Alloc(40, Keys)
			h.Free(r, Keys)
			Bytes(r, 40)[30] = 1
			h.Alloc(40, Keys)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHeap(t, Options{})
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, c.says) {
					t.Errorf("said %q, want %q", said, c.says)
				}
			}()
			c.do(h)
		})
	}
}
