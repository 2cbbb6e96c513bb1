package value

import (
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
)

// This file moves values out of slabs that are being emptied (memory.Heap.Leaves).
//
// value.M1. No hold is live, so that only the turn reaches these blocks. No long string moves while a reply is being
// sent from one (value.P1).
// value.M2. A collection of up to relocateAtOnce elements and relocateBytes moves in one step. It moves block by block.
// If its kind has no Relocate, it is replaced by a copy instead. A larger collection whose kind has a Relocate moves in
// several steps.
// value.M3. The caller changes Table.Moves (value.E7), as table.Table.Relocate does.

// relocateAtOnce is the largest number of elements that move in one step, which takes some tenths of a millisecond.
const relocateAtOnce = 512

// relocateBytes is the size of the largest collection that is copied in order to move it.
const relocateBytes = 256 << 10

// never is the stop function for work that is done in a single step.
func never() bool { return false }

// Relocate moves the entry at ref and its root, if their slabs are being emptied. It returns the entry's present
// address. large means that RelocateLarge must move the entry's collection in steps.
func (s *Store) Relocate(ref memory.Ref) (to memory.Ref, large bool) {
	to = s.RelocateBlock(ref, memory.Keys)
	v := At(to)
	if !v.Rooted() {
		return to, false
	}
	root := v.Root()
	if v.Type() == String {
		s.relocateLong(v, root)
		return to, false
	}
	kind := HeaderAt(root).Kind()
	k := &s.kinds[kind]
	switch {
	case kind == KindPacked:
		s.relocateRoot(v, root)
	case k.Relocate != nil && k.Count(root) > relocateAtOnce:
		s.relocateRoot(v, root)
		return to, true
	case k.Relocate != nil:
		k.Relocate(s, s.relocateRoot(v, root), &table.Spot{}, never)
	case s.scattered(k, root) && k.Count(root) <= relocateAtOnce && k.Measure(root) <= relocateBytes:
		v.SetRoot(k.Copy(s, root))
		s.destroyNow(k, root)
		s.Relocations++
	}
	return to, false
}

// RelocateLarge continues with a collection for which Relocate returned large. done is also true if v is no longer such
// a collection.
func (s *Store) RelocateLarge(v Value, at *table.Spot, stop func() bool) (done bool) {
	if !v.Exists() || !v.Rooted() || v.Type() == String {
		return true
	}
	root := v.Root()
	k := &s.kinds[HeaderAt(root).Kind()]
	return k.Relocate == nil || k.Relocate(s, root, at, stop)
}

// RelocateBlock moves a block to which only one Ref leads. The caller updates that Ref.
func (s *Store) RelocateBlock(ref memory.Ref, p memory.Purpose) memory.Ref {
	if !s.Heap.Leaves(ref) {
		return ref
	}
	n := memory.UsableSize(ref)
	to := s.Heap.Alloc(n, p)
	copy(memory.Bytes(to, n), memory.Bytes(ref, n))
	s.Heap.Free(ref, p)
	s.Relocations++
	return to
}

// relocateRoot moves v's root block.
func (s *Store) relocateRoot(v Value, root memory.Ref) memory.Ref {
	to := s.RelocateBlock(root, memory.Values)
	if to != root {
		v.SetRoot(to)
	}
	return to
}

// relocateLong moves a long string's root and last chunk. Other chunks are too large for slabs.
func (s *Store) relocateLong(v Value, root memory.Ref) {
	if len(s.pins.all) > 0 {
		return
	}
	l := longAt(s.relocateRoot(v, root))
	if l.count == 0 {
		return
	}
	if w := l.chunk(int(l.count) - 1); *w != 0 {
		*w = uint64(s.RelocateBlock(memory.Ref(*w&chunkRef), memory.Values)) | *w&^chunkRef
	}
}

// scattered reports whether the root, or a block that Blocks yields, lies in a slab that is being emptied.
func (s *Store) scattered(k *Structure, root memory.Ref) (found bool) {
	if s.Heap.Leaves(root) {
		return true
	}
	if k.Blocks != nil {
		k.Blocks(root, func(ref memory.Ref) bool {
			found = s.Heap.Leaves(ref)
			return !found
		})
	}
	return found
}

// destroyNow frees a structure that no view can read, in the turn.
func (s *Store) destroyNow(k *Structure, root memory.Ref) {
	if s.freeing == nil {
		s.freeing = s.Heap.Returner()
	}
	for rest := root; rest != 0; {
		rest, _ = k.Destroy(s.freeing, rest, relocateAtOnce)
	}
	s.freeing.Flush()
}
