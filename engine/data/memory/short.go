package memory

// A server can fail to get more memory. Either the region is used up (an address-space limit makes it small), or the
// system refuses to make more of it usable (vm.overcommit_memory=2, RLIMIT_DATA).
//
// memory.M1. After the segments in use, each half has headroom that was made usable early. Commands that are already
// running allocate from it.
// memory.M2. When there is no headroom, Short is true until there is enough empty memory instead. While Short is true,
// the core refuses commands that need memory.
// memory.M3. When a client names a size without sending the bytes, the code uses TryAlloc, or Alloc after Affords.
// Alloc panics only when the headroom is used up too.
// memory.M4. The system's limit holds for the whole process, and the Go runtime exits when it cannot start a thread. So
// memory is made usable only while some is left for the Go heap and for threads.
type shortage struct {
	slabs, runs bool // at the last try, no headroom could be opened after their segments
}

// headroom is how many usable bytes each half has in addition to those in use.
const headroom = 16 << 20

// look tries again to open headroom, if it is missing. Age calls it.
func (s *shortage) look() {
	if !s.slabs && !s.runs {
		return
	}
	region.Lock()
	defer region.Unlock()
	s.slabs = s.slabs && !canOpenSlabs(region.nextSlab, headroom/slabSize)
	s.runs = s.runs && !canOpenUnits(region.nextUnit, headroom/RunUnit)
}

// Short reports whether memory is about to run out (memory.M2). It costs a few loads.
func (h *Heap) Short() bool {
	return h.short.slabs && h.smallLeft() < headroom ||
		h.short.runs && (h.runs.left() < headroom || !h.runs.has(longRun/RunUnit))
}

// longRun is the longest run, in bytes, that is surely free while memory is not short. Code that needs a longer run
// follows memory.M3.
const longRun = 1 << 20

// has reports whether a run of at least units units is free.
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

// smallLeft returns the bytes of all empty slabs.
func (h *Heap) smallLeft() int64 {
	u := &h.slabs
	return (u.dirty.n + u.clean.n + int64(u.end-u.next)) << slabShift
}

// left returns the bytes of all free runs except crumbs.
func (u *runSupply) left() int64 {
	return (u.dirty.units - u.dirty.crumbs + u.clean.units - u.clean.crumbs) << runShift
}

// TryAlloc is Alloc for a size that a client named (memory.M3). It returns an error when memory is missing, instead of
// a panic.
func (h *Heap) TryAlloc(n int, p Purpose) (Ref, error) {
	if !h.Affords(n) {
		return 0, ErrExhausted
	}
	return h.Alloc(n, p), nil
}

// Affords reports whether n bytes are available in blocks above MaxSmall, as one block or several, without using the
// headroom. It may reserve address space for them.
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

// AffordsSmall reports whether n bytes are available in blocks up to MaxSmall, without using the headroom.
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
