package memory

import (
	"sync/atomic"

	"spindle/internal/invariant"
)

// Reclaimers and other goroutines free blocks without the turn:
//
//	reclaimer:  block ──link──▶ slab.remote (CAS)  ── first one? ──▶ heap.remoteSlab (a stack of slabs)
//	turn:       heap.remoteSlab (swap) ──▶ per slab: remote (swap) ──splice──▶ slab.free
//
// A batch of blocks of one slab costs the turn one splice, whatever its size.
//
// memory.X1. A reclaimer touches only these fields of a slab: remote, size and, if it set the queued bit, pendNext.
// memory.X2. The goroutine that sets the queued bit pushes the slab. Only the turn pops the slab, and clears the bit
// after it has read pendNext.
// memory.X3. A run is returned through its own first word. Only the turn touches unit records.
//
//	slab.remote:  | queued 1 | 0 | count 16 | tail 16 | head 16 |     head and tail as offset/8; count 0 is empty

const (
	remoteQueued = 1 << 63
	remoteCount  = 1 << 32
)

// A Returner frees blocks from any goroutine, with or without the turn. Each goroutine has its own Returner. The core
// takes the blocks back with Heap.Drain, once per turn. Flush publishes the accounting of the freed blocks.
type Returner struct {
	h     *Heap
	used  [16]int64
	any   bool
	freed int // blocks freed since the Returner was made
}

// Returner makes a Returner. Any goroutine may call it.
func (h *Heap) Returner() *Returner { return &Returner{h: h} }

// Heap returns the heap to which blocks return. A reclaimer may only use methods of it that any goroutine may call.
func (t *Returner) Heap() *Heap { return t.h }

// Free frees the block at r, like [Heap.Free]. It costs some 10 ns, and a cache miss on the block.
func (t *Returner) Free(r Ref, p Purpose) {
	t.any = true
	t.freed++
	if r >= runBase {
		t.used[p&15] += int64(UsableSize(r))
		if invariant.Enabled {
			debugRunReturned(r, p)
		}
		for {
			head := t.h.remoteRun.Load()
			*Word(r) = head
			if t.h.remoteRun.CompareAndSwap(head, uint64(r)) {
				return
			}
		}
	}
	i := uint32(r >> slabShift)
	s := slabAt(i)
	t.used[p&15] += int64(s.size)
	if invariant.Enabled {
		debugFree(r, s, p)
	}
	block := uint64(r&(slabSize-1)) >> 3
	for {
		old := atomic.LoadUint64(&s.remote)
		word := old&^0xFFFF + remoteCount | block | remoteQueued
		if old>>32&0xFFFF == 0 {
			*Word(r) = noBlock
			word |= block << 16
		} else {
			*Word(r) = old & 0xFFFF
		}
		if atomic.CompareAndSwapUint64(&s.remote, old, word) {
			if old&remoteQueued == 0 {
				t.h.pushSlab(s, i)
			}
			return
		}
	}
}

// Flush publishes the accounting of the blocks freed so far. A reclaimer calls it after each slice of its work.
func (t *Returner) Flush() {
	if !t.any {
		return
	}
	for p := range Purposes {
		if n := t.used[p]; n != 0 {
			t.h.remoteUsed[p].Add(n)
			t.used[p] = 0
		}
	}
	t.any = false
	t.h.remoteAny.Store(1)
}

// unflushed returns the bytes freed since the last Flush.
func (t *Returner) unflushed() (sum int64) {
	for _, n := range t.used {
		sum += n
	}
	return sum
}

func (h *Heap) pushSlab(s *slab, i uint32) {
	for {
		head := h.remoteSlab.Load()
		s.pendNext = uint32(head)
		if h.remoteSlab.CompareAndSwap(head, uint64(i)) {
			return
		}
	}
}

// takeRemote splices the blocks of s that reclaimers freed onto its free list, and returns their number. With stays,
// the slab keeps its place on the stack if it has one.
func (h *Heap) takeRemote(s *slab, i uint32, stays bool) int {
	var old uint64
	for {
		old = atomic.LoadUint64(&s.remote)
		keep := uint64(0)
		if stays {
			keep = old & remoteQueued
		}
		if old == keep || atomic.CompareAndSwapUint64(&s.remote, old, keep) {
			break
		}
	}
	n := int(old >> 32 & 0xFFFF)
	if n == 0 {
		return 0
	}
	invariant.That(int(s.live) >= n, "memory.S1: slab %d has %d blocks alive and %d came back", i, s.live, n)
	s.live -= uint16(n)
	h.bins[s.class].live -= int64(n)
	switch {
	// All blocks are free. Start carving again, because linking the blocks would cost cache misses.
	case s.live == 0 && !s.punching:
		s.free, s.carved = noBlock, 0
		h.fillHoles(s, i, s.holes)
		return n
	case s.free != noBlock: // otherwise the tail already ends the list
		*Word(Ref(i)<<slabShift + Ref(old>>16&0xFFFF)<<3) = uint64(s.free) // the tail's link
	}
	s.free = uint16(old)
	return n
}

// drainGroup is the number of slabs drained together.
const drainGroup = 8

// drainSlabs takes back blocks that reclaimers freed, slab by slab, and returns the unused part of budget.
func (h *Heap) drainSlabs(budget int) int {
	if h.pending == 0 {
		if h.remoteSlab.Load() == 0 {
			return budget
		}
		h.pending = uint32(h.remoteSlab.Swap(0))
	}
	var group [drainGroup]uint32
	for h.pending != 0 && budget > 0 {
		n := 0
		for ; h.pending != 0 && n < drainGroup; n++ { // their cache misses overlap
			s := slabAt(h.pending)
			group[n] = h.pending
			if s.free != noBlock {
				PrefetchRef(Ref(h.pending)<<slabShift + Ref(atomic.LoadUint64(&s.remote)>>16&0xFFFF)<<3)
			}
			h.pending = s.pendNext // memory.X2: read before takeRemote clears queued
		}
		for _, i := range group[:n] {
			if s := slabAt(i); h.takeRemote(s, i, false) > 0 {
				h.relist(s, i)
			}
		}
		budget -= 3 * n
	}
	return budget
}

// drainRuns takes back runs that reclaimers freed, and returns the unused part of budget.
func (h *Heap) drainRuns(budget int) int {
	if h.returned == 0 {
		if h.remoteRun.Load() == 0 {
			return budget
		}
		h.returned = Ref(h.remoteRun.Swap(0))
	}
	for h.returned != 0 && budget > 0 {
		r := h.returned
		h.returned = Ref(*Word(r))
		if h.returned != 0 {
			PrefetchRef(h.returned)
		}
		h.reclaimRun(r)
		budget -= 3
	}
	return budget
}
