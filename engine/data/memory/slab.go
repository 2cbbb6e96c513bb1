package memory

import (
	"errors"
	"sync"

	"spindle/internal/invariant"
)

// A slab is 64 KB cut into blocks of one class. Its record lies in a table outside the region, indexed by Ref>>16.
//
//	region   |  slab 0  |  slab 1: block 0 | block 1 | block 2 | ... | rest  |  slab 2  | ...      Ref>>16 = slab number
//	                          └─ a free block's first word names the next free one (offset/8), or noBlock
//
// memory.S1. live is the number of blocks that Alloc returned and that are not back on the list free. A block freed by
// a reclaimer counts until it is drained.
// memory.S2. Blocks on the lists free and remote are below carved. Each is on one of the two lists, once.
// memory.S3. remote's queued bit is set exactly while the slab is on the heap's stack or in its pending chain.
type slab struct {
	remote   uint64 // atomic; blocks freed by reclaimers: head, tail, count, queued bit (remote.go)
	pendNext uint32 // next on the stack of slabs with remote frees
	next     uint32 // neighbours in the list the slab is in; 0 is none
	prev     uint32
	size     uint32 // of a block
	free     uint16 // first free block, as offset/8
	carved   uint16 // blocks allocated at least once since carving last began
	live     uint16
	cap      uint16 // blocks that fit
	class    uint8
	state    uint8
	holes    uint16 // pages given back to the kernel, a bit each (punch.go)
	seen     uint16 // live at the last sweep
	punching bool   // a reclaimer is giving some of its pages back
	_        [21]byte
}

const (
	slabShift = 16
	slabSize  = 1 << slabShift
	noBlock   = 0xFFFF
	osPage    = 4096
)

// The states of a slab (memory.H3).
const (
	slabUnborn   = iota
	slabCurrent  // its bin allocates from it
	slabPartial  // in its bin's list, with free blocks
	slabFull     // in no list
	slabDirty    // empty, its pages resident
	slabClean    // empty, its pages given back
	slabTrimming // empty; a reclaimer is giving its pages back
	slabTouching // empty; a reclaimer is touching its pages (touch.go)
	slabLeaving  // in no list: its blocks are being moved elsewhere (evacuate.go)
)

// noSlab stands for "no current slab". It has no free block, so Alloc never allocates from it.
var noSlab = slab{free: noBlock}

// A bin serves one class. It allocates from its current slab, then from its partial slabs, then from new ones.
type bin struct {
	current *slab
	base    Ref // of current
	size    uint32
	number  uint32 // of current
	partial uint32 // head of the list
	slabs   int32  // all of this class
	live    int64  // live blocks; those freed by reclaimers count until drained
}

// ErrExhausted means that the system refused memory, or that the reserved region is full.
var ErrExhausted = errors.New("memory: no more memory: the system refused to map more, or the reserved region is full")

// slabSupply is the supply of empty slabs, from which bins take slabs and to which they return them.
type slabSupply struct {
	dirty    slabList // newest first
	clean    slabList
	next     uint32 // next..end are unborn slabs of the newest segment, used when none is warm
	end      uint32
	segments []uint32
	born     int64
}

// slabList is a list of slabs, linked through their fields next and prev.
type slabList struct {
	head, tail uint32
	n          int64
}

func (l *slabList) push(i uint32) {
	s := slabAt(i)
	s.next, s.prev = l.head, 0
	if l.head != 0 {
		slabAt(l.head).prev = i
	} else {
		l.tail = i
	}
	l.head = i
	l.n++
}

func (l *slabList) remove(i uint32) {
	s := slabAt(i)
	if s.prev != 0 {
		slabAt(s.prev).next = s.next
	} else {
		l.head = s.next
	}
	if s.next != 0 {
		slabAt(s.next).prev = s.prev
	} else {
		l.tail = s.prev
	}
	l.n--
}

// allocSlow makes a slab with a free block the current slab of b, and allocates from it.
func (h *Heap) allocSlow(b *bin, p Purpose) Ref {
	class := uint8(classFit[b.size>>3])
	if s := b.current; s != &noSlab {
		if h.takeRemote(s, b.number, true) > 0 { // reclaimers freed some blocks: the slab stays current
			return h.Alloc(int(b.size), p)
		}
		if s.holes != 0 && !s.punching {
			h.refill(s, b.number)
			return h.Alloc(int(b.size), p)
		}
		s.state = slabFull
	}
	i := b.partial
	if i != 0 {
		h.unlinkPartial(b, i)
	} else {
		i = h.newSlab()
		s := slabAt(i)
		s.size, s.class, s.cap = b.size, class, uint16(slabSize/b.size)
		s.free, s.carved, s.live = noBlock, 0, 0
		b.slabs++
		if invariant.Enabled {
			debugSlab(i, s)
		}
	}
	s := slabAt(i)
	s.state = slabCurrent
	b.current, b.number, b.base = s, i, Ref(i)<<slabShift
	return h.Alloc(int(b.size), p)
}

