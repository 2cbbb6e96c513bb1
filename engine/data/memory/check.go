package memory

import (
	"fmt"
	"math/bits"
	"sync/atomic"
)

// Check returns an error if the heap breaks one of its rules: memory.H2 and memory.H3, memory.S1 and memory.S2,
// memory.R1 to memory.R3. It costs O(slabs + blocks on free lists + runs), and is for tests. Reclaimers may have freed
// blocks not yet drained, but none may be freeing now.
func (h *Heap) Check() error {
	lag, err := h.checkSlabs()
	if err != nil {
		return err
	}
	returned, err := h.checkRuns()
	if err != nil {
		return err
	}
	all := h.runs.liveUnits << runShift
	for c := range h.bins {
		all += h.bins[c].live * int64(h.bins[c].size)
	}
	if used := h.Used(); used > all || used < all-lag-returned {
		return fmt.Errorf("memory.H2: %d bytes used, %d alive of which reclaimers have returned %d", used, all, lag+returned)
	}
	return nil
}

// checkSlabs checks all slabs. lag is the number of bytes that reclaimers have freed and the turn has not yet drained.
func (h *Heap) checkSlabs() (lag int64, err error) {
	var states [slabLeaving + 1]int64
	var live [numClasses]int64
	var slabs [numClasses]int32
	var holes int64
	for _, first := range h.slabs.segments {
		for i := first; i < first+slabSegment; i++ {
			s := slabAt(i)
			states[s.state]++
			if (s.state < slabCurrent || s.state > slabFull) && s.state != slabLeaving {
				continue
			}
			remote := int64(atomic.LoadUint64(&s.remote) >> 32 & 0xFFFF)
			lag += remote * int64(s.size)
			free, err := checkFree(s, i)
			if err != nil {
				return 0, err
			}
			holes += int64(bits.OnesCount16(s.holes))
			inHoles := 0
			for at := range int(s.carved) {
				if s.pagesOf(at)&s.holes != 0 {
					inHoles++
				}
			}
			if int(s.live)+free+inHoles != int(s.carved) {
				return 0, fmt.Errorf("memory.S1: slab %d: %d alive, %d free and %d in holes of %d",
					i, s.live, free, inHoles, s.carved)
			}
			if s.state == slabFull && (free > 0 || s.carved < s.cap || inHoles > 0 && !s.punching) {
				return 0, fmt.Errorf("memory.H3: slab %d counts as full and has blocks", i)
			}
			live[s.class] += int64(s.live)
			slabs[s.class]++
		}
	}
	if holes != h.trim.holes {
		return 0, fmt.Errorf("memory.P2: %d pages are holes, %d counted", holes, h.trim.holes)
	}
	var listed, current int64
	for c := range h.bins {
		b := &h.bins[c]
		if b.live != live[c] || b.slabs != slabs[c] {
			return 0, fmt.Errorf("memory.H3: class %d counts %d blocks in %d slabs, there are %d in %d",
				b.size, b.live, b.slabs, live[c], slabs[c])
		}
		if b.current != &noSlab {
			current++
		}
		for i, prev := b.partial, uint32(0); i != 0; i = slabAt(i).next {
			if s := slabAt(i); s.state != slabPartial || int(s.class) != c || s.prev != prev {
				return 0, fmt.Errorf("memory.H3: slab %d in the partial list of class %d", i, b.size)
			}
			prev = i
			listed++
		}
	}
	if states[slabLeaving] != h.evac.leaving || h.evac.leaving != 0 && h.evac.phase < evacuationChooses {
		return 0, fmt.Errorf("memory.V1: %d slabs leave in phase %d, %d counted",
			states[slabLeaving], h.evac.phase, h.evac.leaving)
	}
	if listed != states[slabPartial] || current != states[slabCurrent] {
		return 0, fmt.Errorf("memory.H3: %d partial slabs listed of %d, %d current of %d",
			listed, states[slabPartial], current, states[slabCurrent])
	}
	if h.slabs.dirty.n != states[slabDirty] || h.slabs.clean.n != states[slabClean] {
		return 0, fmt.Errorf("memory.H3: %d dirty and %d clean slabs listed, there are %d and %d",
			h.slabs.dirty.n, h.slabs.clean.n, states[slabDirty], states[slabClean])
	}
	if out := int64(len(h.trim.job.slabs)); h.trim.out && states[slabTrimming] != out ||
		!h.trim.out && states[slabTrimming] != 0 {
		return 0, fmt.Errorf("memory.T1: %d slabs under trim, %d in the job", states[slabTrimming], out)
	}
	if out := int64(len(h.touch.job.slabs) - h.touch.taken); states[slabTouching] != out {
		return 0, fmt.Errorf("memory.W1: %d slabs being touched, %d in the job", states[slabTouching], out)
	}
	return lag, nil
}

