package memory

import (
	"slices"
	"sync/atomic"
	"time"
)

// A reclaimer touches memory for the first time, if it can do so before a turn needs the memory. Clearing a huge page
// takes 0.2 ms, and up to 8 ms on a virtual machine whose host must find the memory. A small page takes some 2 µs
// there.
//
//	newSlab takes   warm slabs (dirty list) ─ none left ─▶ clean or unborn ones: the turn touches them,
//	                                                       unborn ones by small pages
//	touchJob gives  clean or unborn slabs ─▶ a reclaimer asks for huge pages, touches them ─▶ takeTouched: the dirty list
//
// memory.W1. At most one touch job is out. Its slabs with index taken or above are on no list and in the state
// slabTouching.
// memory.W2. Slabs are touched early only after newSlab has taken one, a freeze has announced copies, or a purge has
// ended. Each job touches 4 to 16 MB, while less than the reserve is warm. The reserve is smaller than the amount at
// which a trim begins (memory.T2), so that the two do not undo each other's work. A heap at rest does not grow.
type touchState struct {
	job   touchJob
	taken int  // job.slabs[:taken] are on the dirty list
	out   bool // the job has not ended
	// wanted: newSlab has taken a slab, a view was frozen or a purge has ended since the reserve was last checked.
	wanted bool
	small  []uint32 // segments in small pages: the kernel may join them
}

type touchJob struct {
	slabs []uint32
	small []uint32
	done  atomic.Int64 // the pages of slabs[:done] are resident
	step  func(budget int) bool
}

const (
	touchPiece = 2 << 20 / slabSize // slabs touched by one kernel call: a huge page
	// touchSlice is how long a reclaimer keeps the processor in one slice, if pages come quickly. Otherwise it might
	// wait long to get the processor again.
	touchSlice = time.Millisecond
	touchMost  = 4 * slabSegment // slabs of one job
)

// reserve returns how many bytes should be warm. It is more while a view is open, because then the first write to each
// block copies. It stays smaller, by the size of a job, than the amount at which a trim begins.
func (h *Heap) reserve() int64 {
	warm := h.warm()
	if len(h.holds) == 0 {
		return warm
	}
	return max(warm, min(warm*3/2, 2*warm-slabSegment*slabSize))
}

// TouchSlabs makes the kernel provide pages for each slab that begins with one of refs, by one call instead of sixteen
// page faults. The goroutine that received refs from Alloc calls it, outside the turn. It is for a load that fills
// memory faster than touch jobs come. It uses small pages. If a hypervisor must find the memory, a load with huge pages
// took twice the time.
func TouchSlabs(refs []Ref) {
	for _, r := range refs {
		if r&(slabSize-1) == 0 && r < runBase {
			populate(r, slabSize)
		}
	}
}

// TouchRecords makes the kernel provide pages for the records of the n bytes of runs at r. Otherwise Split takes a page
// fault for each part of the run. Any goroutine may call it, also while the run is in use.
func TouchRecords(r Ref, n int) { populateUnits(unitOf(r), (n+RunUnit-1)>>runShift) }

// touchJob returns a job that makes empty memory warm, or nil.
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
				break // the error will occur again when the memory is needed
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

// Paging reports whether a reclaimer is in a kernel call that touches pages or gives them back, or soon will be.
func (h *Heap) Paging() bool { return h.touch.out || h.trim.out }

// run touches slabs on a reclaimer, at least a huge page in each call.
func (j *touchJob) run(int) (done bool) {
	at := int(j.done.Load())
	if at == 0 {
		for _, first := range j.small {
			preferHuge(Ref(first)<<slabShift, slabSegment*slabSize)
		}
		slices.Sort(j.slabs)
		if n := len(j.slabs); n > 0 {
			populateRecords(j.slabs[n-1]+1, touchMost) // the records of slabs that the next job may take
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
		at++ // one more than the number of slabs means that the job has ended
	}
	j.done.Store(int64(at)) // the turn may now use the job again
	return done
}

// takeTouched puts slabs that the job has made warm on the dirty list, one per unit of budget. It returns the unused
// part of budget. Paging stays true while slabs are left.
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
