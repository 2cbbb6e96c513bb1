package value

import (
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/internal/invariant"
)

// A Header begins the root block of every collection that does not lie in its entry. The kind's state follows.
//
//	0        8       12      16
//	+--------+-------+-------+-- ~ --
//	| epoch  | moved | kind  | state of the kind: table.State, counts, Refs
//	+--------+-------+-------+-- ~ --
//	  u64      u32     u32
//
// value.B1. A root block stamped at or below heap.Frozen() has readers of a view: it is copied, not written (except for
// moved).
// value.B2. The newest root owns its blocks. An older root, kept for a view, owns only its root block.
// value.B3. moved is set once the collection has been under another key, because views may then know it by another
// position. After that its blocks are retired wide. Only the core uses moved.
type Header struct {
	Epoch uint64
	moved uint32
	kind  uint32
}

// HeaderBytes is the size of a Header.
const HeaderBytes = 16

var _ [HeaderBytes]byte = [unsafe.Sizeof(Header{})]byte{}

// HeaderAt returns the header of the root block at ref.
func HeaderAt(ref memory.Ref) *Header { return (*Header)(memory.Pointer(ref)) }

// Kind returns the kind of the root's structure.
func (h *Header) Kind() memory.Kind { return memory.Kind(h.kind) }

// Moved reports whether the root's blocks must be retired wide (value.B3).
func (h *Header) Moved() bool { return h.moved != 0 }

// The kinds of roots for package memory. The first ones belong to package keyspace.
const (
	KindDatabase memory.Kind = 1 + iota // the table of a database
	KindDue                             // its index of deadlines
	KindFields                          // the hashes of a database whose fields have deadlines
	KindTracked                         // the keys that clients may have cached (package tracked)
	KindLong                            // a string in chunks
	KindPacked                          // a listpack or an intset: one block
	KindTree                            // a part cut off a tree, or a whole one without its root block
	KindList
	KindSet
	KindZSet
	KindHash
	KindStream
	KindModule // this and those above: types of modules, each its own

	KindBloom = KindModule // Bloom filters

	kinds = 32
)

// A Structure is the set of functions for roots of one kind, for callers that do not know the type.
//
// All but Destroy get the newest root, in a turn. Count, Measure and Cost also get older ones.
type Structure struct {
	// Count returns the number of elements, which lazyfree counts. The turn itself frees up to FreeAtOnce elements.
	Count func(root memory.Ref) int
	// LenAt is the offset in the root of the number of elements, a u64. 0 means that keys of this kind are not counted
	// in Keys.Sizes.
	LenAt int
	// Destroy frees root and all blocks that belong to it (purpose Values). Any goroutine may call it.
	Destroy memory.Destroy
	Measure func(root memory.Ref) int64            // returns about how many bytes root has, quickly
	Cost    func(root memory.Ref, samples int) int // bytes for MEMORY USAGE, estimated from samples elements; 0: all
	Copy    func(s *Store, root memory.Ref) memory.Ref

	// Relocate moves the root's blocks out of slabs being emptied. It begins at the spot that at holds, and ends when
	// all is done or stop returns true (table.Table.Relocate). A kind without Relocate is copied as a whole, if Blocks
	// yields a block in such a slab. Blocks may be nil.
	Relocate func(s *Store, root memory.Ref, at *table.Spot, stop func() bool) (done bool)
	Blocks   func(root memory.Ref, yield func(memory.Ref) bool)
}

// FreeAtOnce is how many elements the turn frees itself. A reclaimer frees larger structures.
const FreeAtOnce = 64

// Register registers a kind of roots. It must be called before the first such root is made.
func (s *Store) Register(k memory.Kind, f Structure) {
	invariant.That(k > KindTree && k < kinds && s.kinds[k].Destroy == nil, "kind %d registered twice or out of range", k)
	s.kinds[k] = f
	s.Heap.Register(k, f.Destroy)
	if f.Measure != nil {
		s.Heap.Measure(k, f.Measure)
	}
}

// NewRoot returns a root block of n bytes with its header, and zeros after it.
func (s *Store) NewRoot(k memory.Kind, n int) memory.Ref {
	ref := s.Heap.Alloc(n, memory.Values)
	clear(memory.Bytes(ref, memory.UsableSize(ref)))
	*HeaderAt(ref) = Header{Epoch: s.Heap.Epoch(), kind: uint32(k)}
	return ref
}

