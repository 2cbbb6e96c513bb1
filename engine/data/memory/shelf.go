package memory

import "spindle/internal/invariant"

// A shelf is a list of retired blocks, in linked chunks of 1 KB. It grows without copying, and a whole shelf moves by
// changing two Refs.
//
//	shelf{head, tail} ──▶ chunk | next Ref | count | 126 entries |  ──▶ chunk ...
//	entry: | objects? | kind 8 (56..63) | purpose 8 (48..55) | root or Ref 48 |
//
// An entry of kind 0 is a block. An entry of another kind is a root, which the kind's Destroy frees.
type shelf struct {
	head, tail Ref
	entries    int64
	objects    int64
	bytes      int64 // usable bytes of the blocks, and of the trees as measured by Measure
}

const (
	chunkSize    = 1024
	chunkEntries = chunkSize/8 - 2
	chunkFirst   = 16 // offset of the entries
)

// put appends entry to s and returns the bytes that the entry will free.
func (h *Heap) put(s *shelf, entry uint64, objects int) int64 {
	if s.tail == 0 || *Word(s.tail + 8) == chunkEntries {
		c := h.Alloc(chunkSize, Retired)
		*Word(c), *Word(c + 8) = 0, 0
		if s.tail == 0 {
			s.head = c
		} else {
			*Word(s.tail) = uint64(c)
		}
		s.tail = c
	}
	n := Word(s.tail + 8)
	*Word(s.tail + chunkFirst + Ref(*n)*8) = entry
	*n++
	s.entries++
	s.objects += int64(objects)
	bytes := h.sizeOf(entry)
	s.bytes += bytes
	return bytes
}

// sizeOf returns the bytes of an entry's block. If the block is a root, the bytes include its tree, as measured.
func (h *Heap) sizeOf(entry uint64) int64 {
	if kind := entry >> kindShift & (maxKinds - 1); kind != 0 && h.measure[kind] != nil {
		return h.measure[kind](Ref(entry & refMask))
	}
	return int64(UsableSize(Ref(entry & refMask &^ 63)))
}

// move appends all entries of from to s and empties from. O(1).
func (s *shelf) move(from *shelf) {
	if from.head == 0 {
		return
	}
	if s.head == 0 {
		*s, *from = *from, shelf{}
		return
	}
	*Word(s.tail) = uint64(from.head)
	s.tail = from.tail
	s.entries += from.entries
	s.objects += from.objects
	s.bytes += from.bytes
	*from = shelf{}
	invariant.That(s.tail != 0, "a shelf without a tail")
}
