// Package list is the value of a list: its encodings, when they change, its operations, and a cursor that reads live
// and frozen lists.
//
// Owner: the core writes, in its turn. Any goroutine may read a list of a View that it was given (R4).
// Never: allocates on the Go heap in an operation at an end, or knows what a command, client or reply is.
// Start here. leaf.go is the block of a leaf, cursor.go reads, finder.go finds. push.go, pop.go, insert.go, set.go and
// remove.go change a list. compress.go compresses leaves far from the ends. convert.go changes the encoding.
// structure.go frees and copies.
package list

import (
	"unsafe"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// A list is a listpack while it is short. A longer list is a tree of listpacks, which Redis calls a quicklist:
//
//	entry ─▶ listpack                                                                encoding listpack
//	entry ─▶ root {header, tree.State, …} ──▶ node ─▶ … ─▶ leaf, leaf, leaf, …     encoding quicklist
//
// Redis calls a leaf a node. A leaf is a listpack within the limit fill, or a single element that is larger than that
// limit (plain).
//
// list.I1. Leaves are split, filled and joined by the rules of Redis's quicklist. So a list becomes a listpack again
// exactly when it would in Redis. That is when one packed leaf is left, of at most half the limit of a listpack
// (Limits). The constant tight is the one exception.
// list.I2. No leaf is empty. A root without leaves is an empty list. Before the command ends, it removes the list or
// pushes an element.
// list.I3. fill and depth are the settings at the time when the root was made. The list keeps them.
// list.I4. The outermost depth leaves at either end are not compressed. With a depth of 0 no leaf is compressed.
type root struct {
	value.Header
	nodes tree.State
	fill  int32
	depth uint32
}

// limits returns the settings that the list stores (list.I3).
func (r *root) limits() Limits { return Limits{Fill: int(r.fill), Depth: int(r.depth)} }

const rootBytes = 64

var _ [rootBytes]byte = [unsafe.Sizeof(root{})]byte{}

func rootAt(ref memory.Ref) *root { return (*root)(memory.Pointer(ref)) }

// An End is one of the two ends of a list.
type End bool

const (
	Head End = false
	Tail End = true
)

// Len returns the number of elements.
func Len(v value.Value) int {
	if lp := v.Packed(); lp != nil {
		return listpack.Count(lp)
	}
	return int(rootAt(v.Root()).nodes.Len())
}

// nodes is a quicklist that the core is changing.
type nodes struct {
	tree.Blocks
	root    *root
	store   *value.Store
	limits  Limits
	changes changes
}

// changes counts the changes of leaves since compress last restored list.I4. Only lists with a depth use it.
type changes struct {
	came [2]int // new leaves, by the end to which they are nearer; counted in both if unknown
	gone int    // removed leaves, at most
	near uint64 // 1 + an element's rank: its leaf and the leaves next to it may have changed
}

// open makes e's structure writable. The root gets the changes at close.
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
