package value

import (
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
)

// Relocation moves values out of slabs that are being emptied (memory.Heap.Leaves).
//
// value.M1. No hold lives: nobody but the turn reaches these blocks. A long string stays while any reply is sent from
// one (value.P1).
// value.M2. A collection of up to relocateAtOnce elements and relocateBytes moves in one go: its blocks one by one, or,
// where its kind has no Relocate, as a copy that takes its place. A larger one with a Relocate moves in steps.
// value.M3. The caller changes Table.Moves (value.E7), as table.Table.Relocate does.

// relocateAtOnce is how many elements move in one go: some tenths of a millisecond.
const relocateAtOnce = 512

// relocateBytes is how many bytes a collection has at most that is copied to be moved.
const relocateBytes = 256 << 10

// never is the stop of what is done in one go.
func never() bool { return false }

// Relocate moves the entry at ref, and what hangs off it, where they have to. It answers where the entry is now, and
// whether its collection is to be moved in steps, by RelocateLarge.
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

// RelocateLarge goes on with a collection that Relocate has called large. done is true too when v is none any more.
func (s *Store) RelocateLarge(v Value, at *table.Spot, stop func() bool) (done bool) {
	if !v.Exists() || !v.Rooted() || v.Type() == String {
		return true
	}
	root := v.Root()
	k := &s.kinds[HeaderAt(root).Kind()]
	return k.Relocate == nil || k.Relocate(s, root, at, stop)
}

// RelocateBlock moves a block that nothing but one place leads to, which is the caller's.
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

// relocateRoot moves the root block of v's.
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

// scattered says that the root, or a block of the structure that its kind tells, lies in a slab that is being emptied.
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
