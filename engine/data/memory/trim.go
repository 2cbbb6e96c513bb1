package memory

import (
	"slices"
	"sync/atomic"
)

// Pages of empty memory go back to the kernel in three steps. The turn waits for none of them. First, the turn takes
// empty slabs and dirty runs off its lists (trimJob). Then a reclaimer gives their pages back (run). At last, the turn
// lists them as clean (takeTrimmed). punch.go does the same for pages of slabs in use.
//
// memory.T1. At most one trim is out at a time. Its slabs and runs are on no list.
// memory.T2. Some warm memory stays: a trim begins above twice the warm size and ends at it, and leaves that much in
// slabs. A purge leaves none. When it has ended, the reserve is touched again (memory.W2), so that the first turn that
// needs a slab need not clear a huge page.
// memory.T3. A trim takes only memory that has been empty for a whole period (Age). So memory that is freed and soon
// used again, as when large values are replaced, stays resident. Slabs and runs are counted separately, because neither
// can replace the other. A purge does not wait.
// memory.T4. A trim also takes clean neighbours of a run, up to the next huge page. Of a slab it takes the whole huge
// page, if no block in that page is live. The kernel may have filled these again, because it joins small pages to a
// huge one and clears the missing ones.
// memory.T5. Above the limit (Limit) a trim does not wait either, and takes the excess at once. Afterwards, runs have
// small pages. With huge ones the kernel would later fill the gaps that trims left between runs in use.
// memory.T6. A heap at rest keeps a quarter of the warm size. It is at rest when no block came from its empty memory
// for restAges whole periods.
type trimState struct {
	calm  int   // periods ended since empty memory was last used (memory.T6)
	small bool  // the kernel has been told of memory.T5
	limit int64 // bytes of slabs and runs that may be resident before memory.T5 applies; 0 means no limit
	job   trimJob
	out   bool
	purge int64 // bytes that a purge still has to give back, whatever memory.T2 and memory.T3 say
	again bool  // the purge takes more when reclaimers have finished
	cold  bool  // a purge was requested, and the reserve has not been touched again since
	slabs idleness
	runs  idleness
	sweep sweep
	holes int64 // pages of slabs in use that are given back
}

// An idleness is how many bytes of one kind of empty memory were not needed (memory.T3).
type idleness struct {
	least int64 // the least number of empty bytes since this period began
	idle  int64 // bytes empty throughout the previous period, and since
}

// note is called after each use of empty memory. now is how many bytes are left.
func (x *idleness) note(now int64) { x.least, x.idle = min(x.least, now), min(x.idle, now) }

// trimmed is called after a trim of n bytes.
func (x *idleness) trimmed(n int64) { x.least, x.idle = max(0, x.least-n), max(0, x.idle-n) }

func (x *idleness) age(now int64) { x.idle, x.least = min(x.least, now), now }

type trimJob struct {
	h        *Heap
	slabs    []uint32
	runs     []runSegment
	slab     int // done so far
	doneRuns int
	unit     uint32 // of runs[doneRuns]
	holes    []hole
	hole     int  // done so far
	small    bool // it must tell the kernel of memory.T5
	step     func(budget int) bool
	left     atomic.Int64 // bytes taken that may still be resident. The turn sets it, the reclaimer lowers it.
}

const (
	// A trim takes at most trimSlabs slabs, and up to a huge page more. That takes about 5 µs of the turn, and several
	// times that if their records are not cached.
	trimSlabs = 32
	restAges  = 2 // the period in which memory was last used does not count
	trimRuns  = 16
	trimPiece = 2 << 20              // bytes given back by one kernel call: a huge page
	wholePage = 2*osPage/RunUnit - 1 // units that hold a whole page, wherever they begin
	hugeUnits = trimPiece / RunUnit
	hugeSlabs = min(trimPiece/slabSize, slabSegment) // not more: a neighbour must not be another heap's
	trimCost  = 24                                   // the cost of giving back 64 KB, in budget units
)

// Purge gives back all memory that is empty now, including the warm reserve (MEMORY PURGE). It does so once more when
// reclaimers have no more to free. Reclaimers do the work over the next turns. Memory freed later is not part of the
// purge, so that a purge ends even under load.
func (h *Heap) Purge() {
	h.trim.purge, h.trim.again, h.trim.cold = h.Reclaimable(), true, true
	h.trim.sweep = sweep{on: true, all: true}
}

// Age ends a period: memory that was empty throughout the period may now be given back. The core calls it every few
// seconds.
func (h *Heap) Age() {
	h.trim.slabs.age(h.slabs.reclaimable())
	h.trim.runs.age(h.runs.reclaimable())
	h.trim.calm++
	h.short.look()
	if !h.trim.sweep.on && h.holey() {
		h.trim.sweep = sweep{on: true}
	}
}

// Reclaimable returns the bytes of empty memory that a trim can give back.
func (h *Heap) Reclaimable() int64 { return h.slabs.reclaimable() + h.runs.reclaimable() }

func (u *slabSupply) reclaimable() int64 { return u.dirty.n << slabShift }

