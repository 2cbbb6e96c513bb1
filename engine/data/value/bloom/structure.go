package bloom

import (
	"fmt"

	"spindle/engine/data/memory"
	"spindle/engine/data/value"
)

// Structure is the set of functions that the keyspace uses for roots of chains.
var Structure = value.Structure{
	Count:   func(ref memory.Ref) int { return int(rootAt(ref).held>>leafShift) + int(rootAt(ref).links) },
	Destroy: destroy,
	Measure: func(ref memory.Ref) int64 { return int64(cost(ref, 0)) },
	Cost:    cost,
	Copy:    copyRoot,
}

// cost returns the exact cost, whatever the samples.
func cost(ref memory.Ref, _ int) int { return memory.UsableSize(ref) + int(rootAt(ref).held) }

// destroy frees a chain, budget pages at a time, the last link first.
func destroy(t *memory.Returner, ref memory.Ref, budget int) (rest memory.Ref, spent int) {
	r := rootAt(ref)
	for r.links > 0 {
		l := r.last()
		if !destroyPage(t, &l.top, l.levels, budget, &spent) {
			return ref, spent
		}
		r.links--
	}
	t.Free(ref, memory.Values)
	return 0, spent + 1
}

// destroyPage frees the page at word and those below, and sets word to 0. done is false if the budget was spent before.
func destroyPage(t *memory.Returner, word *uint64, level uint8, budget int, spent *int) (done bool) {
	if *word == 0 {
		return true
	}
	if level > 0 {
		n := nodeAt(*word)
		for i := range n.words {
			if n.words[i] != 0 && !destroyPage(t, &n.words[i], level-1, budget, spent) {
				return false
			}
		}
	}
	if *spent >= budget {
		return false
	}
	t.Free(refOf(*word), memory.Values)
	*word = 0
	*spent++
	return true
}

// copyRoot returns a chain with the same content.
func copyRoot(s *value.Store, ref memory.Ref) memory.Ref {
	from := rootAt(ref)
	dup := newRoot(s, int(from.links))
	to := rootAt(dup)
	to.items, to.growth, to.options, to.links = from.items, from.growth, from.options, from.links
	w := writer{heap: s.Heap, root: to}
	for i := range int(from.links) {
		l := to.link(i)
		*l = *from.link(i)
		l.top = w.copyPage(l.top, l.levels, func(leaf uint64) int { return l.leafSize(leaf) }, 0)
	}
	return dup
}

// copyPage returns a copy of the page at word and those below. first is the number of the page's first leaf.
func (w *writer) copyPage(word uint64, level uint8, size func(leaf uint64) int, first uint64) uint64 {
	switch {
	case word == 0:
		return 0
	case level == 0:
		n := size(first)
		ref := w.alloc(n)
		copy(memory.Bytes(ref, n), memory.Bytes(refOf(word), n))
		return uint64(ref)
	}
	ref := w.alloc(nodeBytes)
	to := nodeAt(uint64(ref))
	to.epoch = w.heap.Epoch()
	for i, below := range nodeAt(word).words {
		to.words[i] = w.copyPage(below, level-1, size, first+uint64(i)<<((level-1)*fanShift))
	}
	return uint64(ref)
}

// Check returns an error if the filter breaks bloom.R2 or bloom.R3, or if a page lies after the end of its link.
// Proof: only tests call it, after every step of the model test.
func Check(v value.Value) error {
	r := rootAt(v.Root())
	if !Links(uint64(r.links)) || int(r.links) > roomFor(v.Root()) {
		return fmt.Errorf("bloom.R2: %d links", r.links)
	}
	held := uint64(0)
	for i := range int(r.links) {
		l := r.link(i)
		if !l.describe().Usable() {
			return fmt.Errorf("link %d: %+v", i, l.describe())
		}
		if err := checkPage(l, l.top, l.levels, 0, &held); err != nil {
			return fmt.Errorf("link %d: %w", i, err)
		}
	}
	if held != r.held {
		return fmt.Errorf("bloom.R3: pages of %d bytes, counted %d", held, r.held)
	}
	return nil
}

// checkPage checks the pages below word and adds their bytes to held.
// Proof: only Check calls it, which only tests call.
func checkPage(l *link, word uint64, level uint8, first uint64, held *uint64) error {
	if word == 0 {
		return nil
	}
	if leaves := (l.bytes + leafBytes - 1) >> leafShift; first >= leaves {
		return fmt.Errorf("a page for leaf %d of %d", first, leaves)
	}
	*held += uint64(memory.UsableSize(refOf(word)))
	if level == 0 {
		return nil
	}
	for i, below := range nodeAt(word).words {
		if err := checkPage(l, below, level-1, first+uint64(i)<<((level-1)*fanShift), held); err != nil {
			return err
		}
	}
	return nil
}