// newSlab returns an empty slab. If no warm slab is left, this turn will be the first to touch the slab's pages.
func (h *Heap) newSlab() uint32 {
	u := &h.slabs
	h.touch.wanted, h.trim.calm = true, 0
	if i := u.dirty.head; i != 0 {
		u.dirty.remove(i)
		h.trim.slabs.note(u.reclaimable())
		return i
	}
	// The first touch of a clean slab may bring in a huge page, which makes a long turn on some machines. While a view
	// is open, turns copy much in a short time. So they use unborn slabs, which come in by small pages.
	if i := u.clean.head; i != 0 && (len(h.holds) == 0 || u.next == u.end) {
		u.clean.remove(i)
		return i
	}
	if u.next == u.end {
		if u.end != 0 {
			h.touch.small = append(h.touch.small, u.end-slabSegment)
		}
		first, short, err := takeSlabs()
		if err != nil {
			panic(errors.Join(ErrExhausted, err))
		}
		h.short.slabs = short
		u.segments = append(u.segments, first)
		u.next, u.end = first, first+slabSegment
	}
	i := u.next
	u.next++
	u.born++
	return i
}

// relist moves a slab that is not current to the right list, after blocks of it were freed.
func (h *Heap) relist(s *slab, i uint32) {
	b := &h.bins[s.class]
	switch {
	case s.state != slabPartial && s.state != slabFull && s.state != slabLeaving:
		return
	case s.live == 0 && !s.punching:
		switch s.state {
		case slabPartial:
			h.unlinkPartial(b, i)
		case slabLeaving:
			h.evac.leaving--
			h.evac.emptied += slabSize
		}
		b.slabs--
		h.fillHoles(s, i, s.holes)
		s.state = slabDirty
		h.slabs.dirty.push(i)
	case s.state == slabFull && (s.free != noBlock || s.holes != 0 && !s.punching):
		h.linkPartial(s, i)
	}
}

// linkPartial adds a slab to its bin's partial list.
func (h *Heap) linkPartial(s *slab, i uint32) {
	b := &h.bins[s.class]
	s.state = slabPartial
	s.prev, s.next = 0, b.partial
	if b.partial != 0 {
		slabAt(b.partial).prev = i
	}
	b.partial = i
}

func (h *Heap) unlinkPartial(b *bin, i uint32) {
	s := slabAt(i)
	if s.prev != 0 {
		slabAt(s.prev).next = s.next
	} else {
		b.partial = s.next
	}
	if s.next != 0 {
		slabAt(s.next).prev = s.prev
	}
}

// region gives segments of address space to heaps. Its lock is held briefly, once per segment.
var region struct {
	sync.Mutex
	nextSlab  uint32 // the first slab never handed out; slab 0 is skipped because it would begin at Nil
	nextUnit  uint32
	freeSlabs []uint32 // segments of closed heaps
}

// takeSlabs returns the first of slabSegment neighbouring slabs. short means that no headroom is left after them.
func takeSlabs() (first uint32, short bool, err error) {
	region.Lock()
	defer region.Unlock()
	if n := len(region.freeSlabs); n > 0 {
		first = region.freeSlabs[n-1]
		region.freeSlabs = region.freeSlabs[:n-1]
		return first, false, nil
	}
	if region.nextSlab == 0 {
		region.nextSlab = slabSegment
	}
	if err = openSlabs(region.nextSlab, slabSegment); err != nil {
		return 0, true, err
	}
	short = !canOpenSlabs(region.nextSlab+slabSegment, headroom/slabSize)
	first = region.nextSlab
	region.nextSlab += slabSegment
	if invariant.Enabled {
		debugSegment(first)
	}
	return first, short, nil
}

// takeUnits returns the first of n neighbouring run units. joined means that they directly follow the unit before end.
// short means that no headroom is left after them.
func takeUnits(n, end uint32) (first uint32, joined, short bool, err error) {
	region.Lock()
	defer region.Unlock()
	if err = openUnits(region.nextUnit, n); err != nil {
		return 0, false, true, err
	}
	first = region.nextUnit
	region.nextUnit += n
	short = !canOpenUnits(region.nextUnit, headroom/RunUnit)
	return first, contiguous && end != 0 && first == end, short, nil
}
