package list

import (
	"unsafe"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// Structure is the set of functions that the keyspace uses for the root of a quicklist.
var Structure = value.Structure{
	Count: count, Destroy: destroy, Measure: measure, Cost: cost, Copy: duplicate,
	LenAt: int(unsafe.Offsetof(root{}.nodes)) + tree.StateLen,
	Relocate: func(s *value.Store, ref memory.Ref, at *table.Spot, stop func() bool) (done bool) {
		return rootAt(ref).nodes.Relocate(s.Heap, &at.At, stop)
	},
}

// nodeShare is about how many bytes a leaf costs in the nodes above it.
const nodeShare = 40

func count(ref memory.Ref) int { return int(rootAt(ref).nodes.Len()) }

func destroy(r *memory.Returner, ref memory.Ref, budget int) (rest memory.Ref, spent int) {
	done, spent := rootAt(ref).nodes.Destroy(r, budget)
	if !done {
		return ref, spent
	}
	r.Free(ref, memory.Values)
	return 0, spent + 1
}

func measure(ref memory.Ref) int64 { return int64(memory.UsableSize(ref)) + rootAt(ref).nodes.Bytes() }

func cost(ref memory.Ref, samples int) int {
	s := rootAt(ref).nodes
	var p tree.Path
	bytes, seen := 0, 0
	for ok := s.FirstLeaf(&p); ok && (samples == 0 || seen < samples); ok = p.Next() {
		bytes += memory.UsableSize(p.Leaf()) + nodeShare
		seen++
	}
	if seen == 0 {
		return memory.UsableSize(ref)
	}
	return memory.UsableSize(ref) + int(float64(bytes)/float64(seen)*float64(s.Leaves()))
}

// duplicate returns a deep copy. The copy's leaves have no spare room.
func duplicate(s *value.Store, ref memory.Ref) memory.Ref {
	r := rootAt(ref)
	b := NewBuilder(s, r.limits())
	var p tree.Path
	for ok := r.nodes.FirstLeaf(&p); ok; ok = p.Next() {
		b.t.addCopy(&b.p, p.Leaf(), int(r.nodes.CountOf(&p)))
	}
	return b.Root()
}

// A Builder makes a list of complete pieces, for copies and for loads from files. The core uses it, over several turns
// if needed. No view contains the list, even if views are opened meanwhile. So the list has no position, and its blocks
// are retired wide.
type Builder struct {
	t    nodes
	p    tree.Path
	root memory.Ref
}

// NewBuilder begins an empty list.
func NewBuilder(s *value.Store, l Limits) Builder {
	ref := New(s, l)
	t := nodes{Blocks: tree.OpenBlocks(s.Heap, value.KindTree, tree.State{}, true), root: rootAt(ref), store: s, limits: l}
	return Builder{t, tree.Path{}, ref}
}

// AddPacked appends the elements of a listpack as a leaf, or as several if it is too long. lp must have passed
// listpack.Validate with deep, and must not be empty.
func (b *Builder) AddPacked(lp []byte) { b.add(lp, listpack.Count(lp)) }

func (b *Builder) add(lp []byte, count int) {
	b.t.added(&b.p, Tail, b.t.addPacked(&b.p, lp, count, exactly))
}

// AddPlain appends a plain leaf with this element.
func (b *Builder) AddPlain(text []byte) {
	b.t.addLeaf(&b.p, b.t.newPlain(text), 1, Tail)
	b.t.added(&b.p, Tail, 1)
}

// Push appends one element, as RPUSH would.
func (b *Builder) Push(el listpack.Element) { b.t.push(&b.p, Tail, el, el.Len()) }

func (b *Builder) Len() int { return int(b.t.Len()) }

// Root returns the list so far, complete, for keyspace.DB.PutRoot. It belongs to the caller.
func (b *Builder) Root() memory.Ref {
	b.t.close()
	return b.root
}
