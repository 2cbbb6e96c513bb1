//go:build !race

package memory

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The region is one reservation of address space, with slabs in its lower half and runs in its upper half. It is
// reserved without access and opened in large steps, so that it works with every vm.overcommit_memory setting. The
// records of slabs and of run units are two more reservations, opened in the same way.
//
// The reservation lasts as long as the process, and all heaps share it. So Pointer is one addition.
var (
	base      unsafe.Pointer // of the region
	runBase   Ref            // where runs begin
	regionEnd Ref
	slabMeta  unsafe.Pointer // slab records, by slab number
	unitMeta  unsafe.Pointer // unit records, by unit number (unit 0 is the one at runBase)
	opened    [4]uint64      // bytes open in: slabs, runs, slab records, unit records
)

const (
	largestRegion  = 4 << 40
	smallestRegion = 1 << 30
	slabSegment    = 64      // slabs that a heap takes from the region at once (4 MB)
	runSegmentMin  = 4 << 10 // units that a heap takes at least (4 MB)
	runSegmentMax  = 64 << 10
	contiguous     = true // segments that follow each other are one piece of memory
	openStep       = 64 << 20
	smallStep      = 64 << 10 // the step where the system refuses openStep
	beside         = 64 << 20 // address space left for the Go heap and threads, with stacks of 8 MB (memory.M4)
	hugePage       = 2 << 20
)

// Pointer returns the address of the block at r. Lifetime: until the block is freed.
func Pointer(r Ref) unsafe.Pointer { return unsafe.Add(base, uintptr(r)) }

func slabAt(i uint32) *slab { return (*slab)(unsafe.Add(slabMeta, uintptr(i)*unsafe.Sizeof(slab{}))) }
func unitAt(i uint32) *unit { return (*unit)(unsafe.Add(unitMeta, uintptr(i)*unsafe.Sizeof(unit{}))) }

// reserveRegion reserves the largest region that the process may have.
func reserveRegion() error {
	var err error
	for size := uintptr(largestRegion); size >= smallestRegion; size /= 2 {
		var p, s, u unsafe.Pointer
		half := size / 2
		if p, err = reserve(size + hugePage); err != nil {
			continue
		}
		whole := p
		p = unsafe.Add(p, -uintptr(p)&(hugePage-1))
		if s, err = reserve(half / slabSize * unsafe.Sizeof(slab{})); err == nil {
			u, err = reserve(half / RunUnit * unsafe.Sizeof(unit{}))
			if err == nil && size > smallestRegion && !leaves(size/4) {
				_ = unix.MunmapPtr(u, half/RunUnit*unsafe.Sizeof(unit{}))
				err = syscall.ENOMEM
			}
			if err == nil {
				base, slabMeta, unitMeta, runBase, regionEnd = p, s, u, Ref(half), Ref(size)
				// Huge pages mean fewer page faults and TLB misses, and no fork pays for them. Slabs become huge pages
				// when a reclaimer has touched them (touch.go). A kernel without huge pages refuses. With disable-thp
				// yes, the kernel gives small pages all the same.
				_ = unix.Madvise(unsafe.Slice((*byte)(p), half), unix.MADV_NOHUGEPAGE)
				_ = unix.Madvise(unsafe.Slice((*byte)(unsafe.Add(p, half)), half), unix.MADV_HUGEPAGE)
				return nil
			}
			_ = unix.MunmapPtr(s, half/slabSize*unsafe.Sizeof(slab{}))
		}
		_ = unix.MunmapPtr(whole, size+hugePage)
	}
	return fmt.Errorf("memory: cannot reserve address space: %w", err)
}

// leaves reports whether the process could reserve size bytes more. The Go heap needs address space too.
func leaves(size uintptr) bool {
	p, err := reserve(size)
	if err != nil {
		return false
	}
	_ = unix.MunmapPtr(p, size)
	return true
}

