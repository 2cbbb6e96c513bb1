package table

import (
	"math/bits"

	"spindle/engine/data/memory"
)

// Detach empties the table in O(1) and returns its old content, which the caller must retire wide. root is for Destroy.
// due is the index of deadlines, for DestroyDue, or 0 if there was none.
func (t *Table) Detach() (root, due memory.Ref) {
	root = refOf(t.root) | memory.Ref(t.root&entryBuckets)
	if t.due.root != 0 {
		due = t.due.root | memory.Ref(t.due.height)
	}
	base := t.due.base
	if t.slots != nil {
		t.CountSlots(t.slots.hidden)
	}
	t.Init(t.heap, t.layout, t.home)
	t.due.base = base
	return root, due
}

// Indexed reports whether the table has an index of deadlines. It may be empty.
func (t *Table) Indexed() bool { return t.due.root != 0 }

// Destroy returns a function that frees a retired table, budget blocks at a time (memory.Destroy). block frees one of
// the table's blocks and everything that belongs to it. If block does not finish within its budget, it is called again
// with the same block.
//
// While a node is being destroyed, its field epoch holds the index of the next entry. A segment clears the slots that
// are done.
func Destroy(block func(r *memory.Returner, ref memory.Ref, budget int) (done bool, spent int)) memory.Destroy {
	var segment func(r *memory.Returner, ref memory.Ref, budget int) (bool, int)
	segment = func(r *memory.Returner, ref memory.Ref, budget int) (done bool, spent int) {
		s := segmentAt(ref)
		for i := range int(s.nb) {
			b := s.bucket(i)
			if next := s.bucket(min(i+1, int(s.nb)-1)); next.meta&metaKeys != 0 {
				for m := next.meta & metaKeys; m != 0; m &= m - 1 {
					memory.PrefetchRef(memory.Ref(next.slot[bits.TrailingZeros64(m)>>3] & slotRef))
				}
			}
			for m := b.meta & metaKeys; m != 0; m &= m - 1 {
				if spent >= budget {
					return false, spent
				}
				j := bits.TrailingZeros64(m) >> 3
				done, n := block(r, memory.Ref(b.slot[j]&slotRef), budget-spent)
				spent += n
				if !done {
					return false, spent
				}
				b.meta &^= 0xFF << (8 * uint(j))
			}
		}
		if s.sidecar != 0 {
			r.Free(s.sidecar, memory.Index)
		}
		r.Free(ref, memory.Index)
		return true, spent + 1
	}
	var entry func(r *memory.Returner, tagged memory.Ref, budget int) (bool, int)
	entry = func(r *memory.Returner, tagged memory.Ref, budget int) (done bool, spent int) {
		ref := tagged &^ entryBuckets
		if tagged&entryBuckets != 0 {
			return segment(r, ref, budget)
		}
		n := nodeAt(ref)
		if n.mark != destroying {
			n.mark, n.epoch = destroying, 0
		}
		for n.epoch < 1<<n.bits {
			if spent >= budget {
				return false, spent
			}
			e := *n.entry(n.epoch)
			width := uint64(1)
			if e&entryBuckets != 0 {
				width = 1 << (n.depth + n.bits - segmentAt(refOf(e)).depth)
			}
			done, k := entry(r, refOf(e)|memory.Ref(e&entryBuckets), budget-spent)
			spent += k
			if !done {
				return false, spent
			}
			n.epoch += width
		}
		r.Free(ref, memory.Index)
		return true, spent + 1
	}
	return func(r *memory.Returner, root memory.Ref, budget int) (memory.Ref, int) {
		done, spent := entry(r, root, budget)
		if done {
			return 0, spent
		}
		return root, spent
	}
}

// DestroyDue frees a retired index of deadlines. The tag of root is the height of the index.
func DestroyDue(r *memory.Returner, root memory.Ref, budget int) (rest memory.Ref, spent int) {
	height, ref := root&entryBuckets, root&^entryBuckets
	n := dueNodeAt(ref)
	if height > 1 {
		for i, child := range n.word {
			if child == 0 {
				continue
			}
			if spent >= budget {
				return root, spent
			}
			rest, k := DestroyDue(r, memory.Ref(child)|(height-1), budget-spent)
			spent += k
			if rest != 0 {
				return root, spent
			}
			n.word[i] = 0
		}
	}
	r.Free(ref, memory.Index)
	return 0, spent + 1
}
