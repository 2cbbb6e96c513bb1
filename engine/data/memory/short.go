package memory

// What becomes of a server that gets no more memory: the region is used up (an address-space limit makes it small), or
// the system refuses to make more of it usable (vm.overcommit_memory=2, RLIMIT_DATA).
//
// memory.M1. Behind the segments in use there is headroom in each half, made usable beforehand. Commands that run
// already live on it.
// memory.M2. When it cannot be had, Short says so until empty memory makes up for it. The core refuses commands that
// need memory meanwhile.
// memory.M3. What a client asks for by number, and not by sending it, is asked for with TryAlloc or after Affords.
// Alloc panics only when the headroom is gone too.
// memory.M4. The system's limit holds for the whole process, and the Go runtime ends it when no thread can be made. So
// memory is made usable only while there is some left for the Go heap and for threads.
type shortage struct {
	slabs, runs bool // the headroom behind them could not be had when it was last tried
}

// headroom is how much memory each half has beyond what is in use, in bytes.
const headroom = 16 << 20

// look tries again, now and then.
func (s *shortage) look() {
	if !s.slabs && !s.runs {
		return
	}
	region.Lock()
	defer region.Unlock()
	s.slabs = s.slabs && !canOpenSlabs(region.nextSlab, headroom/slabSize)
	s.runs = s.runs && !canOpenUnits(region.nextUnit, headroom/RunUnit)
}

// Short says that memory is about to run out (memory.M2). A few loads.
func (h *Heap) Short() bool {
	return h.short.slabs && h.smallLeft() < headroom ||
		h.short.runs && (h.runs.left() < headroom || !h.runs.has(longRun/RunUnit))
}

// longRun is how long a run commands find while memory is not short, in bytes: longer ones are asked for (memory.M3).
const longRun = 1 << 20

// has says that a run of so many units is free.
func (u *runSupply) has(units uint32) bool {
	return u.dirty.find(units) != 0 || u.clean.find(units) != 0
}

// openHeadroom makes the first headroom usable (memory.M1), before anything is in use.
func openHeadroom() {
	region.Lock()
	defer region.Unlock()
	canOpenSlabs(max(region.nextSlab, slabSegment), headroom/slabSize)
	canOpenUnits(region.nextUnit, headroom/RunUnit)
}

// smallLeft is the bytes of empty slabs.
func (h *Heap) smallLeft() int64 {
	u := &h.slabs
	return (u.dirty.n + u.clean.n + int64(u.end-u.next)) << slabShift
}

// left is the bytes of free runs that are more than crumbs.
func (u *runSupply) left() int64 {
	return (u.dirty.units - u.dirty.crumbs + u.clean.units - u.clean.crumbs) << runShift
}

// TryAlloc is Alloc of what a client has asked for by number (memory.M3): an error instead of a panic when memory for
// it cannot be had.
func (h *Heap) TryAlloc(n int, p Purpose) (Ref, error) {
	if !h.Affords(n) {
		return 0, ErrExhausted
	}
	return h.Alloc(n, p), nil
}

// Affords says that n bytes can be had in blocks above MaxSmall, one or several, beside the headroom. It may take
// address space for them.
func (h *Heap) Affords(n int) bool {
	if h.Short() || n < 0 || uint64(n) > uint64(regionEnd-runBase) {
		return false
	}
	if n <= longRun {
		return true
	}
	units := uint32((n + RunUnit - 1) >> runShift)
	return h.runs.has(units) || h.growRuns(units) == nil
}

// AffordsSmall says that n bytes can be had in blocks up to MaxSmall, beside the headroom.
func (h *Heap) AffordsSmall(n int) bool {
	if h.Short() {
		return false
	}
	missing := int64(n) - h.smallLeft()
	if n <= headroom/4 || missing <= 0 {
		return true
	}
	if missing > int64(runBase) {
		return false
	}
	region.Lock()
	defer region.Unlock()
	return canOpenSlabs(region.nextSlab, uint32(missing>>slabShift)+headroom/slabSize)
}
