//go:build invariants || race

package memory

import (
	"bytes"
	"fmt"
)

// With the build tag invariants or race, each small block has a state byte, and free blocks are filled with a pattern.
//
// memory.D1. A block's state byte is 0 before its first use, purpose+1 while it is allocated, and debugFreed
// afterwards. It becomes 0 again if the free block's pages lose their fill. The block's owner writes the byte without a
// lock, so that the race detector also sees blocks change owners. Runs have no such byte: the prev field of their first
// unit holds the same values.
// memory.D2. A freed block is filled with 0xDB after its first word. Alloc checks that the fill is intact. Of a run
// only the first debugMaxRun bytes are filled, and Alloc does not check them.
const (
	debugFreed  = 0xFF
	debugFill   = 0xDB
	debugChunk  = 1 << 10
	debugMaxRun = 64 << 10 // of a run only the first bytes are filled
)

var debugBytes [1 << 25 / debugChunk]*[debugChunk][]byte

func debugOf(i uint32) *[]byte { return &debugBytes[i/debugChunk][i%debugChunk] }

// debugSegment makes the state bytes of a segment. The caller has locked the region.
func debugSegment(first uint32) {
	for i := first / debugChunk; i <= (first+slabSegment-1)/debugChunk; i++ {
		if debugBytes[i] == nil {
			debugBytes[i] = new([debugChunk][]byte)
		}
	}
}

func debugSlab(i uint32, s *slab) { *debugOf(i) = make([]byte, s.cap) }

func debugByte(r Ref, s *slab) *byte {
	off := uint32(r & (slabSize - 1))
	if s.size == 0 || off%s.size != 0 || off/s.size >= uint32(s.cap) {
		panic(fmt.Sprintf("memory: %#x is not the beginning of a block", r))
	}
	return &(*debugOf(uint32(r >> slabShift)))[off/s.size]
}

func debugAlloc(r Ref, s *slab, p Purpose) {
	if p >= Purposes {
		panic(fmt.Sprintf("memory: purpose %d", p))
	}
	b := debugByte(r, s)
	block := Bytes(r, int(s.size))
	switch *b {
	case 0:
	case debugFreed:
		if !bytes.Equal(block[8:], poison[:len(block)-8]) {
			panic(fmt.Sprintf("memory: block %#x of %d bytes was written after it was freed: %x",
				r, s.size, block[8:min(len(block), 72)]))
		}
	default:
		panic(fmt.Sprintf("memory: block %#x handed out while it lives as %v", r, Purpose(*b-1)))
	}
	*b = byte(p) + 1
	fill(block)
}

func debugFree(r Ref, s *slab, p Purpose) {
	b := debugByte(r, s)
	switch *b {
	case byte(p) + 1:
	case debugFreed, 0:
		panic(fmt.Sprintf("memory: block %#x of %d bytes freed twice", r, s.size))
	default:
		panic(fmt.Sprintf("memory: block %#x of purpose %v freed as %v", r, Purpose(*b-1), p))
	}
	*b = debugFreed
	fill(Bytes(r, int(s.size)))
}

// debugHoles records that the free blocks in these pages of slab i have lost their fill.
func debugHoles(s *slab, i uint32, pages uint16) {
	for k, block := 0, *debugOf(i); k < len(block) && pages != 0; k++ {
		if s.pagesOf(k)&pages != 0 {
			block[k] = 0
		}
	}
}

func debugRunAlloc(r Ref, p Purpose) {
	if p >= Purposes {
		panic(fmt.Sprintf("memory: purpose %d", p))
	}
	unitAt(unitOf(r)).prev = uint32(p) + 1
	fill(Bytes(r, min(UsableSize(r), debugMaxRun)))
}

// debugRunReturned checks a run's purpose, which is in the run's first record. A used run does not need that record's
// links.
func debugRunReturned(r Ref, p Purpose) {
	u := unitAt(unitOf(r))
	if u.word&stateMask != runUsed || u.prev == debugFreed {
		panic(fmt.Sprintf("memory: run %#x freed twice", r))
	}
	if u.prev != uint32(p)+1 {
		panic(fmt.Sprintf("memory: run %#x of purpose %v freed as %v", r, Purpose(u.prev-1), p))
	}
	u.prev = debugFreed
	fill(Bytes(r, min(UsableSize(r), debugMaxRun)))
}

func debugRunSplit(r, second Ref) { unitAt(unitOf(second)).prev = unitAt(unitOf(r)).prev }

// poison is the content of a freed block. Copying or comparing a whole slice is one event for the race detector; single
// bytes are many.
var poison = bytes.Repeat([]byte{debugFill}, slabSize)

func fill(b []byte) { copy(b, poison) }
