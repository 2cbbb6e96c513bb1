package value

import (
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/internal/invariant"
)

// A Header begins the root block of every collection that does not lie in its entry; what follows is the kind's own.
//
//	0        8       12      16
//	+--------+-------+-------+-- ~ --
//	| epoch  | moved | kind  | state of the kind: table.State, counts, Refs
//	+--------+-------+-------+-- ~ --
//	  u64      u32     u32
//
// value.B1. A root block stamped at or below heap.Frozen() is under a view: it is copied, not written (but for moved).
// value.B2. The newest root owns what hangs off it; an older one, kept for a view, owns its own block alone.
// value.B3. moved is set once the collection has been under another key, so that views may know it by another position:
// what is let go of it afterwards is retired wide. It is the core's alone.
type Header struct {
	Epoch uint64
	moved uint32
	kind  uint32
}

// HeaderBytes is the size of a Header.
const HeaderBytes = 16

var _ [HeaderBytes]byte = [unsafe.Sizeof(Header{})]byte{}

// HeaderAt is the header of the root block at ref.
func HeaderAt(ref memory.Ref) *Header { return (*Header)(memory.Pointer(ref)) }

// Kind says what hangs off the root.
func (h *Header) Kind() memory.Kind { return memory.Kind(h.kind) }

// Moved says that what the root lets go of must be retired wide (value.B3).
func (h *Header) Moved() bool { return h.moved != 0 }

// Kinds of roots, as memory knows them. The first ones are package keyspace's.
const (
	KindDatabase memory.Kind = 1 + iota // the table of a database
	KindDue                             // its index of deadlines
	KindFields                          // the hashes of a database whose fields have deadlines
	KindTracked                         // the keys that clients may have cached; package tracked's
	KindLong                            // a string in chunks
	KindPacked                          // a listpack or an intset: one block
	KindTree                            // what was cut off a tree, or a whole one without its root block
	KindList
	KindSet
	KindZSet
	KindHash
	KindStream
	KindModule // this and those above: types of modules, each its own

	KindBloom = KindModule // Bloom filters

	kinds = 32
)

// A Structure says what can be done with roots of one kind without knowing the type.
//
// All but Destroy get the newest root, in a turn; Count, Measure and Cost also an older one.
type Structure struct {
	// Elements: what lazyfree counts; up to FreeAtOnce the turn frees it itself.
	Count func(root memory.Ref) int
	// Frees all that hangs off root, and root (purpose Values); any goroutine.
	Destroy memory.Destroy
	Measure func(root memory.Ref) int64            // about how many bytes, quickly
	Cost    func(root memory.Ref, samples int) int // MEMORY USAGE: bytes, judged by so many elements; 0: all
	Copy    func(s *Store, root memory.Ref) memory.Ref

	// Relocate moves what hangs off root out of slabs that are being emptied, from at on, until stop says so
	// (table.Table.Relocate). A kind without is copied as a whole, when Blocks, which may be nil, yields a block that
	// lies in one.
	Relocate func(s *Store, root memory.Ref, at *table.Spot, stop func() bool) (done bool)
	Blocks   func(root memory.Ref, yield func(memory.Ref) bool)
}

// FreeAtOnce is how many elements the turn frees itself; more go to a reclaimer.
const FreeAtOnce = 64

// Register tells of a kind of roots, before the first of them.
func (s *Store) Register(k memory.Kind, f Structure) {
	invariant.That(k > KindTree && k < kinds && s.kinds[k].Destroy == nil, "kind %d registered twice or out of range", k)
	s.kinds[k] = f
	s.Heap.Register(k, f.Destroy)
	if f.Measure != nil {
		s.Heap.Measure(k, f.Measure)
	}
}

// NewRoot is a root block of n bytes, its header included, with zeros behind that.
func (s *Store) NewRoot(k memory.Kind, n int) memory.Ref {
	ref := s.Heap.Alloc(n, memory.Values)
	clear(memory.Bytes(ref, memory.UsableSize(ref)))
	*HeaderAt(ref) = Header{Epoch: s.Heap.Epoch(), kind: uint32(k)}
	return ref
}

// dupRoot is a copy of a root block, to stand in its place.
func (s *Store) dupRoot(root memory.Ref) memory.Ref {
	n := memory.UsableSize(root)
	ref := s.Heap.Alloc(n, memory.Values)
	copy(memory.Bytes(ref, n), memory.Bytes(root, n))
	HeaderAt(ref).Epoch = s.Heap.Epoch()
	return ref
}

// dropBlock lets go of a root's own block, of which a newer one has taken over what hangs off it (value.B2).
func (s *Store) dropBlock(root memory.Ref) {
	if h := HeaderAt(root); h.Epoch > s.Heap.Frozen() {
		s.Heap.Free(root, memory.Values)
	} else {
		s.retire(root, h.Moved())
	}
}

// DropRoot lets go of what hung off an entry of type t, at the position that is set.
// Cost: O(1); up to 64 elements are freed at once.
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
	objects := 0 // what INFO counts: values that are too large to be freed at once
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

// Count is the number of elements of a value that is kept in a structure.
func (s *Store) Count(v Value) int {
	root := v.Root()
	return s.kinds[HeaderAt(root).Kind()].Count(root)
}

// CopyRoot is a root with the same content as v's.
func (s *Store) CopyRoot(v Value) memory.Ref {
	root := v.Root()
	if v.Type() == String {
		return s.CopyLong(root)
	}
	kind := HeaderAt(root).Kind()
	if kind == KindPacked {
		return s.PackedOf(packedAt(root).bytes())
	}
	return s.kinds[kind].Copy(s, root)
}

// MoveRoot says that the value of type t at root is going to stand under another key.
func (s *Store) MoveRoot(t Type, root memory.Ref) {
	if t == String {
		s.Move(root)
	} else if s.Heap.Frozen() != 0 { // views know it, or what it shares with an older root, by the old position
		HeaderAt(root).moved = 1
	}
}

// MemoryUsage is what the entry costs in bytes with its share of the index; samples bounds how many elements of a
// collection are looked at (0: all).
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

// DestroyEntry frees the entry at ref and what hangs off it, for table.Destroy. Any goroutine, when the kinds are
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
