// Package stream is streams as values: entries by ID, consumer groups, what is pending.
//
// Owner: the core writes, through a [Writer]; a [Stream] of a frozen value may be read by any goroutine (R4).
// Never: knows commands, clients or replies, or keeps anything on the Go heap.
// Start here: the picture. node.go is what a leaf holds, range.go walks, append.go and trim.go change, group.go and
// pending.go are consumer groups, structure.go is what can be done with a stream without knowing what it is.
package stream

import (
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// A stream is a root over two trees; a group and a consumer are blocks of their own, with trees of what is pending.
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
// stream.S1. The count of a node is that of its entries that are not deleted, at least 1; a node whose last entry is
// deleted goes.
// stream.S2. Keys of nodes ascend, and so do the IDs in a node; none is above last.
// stream.S3. first is the least ID that is not deleted, or 0-0 in an empty stream.
// stream.S4. A record is pending in a group iff its ID is pending with the one consumer it names.
// stream.S5. Names are blocks that never change: pending records of a view may point to one whose consumer has been
// copied since.
// stream.S6. Group and Consumer begin with their epoch, and are copied as nodes of a tree are (tree/cow.go, tree.E1 to
// tree.E4).
//
// Source: the encoding of nodes is the published one of RDB, so that saving and loading copy bytes.
type root struct {
	value.Header
	entries    tree.State
	groups     tree.State
	last       ID // the greatest ID ever given out
	first      ID
	maxDeleted ID     // the greatest ID ever deleted by XDEL
	added      uint64 // entries ever added
	destroyed  uint64 // groups that Destroy is done with
}

const rootBytes = int(unsafe.Sizeof(root{}))

func rootAt(ref memory.Ref) *root { return (*root)(memory.Pointer(ref)) }

// A Stream is a stream to be read, live or frozen.
//
// Lifetime: as the Value's.
type Stream struct{ r *root }

// Of is the stream that v is.
func Of(v value.Value) Stream { return Stream{rootAt(v.Root())} }

// At is the stream at root.
func At(root memory.Ref) Stream { return Stream{rootAt(root)} }

// Len is the number of entries.
func (s Stream) Len() uint64 { return s.r.entries.Len() }

// LastID is the greatest ID ever given out.
func (s Stream) LastID() ID { return s.r.last }

// FirstID is the ID of the first entry, 0-0 in an empty stream.
func (s Stream) FirstID() ID { return s.r.first }

// MaxDeleted is the greatest ID that was ever deleted by itself, 0-0 if none was.
func (s Stream) MaxDeleted() ID { return s.r.maxDeleted }

// Added is the number of entries ever added.
func (s Stream) Added() uint64 { return s.r.added }

// Nodes is the number of nodes. O(nodes / 63).
func (s Stream) Nodes() int { return s.r.entries.Leaves() }

// New is the root of an empty stream.
func New(s *value.Store) memory.Ref { return s.NewRoot(value.KindStream, rootBytes) }

// A Writer is a stream while the core changes it. It is a value for the stack.
type Writer struct {
	Stream
	heap *memory.Heap
	wide bool
}

// Edit opens the stream that e is.
//
// Lifetime: until the next call of another Edit of the same key (value.Edit, value.K1 to value.K3).
func Edit(e *value.Edit) Writer {
	ref := e.Root()
	return Writer{Stream{rootAt(ref)}, e.Heap(), e.Wide()}
}

// Build opens the stream at root, which is in no keyspace yet: for loaders, in turns between which views may come and
// go.
func Build(s *value.Store, root memory.Ref) Writer { return Writer{Stream{rootAt(root)}, s.Heap, true} }

func (w *Writer) blocks() tree.Blocks {
	return tree.OpenBlocks(w.heap, value.KindTree, w.r.entries, w.wide)
}

// letGo frees or retires a block of this epoch or an older one that nothing of the stream leads to any more.
func (w *Writer) letGo(ref memory.Ref, epoch uint64) {
	switch {
	case epoch > w.heap.Frozen():
		w.heap.Free(ref, memory.Values)
	case w.wide:
		w.heap.RetireWide(ref, memory.Values)
	default:
		w.heap.Retire(ref, memory.Values)
	}
}

// SetID is XSETID: last is the greatest ID given out from now on. added is the entries ever added, below 0 to leave
// them; maxDeleted stays if it is given as 0-0.
func (w *Writer) SetID(last ID, added int64, maxDeleted ID) {
	w.r.last = last
	if added >= 0 {
		w.r.added = uint64(added)
	}
	if maxDeleted != (ID{}) {
		w.r.maxDeleted = maxDeleted
	}
}