func (u *runSupply) reclaimable() int64 { return (u.dirty.units - u.dirty.crumbs) << runShift }

// warm returns how many bytes of empty memory a trim leaves, so that turns find memory that needs no first touch.
func (h *Heap) warm() int64 {
	if h.trim.calm > restAges {
		return max(h.options.Warm/4, h.Used()>>6)
	}
	return max(h.options.Warm, h.Used()>>6)
}

// trimJob returns a trim as a job for a reclaimer, or nil.
func (h *Heap) trimJob() func(budget int) bool {
	t := &h.trim
	if j := &t.job; !t.out {
		j.slabs, j.runs, j.slab, j.doneRuns, j.unit, j.holes, j.hole = j.slabs[:0], j.runs[:0], 0, 0, 0, j.holes[:0], 0
	}
	if h.trimEmpty() || h.sweepOn() {
		t.out = true
		return t.job.step
	}
	return nil
}

// trimEmpty takes empty memory for a trim. It reports whether it took any.
func (h *Heap) trimEmpty() bool {
	t := &h.trim
	if t.again && !t.out && h.Reclaiming() == 0 && !h.draining() {
		t.purge, t.again = h.Reclaimable(), false
	}
	excess, warm := h.Reclaimable(), h.warm()
	if t.out || excess <= 2*warm && t.purge == 0 {
		h.purged()
		return false
	}
	over := h.overLimit()
	slabs, runs := max(t.slabs.idle, over), max(t.runs.idle, over) // how much of each may go
	if t.purge > 0 {
		excess, warm = min(excess, t.purge), 0
		slabs, runs = excess, excess
	}
	j := &t.job
	n := h.trimRuns(min(excess-warm, runs))
	n += h.trimSlabs(min(excess-warm-n, slabs), warm)
	j.left.Store(n)
	t.purge = max(0, t.purge-n)
	if len(j.slabs) == 0 && len(j.runs) == 0 {
		t.purge = 0
		h.purged()
		return false
	}
	if over > 0 && !t.small {
		j.small, t.small = true, true
	}
	return true
}

// Limit sets how many bytes of slabs and runs may be resident, including empty ones. Above that, empty memory is given
// back at once. 0 means no limit.
func (h *Heap) Limit(bytes int64) { h.trim.limit = bytes }

// overLimit returns by how many bytes the limit is exceeded (memory.T5).
func (h *Heap) overLimit() int64 {
	if h.trim.limit == 0 {
		return 0
	}
	return max(0, h.active()+h.Reclaimable()-h.trim.limit)
}

// trimRuns takes dirty runs of at most most bytes in all, the longest first. It returns the bytes taken.
func (h *Heap) trimRuns(most int64) (taken int64) {
	x, j := &h.runs.dirty, &h.trim.job
	for most > taken && len(j.runs) < trimRuns {
		i := x.longest()
		if i == 0 {
			break
		}
		n := x.remove(i)
		if end := i + uint32((most-taken)>>runShift); end < i+n { // the rest stays, beginning at a huge page
			end &^= hugeUnits - 1
			if end < i+wholePage {
				x.add(i, n)
				break
			}
			x.add(end, i+n-end)
			n = end - i
		}
		taken += int64(n) << runShift
		i, n = h.runs.widen(i, n)
		setUsed(i, n) // memory.R3
		h.runs.trimUnits += int64(n)
		j.runs = append(j.runs, runSegment{i, n})
	}
	h.trim.runs.trimmed(taken)
	return taken
}

// widen adds clean neighbours to the n units at first, within their huge pages (memory.T4).
func (u *runSupply) widen(first, n uint32) (uint32, uint32) {
	if word := unitAt(first - 1).word; word&stateMask == runClean {
		have := word >> unitShift
		if take := min(have, first%hugeUnits); take > 0 {
			u.clean.remove(first - have)
			if take < have {
				u.clean.add(first-have, have-take)
			}
			first, n = first-take, n+take
		}
	}
	if word := unitAt(first + n).word; word&stateMask == runClean {
		have := word >> unitShift
		if take := min(have, -(first+n)%hugeUnits); take > 0 {
			u.clean.remove(first + n)
			if take < have {
				u.clean.add(first+n+take, have-take)
			}
			n += take
		}
	}
	return first, n
}

// trimSlabs takes dirty slabs of at most most bytes in all, beginning with those empty for longest. It leaves at least
// keep bytes of dirty slabs. It returns the bytes taken.
func (h *Heap) trimSlabs(most, keep int64) (taken int64) {
	u, j := &h.slabs, &h.trim.job
	most = min(most, u.reclaimable()-keep)
	for most > taken && len(j.slabs) < trimSlabs {
		i := u.dirty.tail
		first := i &^ (hugeSlabs - 1)
		if n := int64(emptySlabs(first)) * slabSize; n == 0 || n > most-taken {
			j.addSlab(&u.dirty, i)
			taken += slabSize
			continue
		}
		for k := first; k < first+hugeSlabs; k++ { // memory.T4
			switch slabAt(k).state {
			case slabDirty:
				j.addSlab(&u.dirty, k)
				taken += slabSize
			case slabClean:
				j.addSlab(&u.clean, k)
			}
		}
	}
	h.trim.slabs.trimmed(taken)
	return taken
}

