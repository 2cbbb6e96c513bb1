package value

import (
	"unsafe"

	"spindle/engine/data/memory"
)

// Unwritten reports whether a piece of a long string, or of a range within a chunk, was never written (value.L5). Such
// a piece is zeros. If it returns false, the bytes may still be zeros.
func Unwritten(piece []byte) bool {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(piece))) - uintptr(unsafe.Pointer(&zeros))
	return len(piece) > 0 && at < ChunkSize
}

// NewFilled returns the root of a string of n bytes. It calls fill with one chunk after the other; fill writes to dst
// the bytes that begin at off. dst is undefined before. Chunks of zeros are not stored (value.L5).
func (s *Store) NewFilled(n int, fill func(dst []byte, off int)) memory.Ref {
	r := s.newRoot(chunksFor(n))
	l := longAt(r)
	spare := memory.Ref(0) // a spare block of ChunkSize bytes
	for off := 0; off < n; off += ChunkSize {
		size := min(n-off, ChunkSize)
		c := spare
		if c == 0 || size < ChunkSize {
			c = s.Heap.Alloc(size, memory.Values)
		}
		dst := memory.Bytes(c, size)
		fill(dst, off)
		word := uint64(c)
		if allZeros(dst) {
			word = 0
			if size == ChunkSize {
				spare = c
			} else {
				s.Heap.Free(c, memory.Values)
			}
		} else if c == spare {
			spare = 0
		}
		*l.chunk(int(l.count)) = word
		l.count++
	}
	l.length = uint64(n)
	if spare != 0 {
		s.Heap.Free(spare, memory.Values)
	}
	return r
}

func allZeros(b []byte) bool {
	for len(b) >= 8 {
		if *(*uint64)(unsafe.Pointer(unsafe.SliceData(b))) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
