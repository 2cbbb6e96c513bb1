package memory

import (
	"math/bits"

	"spindle/internal/invariant"
)

// When most blocks of many slabs are freed, few slabs are empty, but many of their pages are. A sweep gives back such
// pages.
//
//	slab     | page 0  | page 1  | page 2  | page 3  | …        L live, f free and on the list, . free and in a hole
//	blocks   | L | f | . . . . . . . | f | L | f | L |
//	holes         0         1         0         0
//
// The turn finds the pages and takes their blocks off the free list. A reclaimer gives the pages back (trim.go,
// memory.T1). When the slab has no other free block left, the turn puts the blocks of one hole back on the free list.
// Their first use brings the page back.
//
// memory.P1. Every block that touches a hole is free and on no list. Only slab records lead to blocks in holes, because
// the links in the blocks are lost.
// memory.P2. trim.holes is the number of holes in all slabs.
// memory.P3. While punching is set, a slab stays in use even if no block in it is live, and no block in a hole is
// listed.
// memory.P4. A sweep skips slabs whose number of live blocks has changed since the previous sweep. A purge does not.
type sweep struct {
	on, all bool // all means that a purge began the sweep
	segment int  // segment and slab are the next record to visit
	slab    uint32
}

type hole struct {
	slab  uint32
	pages uint16
}

const (
	slabPages    = slabSize / osPage
	holeLeast    = 256  // bytes; a page holds so many smaller blocks that hardly any page is empty
	sweepRecords = 2048 // slabs visited in one turn, which takes some 10 µs
	sweepBlocks  = 512  // blocks of punched slabs in one turn: at most as many cache misses
)

// pagesOf returns the set of pages that block k touches, one bit per page.
func (s *slab) pagesOf(k int) uint16 {
	from, to := k*int(s.size)/osPage, (k*int(s.size)+int(s.size)-1)/osPage
	return uint16(1<<(to+1) - 1<<from)
}

// blocksOf returns the first and the last block that touch page.
func (s *slab) blocksOf(page int) (first, last int) {
	return page * osPage / int(s.size), min((page*osPage+osPage-1)/int(s.size), int(s.cap)-1)
}

// holey reports whether enough of the slabs in use is free to make a sweep worthwhile.
func (h *Heap) holey() bool {
	var all, live int64
	for c := range h.bins {
		if b := &h.bins[c]; b.size >= holeLeast {
			all += int64(b.slabs) << slabShift
			live += b.live * int64(b.size)
		}
	}
	free := all - live - h.trim.holes*osPage
	return free > 2*h.warm() && free > live/4
}

// sweepOn does the next part of a sweep. It reports whether it found pages to give back.
func (h *Heap) sweepOn() bool {
	w, j := &h.trim.sweep, &h.trim.job
	if !w.on || h.trim.out {
		return false
	}
	blocks := 0
	for records := 0; records < sweepRecords && blocks < sweepBlocks; records++ {
		if w.slab == slabSegment {
			w.segment, w.slab = w.segment+1, 0
		}
		if w.segment >= len(h.slabs.segments) {
			w.on = false
			break
		}
		i := h.slabs.segments[w.segment] + w.slab
		w.slab++
		s := slabAt(i)
		if s.state != slabPartial || s.size < holeLeast || s.punching || int(s.carved-s.live)*int(s.size) < osPage {
			continue
		}
		quiet := s.seen == s.live
		s.seen = s.live
		if quiet || w.all {
			blocks += int(s.carved)
			if pages := h.punch(s, i); pages != 0 {
				j.holes = append(j.holes, hole{i, pages})
			}
		}
	}
	return len(j.holes) > 0
}

// punch takes the blocks of a partial slab's empty pages off its free list, and returns those pages.
func (h *Heap) punch(s *slab, i uint32) (pages uint16) {
	var free [slabSize / holeLeast / 64]uint64
	base := Ref(i) << slabShift
	for at := s.free; at != noBlock; at = uint16(*Word(base + Ref(at)<<3)) {
		k := int(at) << 3 / int(s.size)
		free[k>>6] |= 1 << (k & 63)
	}
	for page := range slabPages {
		first, last := s.blocksOf(page)
		empty := s.holes>>page&1 == 0 && first <= last && last < int(s.carved)
		for k := first; k <= last && empty; k++ {
			empty = free[k>>6]>>(k&63)&1 != 0 || s.pagesOf(k)&s.holes != 0
		}
		if empty {
			pages |= 1 << page
		}
	}
	if pages == 0 {
		return 0
	}
	s.holes |= pages
	h.trim.holes += int64(bits.OnesCount16(pages))
	s.free = noBlock
	for k := int(s.carved) - 1; k >= 0; k-- { // the lowest end up first
		if free[k>>6]>>(k&63)&1 != 0 && s.pagesOf(k)&s.holes == 0 {
			s.list(base, k)
		}
	}
	s.punching = true
	if s.free == noBlock && s.carved == s.cap {
		h.unlinkPartial(&h.bins[s.class], i)
		s.state = slabFull
	}
	return pages
}

// list puts block k of the slab at base on the slab's free list.
func (s *slab) list(base Ref, k int) {
	off := k * int(s.size)
	*Word(base + Ref(off)) = uint64(s.free)
	s.free = uint16(off >> 3)
}

// giveBack returns the hole's pages to the kernel, on a reclaimer. It returns the number of kernel calls.
func (o hole) giveBack() (calls int) {
	for left := o.pages; left != 0; calls++ {
		from := bits.TrailingZeros16(left)
		n := bits.TrailingZeros16(^(left >> from))
		giveBack(Ref(o.slab)<<slabShift+Ref(from*osPage), n*osPage)
		left &^= uint16(1<<(from+n) - 1)
	}
	return calls
}

// punched ends the punching of slab i (memory.P3).
func (h *Heap) punched(i uint32) {
	s := slabAt(i)
	s.punching = false
	h.relist(s, i)
}

// refill puts the blocks of one of the slab's holes back on the free list, or of several holes until there is a free
// block.
func (h *Heap) refill(s *slab, i uint32) {
	base := Ref(i) << slabShift
	h.trim.calm = 0
	for s.free == noBlock {
		page := bits.TrailingZeros16(s.holes)
		invariant.That(page < slabPages, "memory.P1: slab %d has no hole", i)
		h.fillHoles(s, i, 1<<page)
		first, last := s.blocksOf(page)
		for k := last; k >= first; k-- {
			if s.pagesOf(k)&s.holes == 0 {
				s.list(base, k)
			}
		}
	}
}

// fillHoles marks pages of slab i as no longer given back.
func (h *Heap) fillHoles(s *slab, i uint32, pages uint16) {
	if invariant.Enabled {
		debugHoles(s, i, pages)
	}
	h.trim.holes -= int64(bits.OnesCount16(pages))
	s.holes &^= pages
}
