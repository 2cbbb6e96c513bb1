// Package memory is the memory that data lives in: one region outside the Go heap, with its own allocator.
//
// Owner: the core; a [Heap]'s methods are called by the holder of the turn, unless they say "any goroutine".
// Elsewhere: savers read blocks a [Hold] keeps; reclaimers free through a [Returner].
// Never: takes a lock or allocates on the Go heap in Alloc, Free and Retire, blocks, or knows what a block holds.
// Start here; classes.go and slab.go serve small blocks, run.go large ones, remote.go takes what reclaimers free,
// hold.go keeps what frozen views may still see, trim.go gives pages back. DESIGN.md has the pictures.
package memory

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"spindle/internal/invariant"
)

// Options shape a heap; the zero value is good.
type Options struct {
	Databases int   // how many numbers SetPosition may name; others are kept until their hold closes. Default 16
	Warm      int64 // bytes of empty memory kept instead of given back. Default 4 MB, or 1/64 of what is used if more
}

// A Heap serves blocks of the region to one core and counts them.
//
// memory.H1. Everything but the fields below "shared" is touched only by the holder of the turn.
// memory.H2. used[p] - remoteUsed[p] is exactly the usable bytes of the blocks alive under purpose p.
// memory.H3. A slab is in exactly one place: current of its bin, in its bin's partial list, full, dirty, clean, being
// trimmed, being touched or leaving. Check proves memory.H2 (in builds that check) and memory.H3.
type Heap struct {
	bins [numClasses]bin
	used [16]int64 // by purpose; [15] never

	slabs slabSupply
	runs  runSupply
	peak  int64

	epoch    uint64
	frozen   uint64
	holds    []*Hold // oldest first; some may be closed and not yet swept
	position position
	ready    shelf // retired, seen by no hold: for a reclaimer
	destroy  [maxKinds]Destroy
	measure  [maxKinds]func(Ref) int64
	retained int64 // on the shelves of holds
	parked   int64 // bytes, by Park
	options  Options
	trim     trimState
	evac     evacuation
	touch    touchState
	short    shortage
	pending  uint32 // slabs taken off remote.slabs and not yet drained; linked through pendNext
	returned Ref    // runs taken off remote.runs and not yet drained

	shared
}

// shared is what other goroutines write.
type shared struct {
	_          [64]byte
	remoteSlab atomic.Uint64 // slabs with remotely freed blocks: a stack linked through pendNext, slab number
	remoteRun  atomic.Uint64 // remotely freed runs: a stack linked through their first word
	remoteAny  atomic.Uint32 // remoteUsed is not all zero
	remoteUsed [Purposes]atomic.Int64
	news       atomic.Uint32 // a hold was closed or passed something since the last Drain
	trimmed    atomic.Pointer[trimJob]
	reclaiming atomic.Int64 // what Reclaiming says
	pendingObj atomic.Int64
	freedObj   atomic.Int64
	published  published
	spareJobs  chan *retireJob // that have ended, for the next
}

var (
	regionOnce sync.Once
	regionErr  error
)

// New makes an empty heap. Heaps share the region; a server has one, tests have many.
func New(o Options) (*Heap, error) {
	regionOnce.Do(func() {
		if regionErr = reserveRegion(); regionErr == nil {
			openHeadroom()
		}
	})
	if regionErr != nil {
		return nil, regionErr
	}
	if o.Databases <= 0 {
		o.Databases = 16
	}
	if o.Warm <= 0 {
		o.Warm = 4 << 20
	}
	h := &Heap{epoch: 1, options: o}
	for c := range h.bins {
		h.bins[c].current = &noSlab
		h.bins[c].size = classSize[c]
	}
	h.spareJobs = make(chan *retireJob, maxSpareJobs)
	for range cap(h.spareJobs) {
		h.spareJobs <- h.newJob()
	}
	h.trim.job.h = h
	h.trim.job.step = h.trim.job.run
	h.touch.job.step = h.touch.job.run
	return h, nil
}

// Alloc gives a block of at least n bytes with undefined content. n up to [MaxSmall] costs a few ns; above, a run is
// found in O(1). Panics with [ErrExhausted] when the system gives no more memory: nothing can go on without it.
// [Heap.Short] tells beforehand.
func (h *Heap) Alloc(n int, p Purpose) Ref {
	if uint(n) > MaxSmall {
		return h.allocRun(n, p)
	}
	b := &h.bins[classFit[(n+7)>>3]]
	s := b.current
	var r Ref
	if s.free != noBlock {
		r = b.base + Ref(s.free)<<3
		s.free = uint16(*Word(r))
	} else if s.carved < s.cap {
		r = b.base + Ref(s.carved)*Ref(b.size)
		s.carved++
	} else {
		return h.allocSlow(b, p)
	}
	s.live++
	b.live++
	h.used[p&15] += int64(b.size)
	if invariant.Enabled {
		debugAlloc(r, s, p)
	}
	return r
}