// checkFree counts the slab's free blocks and checks them (memory.S2).
func checkFree(s *slab, i uint32) (n int, err error) {
	for at := s.free; at != noBlock; n++ {
		off := uint32(at) << 3
		if off%s.size != 0 || off/s.size >= uint32(s.carved) || n > int(s.carved) || s.pagesOf(int(off/s.size))&s.holes != 0 {
			return 0, fmt.Errorf("memory.S2: slab %d of %d-byte blocks: free list at offset %d after %d steps",
				i, s.size, off, n)
		}
		at = uint16(*Word(Ref(i)<<slabShift + Ref(off)))
	}
	return n, nil
}

// checkRuns checks all runs. lag is the number of bytes of runs that reclaimers have freed and the turn has not yet
// drained.
func (h *Heap) checkRuns() (lag int64, err error) {
	var units, count [4]int64
	for _, seg := range h.runs.segments {
		before := uint32(0)
		for i := seg.first; i < seg.first+seg.count; {
			word := unitAt(i).word
			n, state := word>>unitShift, word&stateMask
			if n == 0 || state == 0 || i+n > seg.first+seg.count || unitAt(i+n-1).word != word {
				return 0, fmt.Errorf("memory.R1: run at unit %d: %d units in state %d", i, n, state)
			}
			if state != runUsed && state == before {
				return 0, fmt.Errorf("memory.R2: free runs of state %d meet at unit %d", state, i)
			}
			units[state] += int64(n)
			count[state]++
			before, i = state, i+n
		}
		units[runUsed] -= 2
		count[runUsed] -= 2
	}
	for _, x := range []*runIndex{&h.runs.dirty, &h.runs.clean} {
		listed, sum := int64(0), int64(0)
		for top := range x.heads {
			for sub, i := range x.heads[top] {
				if (i != 0) != (x.subs[top]>>sub&1 != 0) || (x.subs[top] != 0) != (x.tops>>top&1 != 0) {
					return 0, fmt.Errorf("memory.R3: bitmaps and list %d.%d disagree", top, sub)
				}
				for ; i != 0; i = unitAt(i).next {
					n := unitAt(i).word >> unitShift
					if t, s := sizeList(n); t != top || s != sub {
						return 0, fmt.Errorf("memory.R3: run of %d units in list %d.%d", n, top, sub)
					}
					listed++
					sum += int64(n)
				}
			}
		}
		if x.state != 0 && (listed != count[x.state] || sum != units[x.state] || x.units != sum) {
			return 0, fmt.Errorf("memory.R3: %d free runs of state %d with %d units listed, there are %d with %d",
				listed, x.state, sum, count[x.state], units[x.state])
		}
	}
	if units[runUsed] != h.runs.liveUnits+h.runs.trimUnits {
		return 0, fmt.Errorf("memory.R3: %d units used, %d counted alive and %d under trim",
			units[runUsed], h.runs.liveUnits, h.runs.trimUnits)
	}
	for _, r := range []Ref{h.returned, Ref(h.remoteRun.Load())} {
		for ; r != 0; r = Ref(*Word(r)) {
			lag += int64(UsableSize(r))
		}
	}
	return lag, nil
}
