package memory

// Slabs with little in use are emptied (active defragmentation). The caller copies their blocks elsewhere, because it
// knows what refers to each. The heap chooses the slabs, some records in each step. It allocates nothing from them
// meanwhile.
//
//	Evacuate ──▶ counting: how much lives in slabs that are so full ──▶ choosing: the thinnest leave their lists
//	         ──▶ moving: Leaves tells the blocks, the caller moves them ──▶ EndEvacuation
//	         ──▶ returning: what is left is listed again
//
// memory.V1. A leaving slab is in no list. Nothing is allocated from it. Its last free makes it dirty, like any other
// slab.
// memory.V2. The live bytes of all leaving slabs are at most an eighth of the resident bytes. So the moves take at most
// that much memory before they give any back.
// memory.V3. Punched slabs take part. A slab whose pages are with a reclaimer does not.
type evacuation struct {
	phase   Evacuating
	segment int // segment and slab are the next record to visit
	slab    uint32
	least   int64          // bytes that it must gain
	live    [octiles]int64 // the live bytes of slabs, by how full they are
	waste   [octiles]int64 // the resident free bytes of slabs, by how full they are
	below   int            // slabs that are less than below/octiles full are emptied
	emptied int64          // bytes of slabs that the last evacuation emptied
	leaving int64          // slabs
}

// Evacuating is the phase of an evacuation.
type Evacuating uint8

// The phases of an evacuation.
const (
	EvacuationOver Evacuating = iota
	evacuationCounts
	evacuationChooses
	EvacuationMoves // the caller moves blocks; EndEvacuation ends it
	evacuationReturns
)

const (
	octiles     = 8
	fullest     = 6    // slabs with at least this many eighths in use are never emptied
	evacRecords = 1024 // slabs visited in one step, which takes some 10 µs, or more if their records are not cached
)

// Scattered returns how many bytes of the slabs in use are resident and free, and how many are live. O(classes).
func (h *Heap) Scattered() (free, live int64) {
	for c := range h.bins {
		b := &h.bins[c]
		live += b.live * int64(b.size)
		free += int64(b.slabs) << slabShift
	}
	return free - live - h.trim.holes*osPage, live
}

// Evacuate begins to empty slabs with few live blocks, if that can gain at least least bytes. With least 0 it empties
// every slab, for tests of callers that move blocks. StepEvacuation continues it. No other evacuation may be under way.
func (h *Heap) Evacuate(least int64) {
	h.evac = evacuation{phase: evacuationCounts, least: least}
}

// Evacuation returns the phase of the evacuation.
func (h *Heap) Evacuation() Evacuating { return h.evac.phase }

// Leaves reports whether the block at r lies in a slab that is being emptied.
func (h *Heap) Leaves(r Ref) bool {
	return r < runBase && slabAt(uint32(r>>slabShift)).state == slabLeaving
}

// Emptied returns how many bytes of slabs the last evacuation has emptied so far.
func (h *Heap) Emptied() int64 { return h.evac.emptied }

// StepEvacuation continues the heap's part of an evacuation for some microseconds, and returns the phase reached.
func (h *Heap) StepEvacuation() Evacuating {
	e := &h.evac
	if e.phase == EvacuationOver || e.phase == EvacuationMoves {
		return e.phase
	}
	for range evacRecords {
		if e.slab == slabSegment {
			e.segment, e.slab = e.segment+1, 0
		}
		if e.segment >= len(h.slabs.segments) {
			e.segment, e.slab = 0, 0
			h.nextPhase()
			break
		}
		i := h.slabs.segments[e.segment] + e.slab
		e.slab++
		s := slabAt(i)
		switch {
		case e.phase == evacuationReturns && s.state == slabLeaving:
			h.unleave(s, i)
		case e.phase == evacuationChooses && e.least == 0:
			h.leaveAnyhow(s, i)
		case e.phase == evacuationReturns || s.state != slabPartial || s.punching:
		case e.phase == evacuationCounts:
			at := s.octile()
			live := int64(s.live) * int64(s.size)
			e.live[at] += live
			e.waste[at] += slabSize - s.holeBytes() - live
		case e.phase == evacuationChooses && s.octile() < e.below:
			h.unlinkPartial(&h.bins[s.class], i)
			s.state = slabLeaving
			e.leaving++
		}
	}
	return e.phase
}

// leaveAnyhow starts emptying a slab in use, however full it is.
func (h *Heap) leaveAnyhow(s *slab, i uint32) {
	b := &h.bins[s.class]
	switch {
	case s.state < slabCurrent || s.state > slabFull || s.punching || s.live == 0:
		return
	case s.state == slabPartial:
		h.unlinkPartial(b, i)
	case s.state == slabCurrent:
		b.current, b.number, b.base = &noSlab, 0, 0
	}
	s.state = slabLeaving
	h.evac.leaving++
}

// octile returns how full a slab is, in eighths, rounded down.
func (s *slab) octile() int { return min(int(s.live)*octiles/int(s.cap), octiles-1) }

// holeBytes returns how many bytes of a slab have been given back to the kernel.
func (s *slab) holeBytes() (n int64) {
	for x := s.holes; x != 0; x &= x - 1 {
		n += osPage
	}
	return n
}

// nextPhase starts the next phase, after all slab records have been visited.
func (h *Heap) nextPhase() {
	e := &h.evac
	switch e.phase {
	case evacuationCounts:
		var moved, gained int64
		most := max(h.active()/octiles, h.options.Warm) // memory.V2
		for e.below < fullest && moved+e.live[e.below] <= most {
			moved += e.live[e.below]
			gained += e.waste[e.below]
			e.below++
		}
		if e.phase = evacuationChooses; gained < e.least {
			e.phase = EvacuationOver
		}
	case evacuationChooses:
		e.phase = EvacuationMoves
	case evacuationReturns:
		e.phase = EvacuationOver
	}
}

// EndEvacuation is called when the caller has moved the blocks that it could, or gives up. The emptied slabs may be
// given back at once, without waiting for a period to end.
func (h *Heap) EndEvacuation() {
	h.evac.phase, h.evac.segment, h.evac.slab = evacuationReturns, 0, 0
	h.trim.slabs.idle = h.slabs.reclaimable()
}

// unleave puts a slab that was not emptied back into its list.
func (h *Heap) unleave(s *slab, i uint32) {
	h.evac.leaving--
	s.state = slabFull
	if s.free != noBlock || s.carved < s.cap || s.holes != 0 && !s.punching {
		h.linkPartial(s, i)
	}
}