func reserve(size uintptr) (unsafe.Pointer, error) {
	return unix.MmapPtr(-1, 0, nil, size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
}

// open makes the bytes of one of the four spans accessible up to end.
func open(span int, at unsafe.Pointer, end, limit, step uint64) error {
	if end <= opened[span] {
		return nil
	}
	if end > limit {
		return syscall.ENOMEM
	}
	to := min((end+step-1)/step*step, limit)
	err := protect(at, opened[span], to)
	if err != nil { // the system may grant less than a whole step
		to = min((end+smallStep-1)/smallStep*smallStep, limit)
		err = protect(at, opened[span], to)
	}
	if err == nil {
		opened[span] = to
	}
	return err
}

func protect(at unsafe.Pointer, from, to uint64) error {
	if !affords(uintptr(to-from) + beside) {
		return syscall.ENOMEM
	}
	return unix.Mprotect(unsafe.Slice((*byte)(unsafe.Add(at, from)), to-from), unix.PROT_READ|unix.PROT_WRITE)
}

// affords reports whether the system would now make size more bytes usable. It tries it with a mapping like that of a
// thread's stack.
func affords(size uintptr) bool {
	p, err := unix.MmapPtr(-1, 0, nil, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return false
	}
	_ = unix.MunmapPtr(p, size)
	return true
}

// openSlabs makes slabs [from, from+n) and their records usable. openUnits does the same for run units.
func openSlabs(from, n uint32) error {
	end := uint64(from) + uint64(n)
	if err := open(0, base, end*slabSize, uint64(runBase), openStep); err != nil {
		return err
	}
	size := uint64(unsafe.Sizeof(slab{}))
	return open(2, slabMeta, end*size, uint64(runBase)/slabSize*size, 1<<20)
}

func openUnits(from, n uint32) error {
	end := uint64(from) + uint64(n)
	if err := open(1, Pointer(runBase), end*RunUnit, uint64(regionEnd-runBase), openStep); err != nil {
		return err
	}
	size := uint64(unsafe.Sizeof(unit{}))
	return open(3, unitMeta, end*size, uint64(regionEnd-runBase)/RunUnit*size, 1<<20)
}

// canOpenSlabs makes n slabs, beginning with number from, usable before they are needed. It reports whether that
// succeeded.
func canOpenSlabs(from, n uint32) bool { return openSlabs(from, n) == nil }

func canOpenUnits(from, n uint32) bool { return openUnits(from, n) == nil }

// giveBack returns the whole pages of [r, r+n) to the kernel. Their content is lost. Any goroutine may call it.
func giveBack(r Ref, n int) {
	from := (r + osPage - 1) &^ (osPage - 1)
	to := (r + Ref(n)) &^ (osPage - 1)
	if from < to {
		_ = unix.Madvise(unsafe.Slice((*byte)(Pointer(from)), int(to-from)), unix.MADV_DONTNEED)
	}
}

// preferHuge asks the kernel to back [r, r+n) with huge pages. Any goroutine may call it.
func preferHuge(r Ref, n int) {
	_ = unix.Madvise(unsafe.Slice((*byte)(Pointer(r)), n), unix.MADV_HUGEPAGE)
}

// leaveRunsSmall asks the kernel to back runs with small pages, and not to join them to huge pages. Any goroutine may
// call it.
func leaveRunsSmall() {
	_ = unix.Madvise(unsafe.Slice((*byte)(Pointer(runBase)), int(regionEnd-runBase)), unix.MADV_NOHUGEPAGE)
}

// populate makes the kernel provide pages for [r, r+n) now. Any goroutine may call it, also while the memory is in use.
// Kernels before 5.14 refuse; then the first goroutine to touch the memory waits.
func populate(r Ref, n int) {
	_ = unix.Madvise(unsafe.Slice((*byte)(Pointer(r)), n), unix.MADV_POPULATE_WRITE)
}

// populateRecords does the same for the records of slabs first to first+n-1. The kernel refuses records that are not
// open yet, which is harmless.
func populateRecords(first uint32, n int) {
	size := int(unsafe.Sizeof(slab{}))
	from := int(first) * size &^ (osPage - 1)
	_ = unix.Madvise(unsafe.Slice((*byte)(unsafe.Add(slabMeta, from)), n*size), unix.MADV_POPULATE_WRITE)
}

// populateUnits does the same for the records of units first to first+n-1.
func populateUnits(first uint32, n int) {
	size := int(unsafe.Sizeof(unit{}))
	from, to := int(first)*size&^(osPage-1), (int(first)+n)*size
	_ = unix.Madvise(unsafe.Slice((*byte)(unsafe.Add(unitMeta, from)), to-from), unix.MADV_POPULATE_WRITE)
}

// forget gives the memory of a closed heap's segment back to the kernel.
func forget(r Ref, n int) { giveBack(r, n) }