// Free gives the block at r back at once: nothing may still see it. Blocks that a hold may see are retired instead.
// r is what Alloc returned, or what Split made of it; p is the purpose it was allocated under.
func (h *Heap) Free(r Ref, p Purpose) {
	if r >= runBase {
		h.freeRun(r, p)
		return
	}
	s := slabAt(uint32(r >> slabShift))
	if invariant.Enabled {
		debugFree(r, s, p)
	}
	*Word(r) = uint64(s.free)
	s.free = uint16(r & (slabSize - 1) >> 3)
	s.live--
	h.bins[s.class].live--
	h.used[p&15] -= int64(s.size)
	if s.state != slabCurrent && (s.live == 0 || s.state == slabFull) {
		h.settle(s, uint32(r>>slabShift))
	}
}

// UsableSize is how many bytes the block at r has. Any goroutine that may read the block.
func UsableSize(r Ref) int {
	if r >= runBase {
		return int(unitAt(unitOf(r)).word>>unitShift) * RunUnit
	}
	return int(slabAt(uint32(r >> slabShift)).size)
}

// Used is the usable bytes of all live blocks, exactly (used_memory's share of data). A block handed to a
// reclaimer counts until it is freed.
func (h *Heap) Used() int64 {
	var sum int64
	for p := range Purposes {
		sum += h.used[p]
	}
	if h.remoteAny.Load() != 0 {
		for p := range h.remoteUsed {
			sum -= h.remoteUsed[p].Load()
		}
	}
	return sum
}

// UsedBy is one purpose's share of Used.
func (h *Heap) UsedBy(p Purpose) int64 { return h.used[p] - h.remoteUsed[p].Load() }

// Peak is the greatest Used at the end of a turn so far; ResetPeak starts again from now.
func (h *Heap) Peak() int64 {
	h.peak = max(h.peak, h.Used())
	return h.peak
}

// ResetPeak forgets the peak (MEMORY PURGE does not; DEBUG and tests may).
func (h *Heap) ResetPeak() { h.peak = h.Used() }

// Drain does the turn's share of what other goroutines began: blocks that reclaimers freed, pages that were given
// back, holds that moved on or closed. The core calls it once per turn. budget bounds the work (a unit is
// about 50 ns); more says that there is work left. Costs a few loads when there is nothing.
func (h *Heap) Drain(budget int) (more bool) {
	if h.news.Load() != 0 {
		h.sweepHolds()
	}
	budget = h.takeTouched(h.takeTrimmed(budget))
	ofRuns := budget / 4 // however many slabs wait
	h.drainRuns(ofRuns + h.drainSlabs(budget-ofRuns))
	if h.remoteAny.Load() != 0 {
		h.foldRemote()
	}
	h.publish()
	return h.draining() || h.trimmed.Load() != nil
}

// draining says that reclaimers have freed what the turn has not taken back.
func (h *Heap) draining() bool {
	return h.pending != 0 || h.returned != 0 || h.remoteSlab.Load() != 0 || h.remoteRun.Load() != 0
}

// foldRemote moves what reclaimers counted into used.
func (h *Heap) foldRemote() {
	h.remoteAny.Store(0)
	for p := range h.remoteUsed {
		if h.remoteUsed[p].Load() != 0 {
			h.used[p] -= h.remoteUsed[p].Swap(0)
		}
	}
}

// Close gives all of the heap's memory back, whatever still lives in it. For tests, and for processes that load data
// to look at it; no reclaimer may be at work.
func (h *Heap) Close() {
	region.Lock()
	defer region.Unlock()
	for _, first := range h.slabs.segments {
		forget(Ref(first)<<slabShift, slabSegment*slabSize)
		for i := range uint32(slabSegment) {
			*slabAt(first + i) = slab{}
		}
		if contiguous {
			region.freeSlabs = append(region.freeSlabs, first)
		}
	}
	for _, s := range h.runs.segments {
		forget(runBase+Ref(s.first)*RunUnit, int(s.count)*RunUnit)
	}
	*h = Heap{}
}

var _ [64]byte = [unsafe.Sizeof(slab{})]byte{}