// dupRoot returns a copy of a root block. The copy will replace the block.
func (s *Store) dupRoot(root memory.Ref) memory.Ref {
	n := memory.UsableSize(root)
	ref := s.Heap.Alloc(n, memory.Values)
	copy(memory.Bytes(ref, n), memory.Bytes(root, n))
	HeaderAt(ref).Epoch = s.Heap.Epoch()
	return ref
}

// dropBlock frees only the root block, because a newer root has taken over its blocks (value.B2).
func (s *Store) dropBlock(root memory.Ref) {
	if h := HeaderAt(root); h.Epoch > s.Heap.Frozen() {
		s.Heap.Free(root, memory.Values)
	} else {
		s.retire(root, h.Moved())
	}
}

// DropRoot frees the root of an entry of type t, at the present position.
// Cost: O(1); it frees up to 64 elements itself.
func (s *Store) DropRoot(t Type, root memory.Ref) {
	if t == String {
		s.DropLong(root)
		return
	}
	h := HeaderAt(root)
	kind := h.Kind()
	if kind == KindPacked {
		s.dropBlock(root)
		return
	}
	objects := 0 // values that are too large to be freed at once, for INFO
	if s.kinds[kind].Count(root) > FreeAtOnce {
		objects = 1
	}
	switch {
	case s.Heap.Frozen() == 0 && objects == 0:
		s.destroyNow(&s.kinds[kind], root)
	case h.Moved():
		s.Heap.RetireTreeWide(root, kind, objects)
	default:
		s.Heap.RetireTree(root, kind, objects)
	}
}

// Count returns the number of elements of a value stored in a structure.
func (s *Store) Count(v Value) int {
	root := v.Root()
	return s.kinds[HeaderAt(root).Kind()].Count(root)
}

// Weight returns about how many elements a reader of the whole of v passes. A KB of a string counts as one. O(1).
func (s *Store) Weight(v Value) int {
	const packedElement = 16 // bytes
	switch root := v.Root(); {
	case v.Type() == String:
		return v.Len() >> 10
	case root == 0:
		return 0
	case HeaderAt(root).Kind() == KindPacked:
		return memory.UsableSize(root) / packedElement
	}
	return s.Count(v)
}

// CopyRoot returns a root with the same content as v's.
func (s *Store) CopyRoot(v Value) memory.Ref {
	root := v.Root()
	if v.Type() == String {
		return s.copyLong(root)
	}
	kind := HeaderAt(root).Kind()
	if kind == KindPacked {
		return s.PackedOf(packedAt(root).bytes())
	}
	return s.kinds[kind].Copy(s, root)
}

// MoveRoot records that the value of type t at root has moved to another key.
func (s *Store) MoveRoot(t Type, root memory.Ref) {
	if t == String {
		s.Move(root)
	} else if s.Heap.Frozen() != 0 { // views know its blocks, or those shared with an older root, by the old position
		HeaderAt(root).moved = 1
	}
}

// MemoryUsage returns the cost of v's entry in bytes, with its share of the index. It looks at no more than samples
// elements of a collection; 0 means all.
func (s *Store) MemoryUsage(v Value, samples int) int {
	n := memory.GoodSize(v.Size()) + indexShare
	root := v.Root()
	switch {
	case root == 0:
	case v.Type() == String:
		n += longAt(root).cost()
	case HeaderAt(root).Kind() == KindPacked:
		n += memory.UsableSize(root)
	default:
		n += s.kinds[HeaderAt(root).Kind()].Cost(root, samples)
	}
	return n
}

// DestroyEntry frees the entry at ref and its root, for table.Destroy. Any goroutine may call it after the kinds are
// registered.
func (s *Store) DestroyEntry(r *memory.Returner, ref memory.Ref, budget int) (done bool, spent int) {
	if v := At(ref); v.Rooted() {
		var rest memory.Ref
		if rest, spent = s.destroyRoot(r, v.Type(), v.Root(), budget); rest != 0 {
			v.SetRoot(rest)
			return false, spent
		}
	}
	r.Free(ref, memory.Keys)
	return true, spent + 1
}

func (s *Store) destroyRoot(r *memory.Returner, t Type, root memory.Ref, budget int) (rest memory.Ref, spent int) {
	if t == String {
		return destroyLong(r, root, budget)
	}
	kind := HeaderAt(root).Kind()
	if kind == KindPacked {
		r.Free(root, memory.Values)
		return 0, 1
	}
	return s.kinds[kind].Destroy(r, root, budget)
}
