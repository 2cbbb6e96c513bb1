// Package stream is the value of a stream: entries by ID, consumer groups, pending entries.
//
// Owner: the core writes, through a [Writer]. Any goroutine may read a [Stream] of a frozen value (R4).
// Never: knows commands, clients or replies, or keeps anything on the Go heap.
// Start here: the picture. node.go is the content of a leaf, range.go walks, append.go and trim.go change. group.go and
// pending.go are consumer groups, producers.go is the memory of message names. structure.go has the functions that the
// keyspace uses for roots.
package stream

import (
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// A stream is a root over two trees. Groups and consumers are separate blocks, with trees of pending entries.
//
//	root ─▶ entries: tree of nodes by the ID of the first entry ever in each      node: epoch, listpack (node.go)
//	     └▶ groups:  tree of (name's first 8 bytes, Ref) in order of names
//	                   │
//	                   ▼
//	                 Group ─▶ name
//	                       ├▶ pending: tree of (ID, delivery time, count, name of the consumer), 32 bytes each
//	                       └▶ consumers: tree of (name's first 8 bytes, Ref) in order of names
//	                                       │
//	                                       ▼
//	                                     Consumer ─▶ name, which pending records point to
//	                                              └▶ pending: tree of IDs, 16 bytes each
//
// stream.S1. A node's count is the number of its entries that are not deleted, at least 1. When the last live entry of
// a node is deleted, the node is removed.
// stream.S2. Keys of nodes ascend, and so do the IDs in a node. None is above last.
// stream.S3. first is the least ID that is not deleted, or 0-0 in an empty stream.
// stream.S4. A record is pending in a group iff its ID is pending with the one consumer that the record names.
// stream.S5. Names are blocks that never change. A view's pending records may point to a name whose consumer has been
// copied since.
// stream.S6. Group and Consumer begin with their epoch, and are copied as nodes of a tree are (tree/cow.go, tree.E1 to
// tree.E4).
//
// Source: nodes are encoded as in RDB, so that saving and loading copy bytes.
type root struct {
	value.Header
	entries    tree.State
	groups     tree.State
	last       ID // the greatest ID ever given out
	first      ID
	maxDeleted ID         // the greatest ID ever deleted by XDEL
	added      uint64     // entries ever added
	destroyed  uint64     // groups that Destroy has freed
	memo       memory.Ref // the memory of message names (producers.go), or 0
}

const rootBytes = int(unsafe.Sizeof(root{}))

func rootAt(ref memory.Ref) *root { return (*root)(memory.Pointer(ref)) }

// A Stream is a stream for reading, live or frozen.
//
// Lifetime: that of the Value.
type Stream struct{ r *root }

// Of returns v's stream.
func Of(v value.Value) Stream { return Stream{rootAt(v.Root())} }

// At returns the stream at root.
func At(root memory.Ref) Stream { return Stream{rootAt(root)} }

func (s Stream) Len() uint64 { return s.r.entries.Len() }

// LastID returns the greatest ID ever given out.
func (s Stream) LastID() ID { return s.r.last }

// FirstID returns the ID of the first entry, or 0-0 in an empty stream.
func (s Stream) FirstID() ID { return s.r.first }

// MaxDeleted returns the greatest ID deleted by XDEL, or 0-0 if there is none.
func (s Stream) MaxDeleted() ID { return s.r.maxDeleted }

// Added returns the number of entries ever added.
func (s Stream) Added() uint64 { return s.r.added }

// Nodes returns the number of nodes. O(nodes / 63).
func (s Stream) Nodes() int { return s.r.entries.Leaves() }

// New returns the root of an empty stream.
func New(s *value.Store) memory.Ref { return s.NewRoot(value.KindStream, rootBytes) }

// A Writer is a stream that the core is changing. It is a value for the stack.
type Writer struct {
	Stream
	heap  *memory.Heap
	store *value.Store
	wide  bool
}

// Edit opens e's stream.
//
// Lifetime: until the next call of another Edit of the same key (value.Edit, value.K1 to value.K3).
func Edit(e *value.Edit) Writer {
	ref := e.Root()
	return Writer{Stream{rootAt(ref)}, e.Heap(), e.Store(), e.Wide()}
}

// Build opens the stream at root, which is in no keyspace yet. It is for loaders, over several turns. Views may be
// opened and closed between the turns.
func Build(s *value.Store, root memory.Ref) Writer {
	return Writer{Stream{rootAt(root)}, s.Heap, s, true}
}

func (w *Writer) blocks() tree.Blocks {
	return tree.OpenBlocks(w.heap, value.KindTree, w.r.entries, w.wide)
}

// release frees or retires a block stamped with epoch that the stream no longer reaches.
func (w *Writer) release(ref memory.Ref, epoch uint64) {
	switch {
	case epoch > w.heap.Frozen():
		w.heap.Free(ref, memory.Values)
	case w.wide:
		w.heap.RetireWide(ref, memory.Values)
	default:
		w.heap.Retire(ref, memory.Values)
	}
}

// SetID does the work of XSETID. last becomes the greatest ID given out. added is the number of entries ever added; a
// negative number leaves it unchanged. A maxDeleted of 0-0 changes nothing.
func (w *Writer) SetID(last ID, added int64, maxDeleted ID) {
	w.r.last = last
	if added >= 0 {
		w.r.added = uint64(added)
	}
	if maxDeleted != (ID{}) {
		w.r.maxDeleted = maxDeleted
	}
}
