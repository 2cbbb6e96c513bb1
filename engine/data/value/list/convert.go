package list

import (
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// New returns the root of an empty list, for keyspace.DB.CreateRoot. The command must push an element before it ends.
func New(s *value.Store, l Limits) memory.Ref {
	ref := s.NewRoot(value.KindList, rootBytes)
	rootAt(ref).fill, rootAt(ref).depth = int32(l.Fill), uint32(min(l.Depth, deepest))
	return ref
}

// Grow turns a listpack into a quicklist if it has no room for count more elements of bytes bytes together.
func Grow(e *value.Edit, l Limits, bytes, count int) {
	if lp := e.Packed(); lp != nil && l.exceeded(len(lp)+bytes, listpack.Count(lp)+count, 0) {
		unpack(e, l)
	}
}

// unpack turns the list into a quicklist. The listpack's content becomes its first leaf, or several leaves if it is too
// long.
func unpack(e *value.Edit, l Limits) {
	ref := New(e.Store(), l)
	if lp := e.Packed(); listpack.First(lp) != 0 {
		t := nodes{Blocks: tree.OpenBlocks(e.Heap(), value.KindTree, tree.State{}, false)}
		var p tree.Path
		t.addPacked(&p, lp, listpack.Count(lp), growing)
		rootAt(ref).nodes = t.State
	}
	e.SetRoot(value.Quicklist, ref)
}

// Shrink turns the list into a listpack again if it has become short enough. Each command that removed or replaced
// elements calls it afterwards.
func Shrink(e *value.Edit, l Limits) {
	if n := Len(e.Value()); l.halved(2*n, n) { // an entry takes at least two bytes, so a long list need not be read
		pack(e, l.halved)
	}
}

// pack turns the list into a listpack if all of it is in one packed leaf that is small enough. The present setting
// decides, not the one that the list stores.
func pack(e *value.Edit, small func(bytes, count int) bool) {
	if e.Packed() != nil {
		return
	}
	var p tree.Path
	s := &rootAt(e.Value().Root()).nodes
	if !s.FirstLeaf(&p) || s.CountOf(&p) != s.Len() || isPlain(p.Leaf()) {
		return
	}
	if !small(len(packedAt(p.Leaf())), int(s.Len())) {
		return
	}
	wide, leaf := e.Wide(), p.Leaf()
	rootAt(e.Root()).nodes = tree.State{} // the leaf now belongs to this function
	lp := packedAt(leaf)
	copy(e.Replace(value.Listpack, len(lp)), lp)
	switch h := e.Heap(); {
	case *memory.Word(leaf) > h.Frozen():
		h.Free(leaf, memory.Values)
	case wide:
		h.RetireWide(leaf, memory.Values)
	default:
		h.Retire(leaf, memory.Values)
	}
}
