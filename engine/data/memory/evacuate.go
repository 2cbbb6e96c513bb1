package memory

// Slabs of which little is used are emptied: whoever knows where their blocks are reached from copies those elsewhere
// (active defragmentation). The heap chooses the slabs, a slice of records at a time, and keeps them from being
// allocated from meanwhile.
//
//	Evacuate ──▶ counting: how much lives in slabs that are so full ──▶ choosing: the thinnest leave their lists
//	         ──▶ moving: Leaves tells the blocks, the caller moves them ──▶ EndEvacuation
//	         ──▶ returning: what is left is listed again
//
// memory.V1. A leaving slab is in no list. Nothing is allocated from it. Its last free makes it dirty, like any other.
// memory.V2. What lives in all leaving slabs is at most an eighth of what is resident: so much more memory the moving
// takes at most, before it gives any back.
// memory.V3. Punched slabs take part; a slab whose pages are with a reclaimer does not.
type evacuation struct {
	phase   Evacuating
	segment int // where to go on
	slab    uint32
	least   int64          // bytes that must come of it
	live    [octiles]int64 // by how full slabs are: bytes that live in them
	waste   [octiles]int64 // and bytes that are resident beside those
	below   int            // slabs less full than so many eighths leave
	emptied int64          // bytes of slabs that the last evacuation emptied
	leaving int64          // slabs
}

// Evacuating is how far an evacuation is.
type Evacuating uint8

// The phases of an evacuation.
const (
	EvacuationOver Evacuating = iota
	evacuationCounts
	evacuationChooses
	EvacuationMoves // the caller's turn: EndEvacuation ends it
	evacuationReturns
)

const (
	octiles     = 8
	fullest     = 6    // eighths: fuller slabs stay as they are
	evacRecords = 1024 // slabs looked at in one step: some 10 µs, more when their records are cold
)

// Scattered is how many bytes of the slabs in use are resident and free, and how many bytes live in slabs. O(classes).
func (h *Heap) Scattered() (free, live int64) {
	for c := range h.bins {
		b := &h.bins[c]
		live += b.live * int64(b.size)
		free += int64(b.slabs) << slabShift
	}
	return free - live - h.trim.holes*osPage, live
}

// Evacuate begins to empty thin slabs, if at least so many bytes can be gained; with a least of 0, every slab, for
// tests of who moves blocks. StepEvacuation goes on with it. Without one under way only.
func (h *Heap) Evacuate(least int64) {
	h.evac = evacuation{phase: evacuationCounts, least: least}
}

// Evacuation is how far the evacuation is.
func (h *Heap) Evacuation() Evacuating { return h.evac.phase }

// Leaves says that the block at r lies in a slab that is being emptied.
func (h *Heap) Leaves(r Ref) bool {
	return r < runBase && slabAt(uint32(r>>slabShift)).state == slabLeaving
}

// Emptied is how many bytes of slabs the last evacuation has emptied so far.
func (h *Heap) Emptied() int64 { return h.evac.emptied }

// StepEvacuation does some microseconds of what the heap has to do, and answers how far it is then.
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

// leaveAnyhow empties a slab in use, however full it is.
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

// octile is how full a slab is, in eighths, rounded down.
func (s *slab) octile() int { return min(int(s.live)*octiles/int(s.cap), octiles-1) }

// holeBytes is how much of a slab is given back.
func (s *slab) holeBytes() (n int64) {
	for x := s.holes; x != 0; x &= x - 1 {
		n += osPage
	}
	return n
}

// nextPhase is what follows when all records have been looked at.
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

// EndEvacuation says that the caller has moved what it could, or will not go on. What was emptied may be given back at
// once: nobody needed it for long.
func (h *Heap) EndEvacuation() {
	h.evac.phase, h.evac.segment, h.evac.slab = evacuationReturns, 0, 0
	h.trim.slabs.idle = h.slabs.reclaimable()
}

// unleave lists a slab again that was not emptied.
func (h *Heap) unleave(s *slab, i uint32) {
	h.evac.leaving--
	s.state = slabFull
	if s.free != noBlock || s.carved < s.cap || s.holes != 0 && !s.punching {
		h.linkPartial(s, i)
	}
}
