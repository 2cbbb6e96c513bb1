package memory

import (
	"errors"
	"math/bits"

	"spindle/internal/invariant"
)

// A run is a block above MaxSmall. It consists of neighbouring units of 1 KB in the region's upper half. Split cuts a
// run in two, so that a block allocated as one can be freed in parts.
//
//	region   ...| used run, 9 units          | free run, dirty  | used | free run, clean       |...
//	records  ...| len,used  .  .  .  len,used | len,dirty .. len | l  l | len,clean  .. len     |     first and last unit
//
// memory.R1. The records of the first and the last unit of every run hold the run's length and state. Records between
// are not read.
// memory.R2. Two free runs of the same state are never neighbours in one segment, because they are merged.
// memory.R3. Every free run is in the list of its state and size. A run that is being trimmed counts as used.
type unit struct {
	word uint32 // length in units << unitShift | state
	next uint32 // neighbours in the list of free runs; 0 is none (unit 0 is never a run)
	prev uint32
}

const (
	// RunUnit is the granularity of blocks above MaxSmall, and of Split.
	RunUnit   = 1 << runShift
	runShift  = 10
	unitShift = 2
	stateMask = 1<<unitShift - 1
	runUsed   = 1
	runDirty  = 2 // free, its pages resident
	runClean  = 3 // free, its pages given back
)

func unitOf(r Ref) uint32 { return uint32((r - runBase) >> runShift) }
func runRef(i uint32) Ref { return runBase + Ref(i)<<runShift }

// runSupply holds the free runs. Dirty runs are used before clean ones.
type runSupply struct {
	dirty, clean runIndex
	live         int64 // used runs
	liveUnits    int64
	end          uint32 // just past the last segment
	grow         uint32 // units of the next segment, at least
	segments     []runSegment
	bornUnits    int64
	trimUnits    int64 // units with a reclaimer that gives their pages back
}

type runSegment struct{ first, count uint32 }

// A runIndex finds a free run of at least n units in O(1), by two-level segregated fit. It has lists by size, eight for
// each doubling of the size, and bitmaps of the lists that are not empty.
type runIndex struct {
	state  uint32
	tops   uint32
	subs   [32]uint8
	heads  [32][8]uint32
	units  int64
	crumbs int64 // units in runs too short to surely hold a whole page
}

// sizeList returns the indices of the list that holds free runs of n units.
func sizeList(n uint32) (top, sub int) {
	if n < 8 {
		return 0, int(n)
	}
	t := bits.Len32(n) - 3
	return t, int(n>>(t-1)) & 7
}

func (x *runIndex) add(first, n uint32) {
	top, sub := sizeList(n)
	u := unitAt(first)
	u.word = n<<unitShift | x.state
	unitAt(first + n - 1).word = u.word
	u.prev, u.next = 0, x.heads[top][sub]
	if u.next != 0 {
		unitAt(u.next).prev = first
	}
	x.heads[top][sub] = first
	x.subs[top] |= 1 << sub
	x.tops |= 1 << top
	x.units += int64(n)
	if top == 0 {
		x.crumbs += int64(n)
	}
}

func (x *runIndex) remove(first uint32) (n uint32) {
	u := unitAt(first)
	n = u.word >> unitShift
	top, sub := sizeList(n)
	if u.prev != 0 {
		unitAt(u.prev).next = u.next
	} else {
		x.heads[top][sub] = u.next
		if u.next == 0 {
			x.subs[top] &^= 1 << sub
			if x.subs[top] == 0 {
				x.tops &^= 1 << top
			}
		}
	}
	if u.next != 0 {
		unitAt(u.next).prev = u.prev
	}
	x.units -= int64(n)
	if top == 0 {
		x.crumbs -= int64(n)
	}
	return n
}

// find returns a free run of at least n units, or 0. It takes the first run of n's own list if that run is long enough,
// otherwise any run of a list of longer runs.
func (x *runIndex) find(n uint32) uint32 {
	top, sub := sizeList(n)
	if i := x.heads[top][sub]; i != 0 && unitAt(i).word>>unitShift >= n {
		return i
	}
	if above := x.subs[top] >> sub >> 1 << 1 << sub; above != 0 {
		return x.heads[top][bits.TrailingZeros8(above)]
	}
	if tops := x.tops >> top >> 1 << 1 << top; tops != 0 {
		top = bits.TrailingZeros32(tops)
		return x.heads[top][bits.TrailingZeros8(x.subs[top])]
	}
	return 0
}

