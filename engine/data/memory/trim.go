package memory

import "slices"

// Pages go back to the kernel in three steps, none of which makes the turn wait: the turn takes empty slabs and dirty runs
// off its lists (trimJob), a reclaimer gives their pages back (run), the turn lists them as clean (takeTrimmed).
//
// T1. At most one trim is out at a time; what it holds is on no list.
// T2. Some warm memory stays: a trim begins above twice the warm size and ends at it. A purge leaves none.
// T3. What a trim takes has been empty for a whole period (Age): what is freed and needed again at once, as when large values are
// replaced, is not touched anew each time. Slabs and runs are looked at apart, because neither serves for the other. A purge does not wait.
type trimState struct {
	job   trimJob
	out   bool
	purge bool
	slabs idleness
	runs  idleness
}

// An idleness is how much empty memory of one kind nobody needed, in bytes (T3).
type idleness struct {
	least int64 // there was since this period began
	idle  int64 // there was all through the period before, less what trims have taken
}

// note follows a taking of empty memory, of which so much is left.
func (x *idleness) note(now int64) { x.least, x.idle = min(x.least, now), min(x.idle, now) }

func (x *idleness) age(now int64) { x.idle, x.least = min(x.least, now), now }

type trimJob struct {
	h     *Heap
	slabs []uint32
	runs  []runSegment
	slab  int // done so far
	run_  int
	unit  uint32 // of runs[run_]
	step  func(budget int) bool
}

const (
	trimSlabs = 64 // slabs of one trim: 4 MB, some 5 µs of turn to take them off their list and as much to list them again
	trimRuns  = 32
	trimPiece = 2 << 20 // bytes given back by one call to the kernel
	trimCost  = 24      // of 64 KB, in budget units
)

// Purge has all empty memory given back, the warm reserve too (MEMORY PURGE). Reclaimers do it, over the next turns.
func (h *Heap) Purge() { h.trim.purge = true }

// Trimming says that pages are being given back: the turn is to Drain, and to TakeJob again for the rest, soon.
func (h *Heap) Trimming() bool { return h.trim.out }

// Age ends a period: what has been empty all through it may be given back. The core calls it every half a second or so.
func (h *Heap) Age() {
	h.trim.slabs.age(h.slabs.reclaimable())
	h.trim.runs.age(h.runs.reclaimable())
}

// Reclaimable is the bytes of empty memory that a trim can give back.
func (h *Heap) Reclaimable() int64 { return h.slabs.reclaimable() + h.runs.reclaimable() }

func (u *slabSupply) reclaimable() int64 { return u.dirty.n << slabShift }

func (u *runSupply) reclaimable() int64 { return (u.dirty.units - u.dirty.crumbs) << runShift }

// warm is the bytes of empty memory that stay, so that turns find some that needs no first touch.
func (h *Heap) warm() int64 { return max(h.options.Warm, h.Used()>>6) }

// trimJob gives a trim for a reclaimer, or nil.
func (h *Heap) trimJob() func(budget int) bool {
	excess := h.Reclaimable()
	if h.trim.out || excess <= 2*h.options.Warm && !h.trim.purge {
		return nil
	}
	slabs, runs := &h.trim.slabs.idle, &h.trim.runs.idle // what of each may go
	if !h.trim.purge {
		warm := h.warm()
		if excess <= 2*warm || *slabs+*runs == 0 {
			return nil
		}
		excess -= warm
	} else if excess == 0 {
		h.trim.purge = false
		return nil
	} else {
		*slabs, *runs = excess, excess
	}
	j := &h.trim.job
	j.slabs, j.runs, j.slab, j.run_, j.unit = j.slabs[:0], j.runs[:0], 0, 0, 0
	for x := &h.runs.dirty; excess > 0 && *runs > 0 && len(j.runs) < trimRuns; {
		i := x.longest()
		if i == 0 {
			break
		}
		n := x.remove(i)
		if most := uint32(min(excess, *runs) >> runShift); most < n { // the rest stays
			most &^= trimPiece/RunUnit - 1
			x.add(i+most, n-most)
			if n = most; n == 0 {
				break
			}
		}
		setUsed(i, n) // R3
		h.runs.trimUnits += int64(n)
		j.runs = append(j.runs, runSegment{i, n})
		excess -= int64(n) << runShift
		*runs = max(0, *runs-int64(n)<<runShift)
	}
	for u := &h.slabs; excess > 0 && *slabs > 0 && u.dirty.n > 0 && len(j.slabs) < trimSlabs; {
		i := u.dirty.tail // the one empty for longest
		u.dirty.remove(i)
		slabAt(i).state = slabTrimming
		j.slabs = append(j.slabs, i)
		excess -= slabSize
		*slabs = max(0, *slabs-slabSize)
	}
	if len(j.slabs) == 0 && len(j.runs) == 0 {
		h.trim.purge = false
		return nil
	}
	h.trim.out = true
	return j.step
}

// longest gives a free run of the longest list, if that holds whole pages.
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
	if j.slab == 0 {
		slices.Sort(j.slabs)
	}
	for budget > 0 && j.slab < len(j.slabs) {
		n := 1
		for j.slab+n < len(j.slabs) && j.slabs[j.slab+n] == j.slabs[j.slab]+uint32(n) && n < trimPiece/slabSize {
			n++
		}
		giveBack(Ref(j.slabs[j.slab])<<slabShift, n*slabSize)
		j.slab += n
		budget -= n * trimCost
	}
	for budget > 0 && j.run_ < len(j.runs) {
		run := j.runs[j.run_]
		n := min(run.count-j.unit, trimPiece/RunUnit-(run.first+j.unit)%(trimPiece/RunUnit)) // to the next multiple of 2 MB
		giveBack(runRef(run.first+j.unit), int(n)<<runShift)
		j.unit += n
		budget -= 1 + int(n)*RunUnit*trimCost/slabSize
		if j.unit == run.count {
			j.run_, j.unit = j.run_+1, 0
		}
	}
	if j.slab < len(j.slabs) || j.run_ < len(j.runs) {
		return false
	}
	j.h.trimmed.Store(j)
	return true
}

// takeTrimmed lists what a trim has emptied as clean. The parts of pages at a run's ends were not given back: they stay dirty.
func (h *Heap) takeTrimmed(j *trimJob) {
	h.trimmed.Store(nil)
	for _, i := range slices.Backward(j.slabs) { // so that low addresses are used first
		slabAt(i).state = slabClean
		h.slabs.clean.push(i)
	}
	const perPage = osPage / RunUnit
	for _, run := range j.runs {
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
	h.trim.out = false
}
