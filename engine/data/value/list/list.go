// Package list is the value of a list: its encodings, when they change, its operations, and a cursor that reads a live
// list and a frozen one alike.
//
// Owner: the core writes, in its turn; any goroutine may read a list of the View it was handed (R4).
// Never: allocates on the Go heap on the way of an operation at an end, or knows what a command, client or reply is.
// Start here; leaf.go is what an element lies in, cursor.go reads, finder.go finds, push.go, pop.go, insert.go, set.go
// and remove.go change, compress.go compresses what lies far from the ends, convert.go goes from one encoding to the
// other, structure.go lets go and copies.
package list

import (
	"unsafe"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// A list is a listpack while it is short, and from then on a tree of listpacks, which Redis calls a quicklist:
//
//	entry ─▶ listpack                                                                encoding listpack
//	entry ─▶ root {header, tree.State, …} ──▶ node ─▶ … ─▶ leaf, leaf, leaf, …     encoding quicklist
//
// A leaf is what Redis calls a node: a listpack of up to fill, or one element that is larger than that, by itself
// (plain).
//
// list.I1. Leaves are divided, filled and joined by the rules of Redis's quicklist, so that a list goes back to being a
// listpack when it would there: when one packed leaf is left that takes at most half of what a listpack may (Limits).
// The one exception is tight, below.
// list.I2. No leaf is empty. A root without leaves is an empty list, which the command removes or pushes to before it
// ends.
// list.I3. fill and depth are the settings at the time when the root was made; a list keeps them.
// list.I4. Of the depth outermost leaves at either end none is compressed; with a depth of 0 none is.
type root struct {
	value.Header
	nodes tree.State
	fill  int32
	depth uint32
}

// kept are the settings that the list keeps (list.I3).
func (r *root) kept() Limits { return Limits{Fill: int(r.fill), Depth: int(r.depth)} }

const rootBytes = 64

var _ [rootBytes]byte = [unsafe.Sizeof(root{})]byte{}

func rootAt(ref memory.Ref) *root { return (*root)(memory.Pointer(ref)) }

// An End is one of the two ends of a list.
type End bool

// The two ends.
const (
	Head End = false
	Tail End = true
)

// Len is the number of elements.
func Len(v value.Value) int {
	if lp := v.Packed(); lp != nil {
		return listpack.Count(lp)
	}
	return int(rootAt(v.Root()).nodes.Len())
}

// nodes is a structure while the core changes it.
type nodes struct {
	tree.Blocks
	root    *root
	store   *value.Store
	limits  Limits
	changes changes
}

// changes are what has become of the leaves since list.I4 was last seen to, as far as it matters to it. Only lists with
// a depth are asked.
type changes struct {
	came [2]int // leaves, by the end that they came nearer to; both, if it is not known
	gone int    // leaves, at most
	near uint64 // 1 + the rank of an element: its leaf and those beside it may have been changed
}

// open makes e's structure writable. What is done to it counts from close on.
func open(e *value.Edit, l Limits) nodes {
	r := rootAt(e.Root())
	l.Fill = int(r.fill) // list.I3
	return nodes{Blocks: tree.OpenBlocks(e.Heap(), value.KindTree, r.nodes, e.Wide()), root: r,
		store: e.Store(), limits: l}
}

func (t *nodes) close() {
	if t.root.depth != 0 {
		t.compress()
	}
	t.root.nodes = t.State
}