// allocRun returns a run of at least size bytes.
func (h *Heap) allocRun(size int, p Purpose) Ref {
	if size < 0 || uint64(size) > uint64(regionEnd-runBase) {
		panic(ErrExhausted)
	}
	n := uint32((size + RunUnit - 1) >> runShift)
	u := &h.runs
	x := &u.dirty
	i := x.find(n)
	if i == 0 && h.drainRuns(drainAhead) < drainAhead { // a run freed by a reclaimer needs no first touch
		i = x.find(n)
	}
	if i == 0 {
		x = &u.clean
		if i = x.find(n); i == 0 {
			if err := h.growRuns(n); err != nil {
				panic(errors.Join(ErrExhausted, err))
			}
			i = x.find(n)
		}
	}
	have := x.remove(i)
	if have > n {
		x.add(i+n, have-n)
	}
	setUsed(i, n)
	h.trim.runs.note(u.reclaimable())
	h.trim.calm = 0
	u.live++
	u.liveUnits += int64(n)
	h.used[p&15] += int64(n) << runShift
	r := runRef(i)
	if invariant.Enabled {
		debugRunAlloc(r, p)
	}
	return r
}

func setUsed(first, n uint32) {
	unitAt(first).word = n<<unitShift | runUsed
	unitAt(first + n - 1).word = n<<unitShift | runUsed
}

// drainAhead is the budget for taking freed runs back when a run is needed. It is about 5 µs.
const drainAhead = 3 * 32

// growRuns adds a segment with room for n units. It has the usual size. If the system refuses that, it has only room
// for n units.
func (h *Heap) growRuns(n uint32) error {
	u := &h.runs
	if u.grow == 0 {
		u.grow = runSegmentMin
		u.dirty.state, u.clean.state = runDirty, runClean
	}
	const granule = slabSize / RunUnit
	least := (n + 2 + granule - 1) / granule * granule
	count := max(least, u.grow)
	first, joined, short, err := takeUnits(count, u.end)
	if err != nil && count > least {
		count = least
		first, joined, short, err = takeUnits(count, u.end)
	}
	h.short.runs = short
	if err != nil {
		return err
	}
	u.grow = min(u.grow*2, runSegmentMax)
	u.end = first + count
	u.bornUnits += int64(count)
	// A used unit at each end keeps runs of other segments from merging with ours (memory.R2), and keeps unit 0 from
	// being a run. If the segment continues our last one, the unit between them joins the new run.
	setUsed(u.end-1, 1)
	if joined {
		u.segments[len(u.segments)-1].count += count
		h.addFree(&u.clean, first-1, count)
	} else {
		u.segments = append(u.segments, runSegment{first, count})
		setUsed(first, 1)
		h.addFree(&u.clean, first+1, count-2)
	}
	return nil
}

// addFree adds a run to x, after it has merged the run with free neighbours of the same state (memory.R2).
func (h *Heap) addFree(x *runIndex, first, n uint32) {
	if word := unitAt(first - 1).word; word&stateMask == x.state {
		before := first - word>>unitShift
		n += x.remove(before)
		first = before
	}
	if word := unitAt(first + n).word; word&stateMask == x.state {
		n += x.remove(first + n)
	}
	x.add(first, n)
}

func (h *Heap) freeRun(r Ref, p Purpose) {
	h.used[p&15] -= int64(UsableSize(r))
	if invariant.Enabled {
		debugRunReturned(r, p)
	}
	h.reclaimRun(r)
}

// reclaimRun puts a run on the free lists. The caller has already accounted for its bytes.
func (h *Heap) reclaimRun(r Ref) {
	i := unitOf(r)
	word := unitAt(i).word
	invariant.That(word&stateMask == runUsed && r&(RunUnit-1) == 0, "memory.R1: run %#x freed in state %d", r, word&3)
	n := word >> unitShift
	h.runs.live--
	h.runs.liveUnits -= int64(n)
	h.addFree(&h.runs.dirty, i, n)
}

// Split cuts the run at r in two. The first part keeps n bytes. The second part begins at the returned Ref and is a
// separate block of the same purpose. n is a multiple of RunUnit, above 0 and below the run's size. O(1), a few ns.
func (h *Heap) Split(r Ref, n int) Ref {
	i := unitOf(r)
	all := unitAt(i).word >> unitShift
	cut := uint32(n >> runShift)
	invariant.That(r >= runBase && n&(RunUnit-1) == 0 && cut > 0 && cut < all,
		"memory.R1: run %#x of %d units split at %d bytes", r, all, n)
	setUsed(i, cut)
	setUsed(i+cut, all-cut)
	h.runs.live++
	if invariant.Enabled {
		debugRunSplit(r, runRef(i+cut))
	}
	return runRef(i + cut)
}

// Shrink frees the part of a run beyond n bytes, rounded up to RunUnit. A block up to MaxSmall stays unchanged.
func (h *Heap) Shrink(r Ref, n int, p Purpose) {
	n = max(n+RunUnit-1, RunUnit) &^ (RunUnit - 1)
	if r >= runBase && n < UsableSize(r) {
		h.Free(h.Split(r, n), p)
	}
}
