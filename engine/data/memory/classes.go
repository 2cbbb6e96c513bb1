package memory

// Small blocks have size classes.
//
//	8..128       every 8 bytes                 rounding costs up to 7 bytes
//	144..4096    eight classes per doubling    rounding costs less than 1/8 of the block
//	4352..8192   1/15 to 1/8 of a slab         the same, and almost no bytes at the slab's end are wasted
//
// memory.C1. If a multiple of 64 bytes is requested, the block's class is a multiple of 64 too, so the block is 64-byte
// aligned.
// memory.C2. No size of 64 bytes or more loses more than 1/8 of its block. No class loses more than 1/8 of its slab.

const (
	// MaxSmall is the largest size that slabs serve; larger blocks are runs.
	MaxSmall   = 8192
	numClasses = 64
)

// classSize is the block size of each class. classFit is the class for each size, in words of 8 bytes rounded up.
var (
	classSize [numClasses]uint32
	classFit  [MaxSmall/8 + 1]uint8
)

func init() {
	c := 0
	add := func(size int) { classSize[c] = uint32(size); c++ }
	for size := 8; size <= 128; size += 8 {
		add(size)
	}
	for base := 128; base < 4096; base *= 2 {
		for i := 1; i <= 8; i++ {
			add(base + base/8*i)
		}
	}
	for parts := 15; parts >= 8; parts-- {
		add(slabSize / parts &^ 63)
	}
	if c != numClasses {
		panic("memory: the class table is not full")
	}
	c = 0
	for words := range classFit {
		if words*8 > int(classSize[c]) {
			c++
		}
		classFit[words] = uint8(c)
	}
}

// GoodSize returns the size of the block that Alloc(n) would return.
func GoodSize(n int) int {
	if n <= MaxSmall {
		return int(classSize[classFit[(n+7)>>3]])
	}
	return (n + RunUnit - 1) &^ (RunUnit - 1)
}
