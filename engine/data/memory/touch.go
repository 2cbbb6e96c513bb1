package memory

import (
	"slices"
	"sync/atomic"
)

// Memory is touched for the first time by a reclaimer where that can be had, not by a turn: clearing a huge page takes 0.2 ms, and up to
// 8 ms on a virtual machine whose host has to find the memory; a small page takes some 2 us there.
//
//	newSlab takes   warm slabs (dirty list) ─ none left ─▶ clean or unborn ones: the turn touches them, unborn ones by small pages
//	touchJob gives  clean or unborn slabs ──▶ a reclaimer asks for huge pages and touches them ──▶ takeTouched: the dirty list
//
// W1. At most one job is out; its slabs from taken on are on no list and in the state slabTouching.
// W2. Slabs are touched ahead only after newSlab has taken one, while less than the warm reserve is left, 4 MB at a
// time: below what a trim takes away (T2), so that the two do not work against each other. A heap at rest does not grow.
type touchState struct {
	job    touchJob
	taken  int      // of job.slabs, those that are on the dirty list
	out    bool     // the job has not come to its end
	wanted bool     // newSlab has taken a slab since the reserve was last looked at
	small  []uint32 // segments full of small pages: the kernel may join them
}

type touchJob struct {
	slabs []uint32
	small []uint32
	done  atomic.Int64 // of slabs, those whose pages are there
	step  func(budget int) bool
}

const touchPiece = 2 << 20 / slabSize // slabs touched by one call to the kernel: a huge page

// touchJob gives a job that makes empty memory warm, or nil.
func (h *Heap) touchJob() func(budget int) bool {
	t := &h.touch
	if !t.wanted && len(t.small) == 0 || t.out {
		return nil
	}
	j := &t.job
	j.slabs, j.small, t.taken = j.slabs[:0], append(j.small[:0], t.small...), 0
	t.small = t.small[:0]
	j.done.Store(0)
	u := &h.slabs
	if u.dirty.n<<slabShift >= min(h.warm(), h.Used()) {
		t.wanted = false
	} else if u.clean.n > 0 {
		for u.clean.n > 0 && len(j.slabs) < slabSegment {
			i := u.clean.head
			u.clean.remove(i)
			j.slabs = append(j.slabs, i)
		}
	} else if first, err := takeSlabs(); err == nil { // an error shows again when the memory is needed
		u.segments = append(u.segments, first)
		u.born += slabSegment
		for i := range uint32(slabSegment) {
			j.slabs = append(j.slabs, first+i)
		}
	}
	if len(j.slabs) == 0 && len(j.small) == 0 {
		return nil
	}
	for _, i := range j.slabs {
		slabAt(i).state = slabTouching
	}
	t.out = true
	return j.step
}

// run touches slabs, on a reclaimer, a call to the kernel each time.
func (j *touchJob) run(int) (done bool) {
	at := int(j.done.Load())
	if at == 0 {
		for _, first := range j.small {
			preferHuge(Ref(first)<<slabShift, slabSegment*slabSize)
		}
		slices.Sort(j.slabs)
	}
	if at < len(j.slabs) {
		n := 1
		for at+n < len(j.slabs) && j.slabs[at+n] == j.slabs[at]+uint32(n) && n < touchPiece-int(j.slabs[at])%touchPiece {
			n++
		}
		r := Ref(j.slabs[at]) << slabShift
		preferHuge(r, n*slabSize)
		populate(r, n*slabSize)
		at += n
	}
	if done = at == len(j.slabs); done {
		at++ // says that the job has come to its end
	}
	j.done.Store(int64(at)) // the turn may use the job anew from here on
	return done
}

// takeTouched lists what the job has made warm.
func (h *Heap) takeTouched() {
	t := &h.touch
	if !t.out {
		return
	}
	done := int(t.job.done.Load())
	for n := min(done, len(t.job.slabs)); t.taken < n; t.taken++ {
		i := t.job.slabs[t.taken]
		slabAt(i).state = slabDirty
		h.slabs.dirty.push(i)
	}
	t.out = done <= len(t.job.slabs)
}
