//go:build race

package memory

import (
	"syscall"
	"unsafe"
)

// Under the race detector, memory comes from the Go heap, because the detector does not see mapped memory. The
// allocator above is the same code. Only Pointer differs: it finds the address in a table instead of by an addition.
var (
	granules  [regionGranules / granuleChunk]*[granuleChunk]unsafe.Pointer // where each 64 KB of the region lies
	runBase   Ref                                                          = regionGranules / 2 * slabSize
	regionEnd Ref                                                          = regionGranules * slabSize
	slabMeta  [regionGranules / 2 / granuleChunk]*[granuleChunk]slab
	unitMeta  [regionGranules / 2 / granuleChunk]*[granuleChunk * slabSize / RunUnit]unit
)

const (
	regionGranules = 1 << 21 // 128 GB
	granuleChunk   = 1 << 8
	slabSegment    = 16
	runSegmentMin  = 1 << 10
	runSegmentMax  = 1 << 10
	contiguous     = false
)

// Pointer returns the address of the block at r. Lifetime: until the block is freed.
func Pointer(r Ref) unsafe.Pointer {
	g := r >> slabShift
	return unsafe.Add(granules[g/granuleChunk][g%granuleChunk], uintptr(r&(slabSize-1)))
}

func slabAt(i uint32) *slab { return &slabMeta[i/granuleChunk][i%granuleChunk] }

func unitAt(i uint32) *unit {
	const per = granuleChunk * slabSize / RunUnit
	return &unitMeta[i/per][i%per]
}

func reserveRegion() error { return nil }

func openSlabs(from, n uint32) error {
	if Ref(from+n)*slabSize > runBase {
		return syscall.ENOMEM
	}
	for i := from / granuleChunk; i <= (from+n-1)/granuleChunk; i++ {
		if slabMeta[i] == nil {
			slabMeta[i] = new([granuleChunk]slab)
		}
	}
	back(Ref(from)*slabSize, int(n)*slabSize)
	return nil
}

func openUnits(from, n uint32) error {
	const per = granuleChunk * slabSize / RunUnit
	if runBase+Ref(from+n)*RunUnit > regionEnd {
		return syscall.ENOMEM
	}
	for i := from / per; i <= (from+n-1)/per; i++ {
		if unitMeta[i] == nil {
			unitMeta[i] = new([per]unit)
		}
	}
	back(runBase+Ref(from)*RunUnit, int(n)*RunUnit)
	return nil
}

// canOpenSlabs and canOpenUnits open nothing, because Go memory is allocated when it is needed.
func canOpenSlabs(from, n uint32) bool { return Ref(from+n)*slabSize <= runBase }

func canOpenUnits(from, n uint32) bool { return runBase+Ref(from+n)*RunUnit <= regionEnd }

// back allocates n bytes of Go memory for the region at r. r and n are multiples of 64 KB.
func back(r Ref, n int) {
	words := make([]uint64, n/8)
	for off := 0; off < n; off += slabSize {
		g := (r + Ref(off)) >> slabShift
		if granules[g/granuleChunk] == nil {
			granules[g/granuleChunk] = new([granuleChunk]unsafe.Pointer)
		}
		granules[g/granuleChunk][g%granuleChunk] = unsafe.Pointer(&words[off/8])
	}
}

// giveBack clears the whole pages of [r, r+n), as the kernel would drop their content.
func giveBack(r Ref, n int) {
	from := (r + osPage - 1) &^ (osPage - 1)
	to := (r + Ref(n)) &^ (osPage - 1)
	for from < to { // granule by granule: neighbours need not be one piece of Go memory
		n := min(to-from, slabSize-from%slabSize)
		clear(Bytes(from, int(n)))
		from += n
	}
}

// preferHuge and populate… do nothing, because Go memory is already usable.
func preferHuge(r Ref, n int) {}

func populate(r Ref, n int) {}

func populateRecords(first uint32, n int) {}

func populateUnits(first uint32, n int) {}

// forget drops the Go memory of a closed heap's segment.
func forget(r Ref, n int) {
	for off := 0; off < n; off += slabSize {
		g := (r + Ref(off)) >> slabShift
		granules[g/granuleChunk][g%granuleChunk] = nil
	}
}

// leaveRunsSmall does nothing: runs come from the Go heap.
func leaveRunsSmall() {}