// emptySlabs returns how many dirty slabs the huge page at first has, or 0 if a block in the page is live.
func emptySlabs(first uint32) (dirty int) {
	for k := first; k < first+hugeSlabs; k++ {
		switch slabAt(k).state {
		case slabDirty:
			dirty++
		case slabClean, slabUnborn:
		default:
			return 0
		}
	}
	return dirty
}

func (j *trimJob) addSlab(from *slabList, i uint32) {
	from.remove(i)
	slabAt(i).state = slabTrimming
	j.slabs = append(j.slabs, i)
}

// longest returns a free run of the list with the longest runs, or 0 if these runs hold no whole pages.
func (x *runIndex) longest() uint32 {
	for top := len(x.heads) - 1; top > 0; top-- {
		for sub := 7; sub >= 0 && x.subs[top] != 0; sub-- {
			if x.heads[top][sub] != 0 {
				return x.heads[top][sub]
			}
		}
	}
	return 0
}

// run gives pages back, on a reclaimer.
func (j *trimJob) run(budget int) (done bool) {
	if j.small {
		j.small = false
		leaveRunsSmall()
	}
	if j.slab == 0 {
		slices.Sort(j.slabs)
	}
	for budget > 0 && j.slab < len(j.slabs) {
		n := 1
		for j.slab+n < len(j.slabs) && j.slabs[j.slab+n] == j.slabs[j.slab]+uint32(n) && n < trimPiece/slabSize {
			n++
		}
		j.giveBack(Ref(j.slabs[j.slab])<<slabShift, n*slabSize)
		j.slab += n
		budget -= n * trimCost
	}
	for budget > 0 && j.doneRuns < len(j.runs) {
		run := j.runs[j.doneRuns]
		n := min(run.count-j.unit, trimPiece/RunUnit-(run.first+j.unit)%(trimPiece/RunUnit)) // to the next multiple of 2 MB
		j.giveBack(runRef(run.first+j.unit), int(n)<<runShift)
		j.unit += n
		budget -= 1 + int(n)*RunUnit*trimCost/slabSize
		if j.unit == run.count {
			j.doneRuns, j.unit = j.doneRuns+1, 0
		}
	}
	for ; budget > 0 && j.hole < len(j.holes); j.hole++ {
		budget -= j.holes[j.hole].giveBack() * trimCost
	}
	if j.slab < len(j.slabs) || j.doneRuns < len(j.runs) || j.hole < len(j.holes) {
		return false
	}
	j.left.Store(0)
	j.h.trimmed.Store(j)
	return true
}

// giveBack gives back n bytes at first. They may include clean neighbours (memory.T4), which left does not count.
func (j *trimJob) giveBack(first Ref, n int) {
	giveBack(first, n)
	j.left.Store(max(0, j.left.Load()-int64(n)))
}

// takeTrimmed lists the memory that a trim has given back as clean, within budget, and returns the unused part of
// budget. The parts of pages at a run's ends were not given back, so they stay dirty.
func (h *Heap) takeTrimmed(budget int) int {
	j := h.trimmed.Load()
	if j == nil {
		return budget
	}
	for ; budget > 0 && len(j.slabs) > 0; budget-- { // from the end, so that low addresses are used first
		i := j.slabs[len(j.slabs)-1]
		j.slabs = j.slabs[:len(j.slabs)-1]
		slabAt(i).state = slabClean
		h.slabs.clean.push(i)
	}
	for ; budget > 0 && len(j.runs) > 0; budget -= 3 {
		run := j.runs[len(j.runs)-1]
		j.runs = j.runs[:len(j.runs)-1]
		h.listTrimmed(run)
	}
	for ; budget > 0 && len(j.holes) > 0; budget-- {
		h.punched(j.holes[len(j.holes)-1].slab)
		j.holes = j.holes[:len(j.holes)-1]
	}
	if len(j.slabs) == 0 && len(j.runs) == 0 && len(j.holes) == 0 {
		h.trimmed.Store(nil)
		h.trim.out = false
		h.purged()
	}
	return budget
}

// purged requests that the reserve be touched again, if a purge has ended (memory.T2).
func (h *Heap) purged() {
	if t := &h.trim; t.cold && !t.out && t.purge == 0 && !t.again {
		t.cold, h.touch.wanted = false, true
	}
}

func (h *Heap) listTrimmed(run runSegment) {
	const perPage = osPage / RunUnit
	h.runs.trimUnits -= int64(run.count)
	from, to := (run.first+perPage-1)&^(perPage-1), (run.first+run.count)&^(perPage-1)
	end := run.first + run.count
	setUsed(from, to-from)
	if from > run.first {
		setUsed(run.first, from-run.first)
	}
	if end > to {
		setUsed(to, end-to)
		h.addFree(&h.runs.dirty, to, end-to)
	}
	h.addFree(&h.runs.clean, from, to-from)
	if from > run.first {
		h.addFree(&h.runs.dirty, run.first, from-run.first)
	}
}
