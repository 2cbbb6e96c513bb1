package memory

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Stats are the figures of a heap, for MEMORY STATS and DOCTOR. All are bytes unless a name says otherwise.
type Stats struct {
	Used      int64           // usable bytes of live blocks (allocator.allocated)
	ByPurpose [Purposes]int64 // Used, by purpose
	Peak      int64
	Active    int64 // slabs and runs that hold live blocks, without their holes (allocator.active)
	Dirty     int64 // empty, pages still resident (Active + Dirty + Side: allocator.resident)
	Clean     int64 // empty, pages given back
	Side      int64 // records of slabs and units in use
	Reserved  int64 // address space
	Retired   int64 // blocks that only holds still read
	Holds     int
	Runs      int64 // number of live blocks above MaxSmall
	RunBytes  int64
	Classes   [numClasses]ClassStats
}

// ClassStats are the figures of one size class. A block freed by a reclaimer counts as live until the turn has drained
// it.
type ClassStats struct {
	Size  int   // of a block
	Live  int64 // blocks
	Slabs int64 // of 64 KB
	Waste int64 // bytes of its slabs that no live block uses
}

// Stats fills s with the present figures. O(classes + holds × shelves).
func (h *Heap) Stats(s *Stats) {
	*s = Stats{Used: h.Used(), Peak: h.Peak(), Holds: len(h.holds), Runs: h.runs.live,
		RunBytes: h.runs.liveUnits << runShift}
	for p := range Purposes {
		s.ByPurpose[p] = h.UsedBy(p)
	}
	for c := range h.bins {
		b := &h.bins[c]
		s.Classes[c] = ClassStats{int(b.size), b.live, int64(b.slabs), int64(b.slabs)<<slabShift - b.live*int64(b.size)}
	}
	s.Active = h.active()
	s.Dirty = h.dirty()
	s.Clean = h.slabs.clean.n<<slabShift + h.runs.clean.units<<runShift
	s.Side = h.slabs.born*int64(unsafe.Sizeof(slab{})) + h.runs.bornUnits*int64(unsafe.Sizeof(unit{}))
	s.Reserved = int64(regionEnd)
	for _, d := range h.holds {
		s.Retired += d.bytes()
	}
}

// active returns the bytes of slabs and runs that hold live blocks.
func (h *Heap) active() int64 {
	slabs := h.slabs.born - h.slabs.dirty.n - h.slabs.clean.n - int64(len(h.touch.job.slabs)-h.touch.taken)
	if h.trim.out {
		slabs -= int64(len(h.trim.job.slabs))
	}
	return slabs<<slabShift - h.trim.holes*osPage + h.runs.liveUnits<<runShift
}

// dirty returns the bytes of empty slabs and runs whose pages are resident. A trim's count until they are given back.
func (h *Heap) dirty() int64 {
	return h.slabs.dirty.n<<slabShift + h.runs.dirty.units<<runShift + h.trim.job.left.Load()
}

func (d *Hold) bytes() (sum int64) {
	for _, shelves := range d.shelves {
		if shelves != nil {
			for i := range shelves {
				sum += shelves[i].bytes
			}
		}
	}
	return sum + d.wide.bytes
}

// published is the part of the heap's figures that other goroutines may read. It is as of the last Drain.
type published struct {
	used, peak, active, dirty, holds atomic.Int64
	byPurpose                        [Purposes]atomic.Int64
}

// Figures are a heap's main figures as of the end of the last turn.
type Figures struct {
	Used, Peak, Active, Dirty int64
	Holds                     int
	ByPurpose                 [Purposes]int64
}

// Figures returns the last published figures. Any goroutine may call it (metrics, watchdogs).
func (h *Heap) Figures() (f Figures) {
	p := &h.published
	f.Used, f.Peak, f.Active, f.Dirty, f.Holds = p.used.Load(), p.peak.Load(), p.active.Load(), p.dirty.Load(),
		int(p.holds.Load())
	for i := range p.byPurpose {
		f.ByPurpose[i] = p.byPurpose[i].Load()
	}
	return f
}

// publish stores the figures if any has changed.
func (h *Heap) publish() {
	p := &h.published
	used, dirty := h.Used(), h.dirty()
	if used == p.used.Load() && dirty == p.dirty.Load() && len(h.holds) == int(p.holds.Load()) {
		return
	}
	h.peak = max(h.peak, used)
	p.used.Store(used)
	p.peak.Store(h.peak)
	p.active.Store(h.active())
	p.dirty.Store(dirty)
	p.holds.Store(int64(len(h.holds)))
	for i := range p.byPurpose {
		p.byPurpose[i].Store(h.used[i])
	}
}

var statm = sync.OnceValues(func() (*os.File, error) { return os.Open("/proc/self/statm") })

// ResidentParts returns the process's resident set in bytes (used_memory_rss). files is the part of it that is pages of
// files, mostly the program's own. Both are 0 if the system does not show them. It reads one file. Any goroutine may
// call it.
func ResidentParts() (resident, files int64) {
	f, err := statm()
	if err != nil {
		return 0, 0
	}
	var buf [128]byte
	n, _ := f.ReadAt(buf[:], 0)
	fields := bytes.Fields(buf[:n])
	if len(fields) < 3 {
		return 0, 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	shared, _ := strconv.ParseInt(string(fields[2]), 10, 64)
	return pages * osPage, shared * osPage
}
