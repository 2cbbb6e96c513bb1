package memory

import (
	"slices"
	"sync/atomic"
	"time"
)

// Memory is touched for the first time by a reclaimer where that can be had, not by a turn: clearing a huge page takes
// 0.2 ms, and up to 8 ms on a virtual machine whose host has to find the memory; a small page takes some 2 us there.
//
//	newSlab takes   warm slabs (dirty list) ─ none left ─▶ clean or unborn ones: the turn touches them,
//	                                                       unborn ones by small pages
//	touchJob gives  clean or unborn slabs ─▶ a reclaimer asks for huge pages, touches them ─▶ takeTouched: the dirty list
//
// memory.W1. At most one job is out; its slabs from taken on are on no list and in the state slabTouching.
// memory.W2. Slabs are touched ahead only after newSlab has taken one, a freeze has announced copies, or a purge has
// ended, while less than the reserve is left, 4 to 16 MB at a time: below what a trim takes away (memory.T2), so that
// the two do not work against each other. A heap at rest does not grow.
type touchState struct {
	job   touchJob
	taken int  // of job.slabs, those that are on the dirty list
	out   bool // the job has not come to its end
	// newSlab has taken a slab, a view was frozen or a purge has ended since the reserve was last looked at.
	wanted bool
	small  []uint32 // segments full of small pages: the kernel may join them
}

type touchJob struct {
	slabs []uint32
	small []uint32
	done  atomic.Int64 // of slabs, those whose pages are there
	step  func(budget int) bool
}

const (
	touchPiece = 2 << 20 / slabSize // slabs touched by one call to the kernel: a huge page
	// A reclaimer may have to wait long for the processor: it goes on as long as that, if pages come quickly.
	touchSlice = time.Millisecond
	touchMost  = 4 * slabSegment // slabs of one job
)

// reserve is the bytes that are to be warm: more while a view lives, because all that is written then is copied first,
// but a job's worth below what a trim begins at.
func (h *Heap) reserve() int64 {
	warm := h.warm()
	if len(h.holds) == 0 {
		return warm
	}
	return max(warm, min(warm*3/2, 2*warm-slabSegment*slabSize))
}

// TouchSlabs has the kernel find pages for the slabs that begin with one of refs, where there are none: one call for
// sixteen faults. By whoever Alloc gave refs, outside of the turn. It is for those who fill memory faster than duties
// come by, and by small pages: where a hypervisor has to find the memory, huge ones took a load twice the time.
func TouchSlabs(refs []Ref) {
	for _, r := range refs {
		if r&(slabSize-1) == 0 && r < runBase {
			populate(r, slabSize)
		}
	}
}

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
	lacking := (min(h.reserve(), h.Used()) - u.dirty.n<<slabShift) >> slabShift
	most := int(min(max(lacking, slabSegment), touchMost))
	switch {
	case lacking <= 0:
		t.wanted = false
	case u.clean.n > 0:
		for u.clean.n > 0 && len(j.slabs) < most {
			i := u.clean.head
			u.clean.remove(i)
			j.slabs = append(j.slabs, i)
		}
	default:
		for len(j.slabs) <= most-slabSegment && !h.short.slabs {
			first, short, err := takeSlabs()
			if err != nil {
				break // it shows again when the memory is needed
			}
			h.short.slabs = short
			u.segments = append(u.segments, first)
			u.born += slabSegment
			for i := range uint32(slabSegment) {
				j.slabs = append(j.slabs, first+i)
			}
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

// Paging says that a reclaimer is calling the kernel to touch pages or to give them back, or soon will.
func (h *Heap) Paging() bool { return h.touch.out || h.trim.out }

// run touches slabs, on a reclaimer, at least a huge page each time.
func (j *touchJob) run(int) (done bool) {
	at := int(j.done.Load())
	if at == 0 {
		for _, first := range j.small {
			preferHuge(Ref(first)<<slabShift, slabSegment*slabSize)
		}
		slices.Sort(j.slabs)
		if n := len(j.slabs); n > 0 {
			populateRecords(j.slabs[n-1]+1, touchMost) // of slabs that the next job may take
		}
	}
	for began := time.Now(); at < len(j.slabs); {
		n := 1
		for at+n < len(j.slabs) && j.slabs[at+n] == j.slabs[at]+uint32(n) && n < touchPiece-int(j.slabs[at])%touchPiece {
			n++
		}
		r := Ref(j.slabs[at]) << slabShift
		preferHuge(r, n*slabSize)
		populate(r, n*slabSize)
		at += n
		if j.done.Store(int64(at)); time.Since(began) > touchSlice {
			break
		}
	}
	if done = at == len(j.slabs); done {
		at++ // says that the job has come to its end
	}
	j.done.Store(int64(at)) // the turn may use the job anew from here on
	return done
}

// takeTouched lists what the job has made warm, as many slabs as the budget has units, and returns what is left of it.
// Paging says that there are more.
func (h *Heap) takeTouched(budget int) int {
	t := &h.touch
	if !t.out {
		return budget
	}
	done := int(t.job.done.Load())
	for n := min(done, len(t.job.slabs)); budget > 0 && t.taken < n; budget-- {
		i := t.job.slabs[t.taken]
		t.taken++
		slabAt(i).state = slabDirty
		h.slabs.dirty.push(i)
	}
	t.out = done <= len(t.job.slabs) || t.taken < len(t.job.slabs)
	return budget
}
