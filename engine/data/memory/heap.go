// Package memory is the memory that data lives in: one region outside the Go heap, with its own allocator.
//
// Owner: the core. The holder of the turn calls a [Heap]'s methods, except those that any goroutine may call.
// Elsewhere: savers read blocks that a [Hold] keeps; reclaimers free through a [Returner].
// Never: takes a lock or allocates on the Go heap in Alloc, Free and Retire, blocks, or knows what a block holds.
// Start here. classes.go and slab.go serve small blocks, run.go large ones. remote.go takes back what reclaimers free.
// hold.go keeps what frozen views may still read. trim.go gives pages back. DESIGN.md has the pictures.
package memory

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"spindle/internal/invariant"
)

// Options are the options of a heap. The zero value is valid.
type Options struct {
	Databases int   // databases SetPosition can name; blocks of others stay until their hold closes. Default 16
	Warm      int64 // bytes of empty memory kept instead of given back. Default 4 MB, or Used/64 if that is more
}

// A Heap serves blocks of the region to one core and counts them.
//
// memory.H1. Only the holder of the turn touches the fields, except those of shared.
// memory.H2. used[p] - remoteUsed[p] is exactly the usable bytes of the blocks allocated under purpose p.
// memory.H3. A slab is in exactly one state: current in its bin, in the bin's partial list, full, dirty, clean, being
// trimmed, being touched or leaving. Check returns an error if memory.H3 is broken, and in builds that check also for
// memory.H2.
type Heap struct {
	bins [numClasses]bin
	used [16]int64 // by purpose; [15] is never used

	slabs slabSupply
	runs  runSupply
	peak  int64

	epoch    uint64
	frozen   uint64
	holds    []*Hold // oldest first; some may be closed and not yet swept
	position position
	ready    shelf // retired blocks that no hold can read; a reclaimer will free them
	destroy  [maxKinds]Destroy
	measure  [maxKinds]func(Ref) int64
	retained int64 // bytes on the shelves of holds
	parked   int64 // bytes that Park counts
	options  Options
	trim     trimState
	evac     evacuation
	touch    touchState
	short    shortage
	pending  uint32 // slabs taken off remote.slabs and not yet drained; linked through pendNext
	returned Ref    // runs taken off remote.runs and not yet drained

	shared
}

// shared holds the fields that other goroutines write.
type shared struct {
	_          [64]byte
	remoteSlab atomic.Uint64 // slabs with remotely freed blocks: a stack linked through pendNext, slab number
	remoteRun  atomic.Uint64 // remotely freed runs: a stack linked through their first word
	remoteAny  atomic.Uint32 // remoteUsed is not all zero
	remoteUsed [Purposes]atomic.Int64
	news       atomic.Uint32 // a hold was closed or passed something since the last Drain
	trimmed    atomic.Pointer[trimJob]
	reclaiming atomic.Int64 // the result of Reclaiming
	pendingObj atomic.Int64
	freedObj   atomic.Int64
	published  published
	spareJobs  chan *retireJob // finished jobs, for reuse
}

var (
	regionOnce sync.Once
	regionErr  error
)

// New makes an empty heap. All heaps share the region. A server has one heap, tests have many.
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

// Alloc returns a block of at least n bytes with undefined content. Up to [MaxSmall] it costs a few ns. For a larger n
// the block is a run, found in O(1). It panics with [ErrExhausted] when the system gives no more memory. [Heap.Short]
// warns earlier.
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

// Free frees the block at r at once. If a hold may still read the block, call Retire instead. r comes from Alloc or
// Split, and p is the purpose under which it was allocated.
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
		h.relist(s, uint32(r>>slabShift))
	}
}

// UsableSize returns the size in bytes of the block at r. Any goroutine that may read the block may call it.
func UsableSize(r Ref) int {
	if r >= runBase {
		return int(unitAt(unitOf(r)).word>>unitShift) * RunUnit
	}
	return int(slabAt(uint32(r >> slabShift)).size)
}

// Used returns the usable bytes of all live blocks, exactly (the data's part of used_memory). A block handed to a
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

// UsedBy returns the bytes of Used that were allocated under purpose p.
func (h *Heap) UsedBy(p Purpose) int64 { return h.used[p] - h.remoteUsed[p].Load() }

// Peak returns the greatest Used at the end of any turn since the start or since ResetPeak.
func (h *Heap) Peak() int64 {
	h.peak = max(h.peak, h.Used())
	return h.peak
}

// ResetPeak sets the peak to the present Used.
func (h *Heap) ResetPeak() { h.peak = h.Used() }

// Drain takes back what other goroutines have finished: freed blocks, pages given back or touched, holds that passed a
// prefix or closed. The core calls it once per turn. budget limits the work, in units of about 50 ns. more means that
// work is left. With nothing to do it costs a few loads.
func (h *Heap) Drain(budget int) (more bool) {
	if h.news.Load() != 0 {
		h.sweepHolds()
	}
	budget = h.takeTouched(h.takeTrimmed(budget))
	ofRuns := budget / 4 // runs get their share however many slabs wait
	h.drainRuns(ofRuns + h.drainSlabs(budget-ofRuns))
	if h.remoteAny.Load() != 0 {
		h.foldRemote()
	}
	h.publish()
	return h.draining() || h.trimmed.Load() != nil
}

// draining reports whether the turn has yet to take back blocks that reclaimers freed.
func (h *Heap) draining() bool {
	return h.pending != 0 || h.returned != 0 || h.remoteSlab.Load() != 0 || h.remoteRun.Load() != 0
}

// foldRemote subtracts the bytes that reclaimers have freed from used.
func (h *Heap) foldRemote() {
	h.remoteAny.Store(0)
	for p := range h.remoteUsed {
		if h.remoteUsed[p].Load() != 0 {
			h.used[p] -= h.remoteUsed[p].Swap(0)
		}
	}
}

// Close gives back all memory of the heap, including live blocks. It is for tests, and for processes that load data to
// inspect it. No reclaimer may be working.
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
