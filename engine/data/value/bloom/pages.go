package bloom

import (
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/internal/invariant"
)

// The bits of a link lie in leaves of 4 KB under nodes of 512 words, as many levels as it takes: none up to 4 KB, one
// up to 2 MB, two up to 1 GB, three up to 512 GB. An item sets bits anywhere, so that under a view each of them may
// cost the copy of a leaf: leaves are small.
//
//	link.top ─▶ node: epoch u64, 512 words ─▶ node ─▶ leaf: 4096 bytes, the last one as long as the bits are
//	word: 0: nothing but zeros below | Ref | bit 0 shared (of a leaf)
//
// bloom.P1. A word of 0 is zeros that were never written: a filter costs what was set in it, not what it was made for.
// bloom.P2. A node stamped at or below heap.Frozen() may be under a view: it is copied, not written, and in the copy
// all leaves are shared. The root does the same for the links whose top is a leaf.
// bloom.P3. A shared leaf is replaced, not written, while a view lives.
// bloom.P4. The newest root owns nodes and leaves; an older one, kept for a view, owns its own block alone.
type node struct {
	epoch uint64
	words [fanOut]uint64
}

const (
	fanShift  = 9
	fanOut    = 1 << fanShift
	leafShift = 12
	leafBytes = 1 << leafShift
	nodeBytes = int(unsafe.Sizeof(node{}))

	pageShared = 1
	pageRef    = 1<<48 - 8
)

// PageBytes is how many bytes of a filter lie together.
const PageBytes = leafBytes

var zeros [leafBytes]byte

func refOf(word uint64) memory.Ref { return memory.Ref(word & pageRef) }

func nodeAt(word uint64) *node { return (*node)(memory.Pointer(refOf(word))) }

// levelsFor is how many levels of nodes so many bytes need, MaxBytes at most.
func levelsFor(bytes uint64) (n uint8) {
	for room := uint64(leafBytes); room < bytes; room *= fanOut {
		n++
	}
	return n
}

// leafSize is the length of leaf i.
func (l *link) leafSize(i uint64) int { return int(min(leafBytes, l.bytes-i<<leafShift)) }

// leaf is leaf i to be read, 0 if it was never written. Any goroutine.
func (l *link) leaf(i uint64) memory.Ref {
	word := l.top
	for level := l.levels; level > 0 && word != 0; level-- {
		word = nodeAt(word).words[i>>((level-1)*fanShift)&(fanOut-1)]
	}
	return refOf(word)
}

// read is the bytes of leaf i.
func (l *link) read(i uint64) []byte {
	if ref := l.leaf(i); ref != 0 {
		return memory.Bytes(ref, l.leafSize(i))
	}
	return zeros[:l.leafSize(i)]
}

// A writer writes pages of one root, which it has made writable.
type writer struct {
	heap *memory.Heap
	root *root
	wide bool // what it lets go of is retired wide
}

// write makes the chain behind e writable: its root block is copied if a view reads it, and then the leaves that hang
// off it are shared (bloom.P2).
func write(e *value.Edit) writer {
	old := e.Value().Root()
	ref := e.Root()
	r := rootAt(ref)
	if ref != old {
		r.share()
	}
	return writer{e.Heap(), r, e.Wide()}
}

// share says that a view may read the leaves that hang off r itself.
func (r *root) share() {
	for i := range int(r.links) {
		if l := r.link(i); l.levels == 0 && l.top != 0 {
			l.top |= pageShared
		}
	}
}

// leaf is leaf i of l to be written (bloom.P2, bloom.P3).
//
// Cost: with no view, a load for each level; under one, the copy of a node for each level and of the leaf, the first
// time.
func (w *writer) leaf(l *link, i uint64) []byte {
	word := &l.top
	for level := l.levels; level > 0; level-- {
		word = &w.node(word, level == 1).words[i>>((level-1)*fanShift)&(fanOut-1)]
	}
	n := l.leafSize(i)
	switch {
	case *word == 0:
		*word = uint64(w.alloc(n))
		clear(memory.Bytes(refOf(*word), n))
	case *word&pageShared == 0:
	case w.heap.Frozen() == 0:
		*word &^= pageShared
	default:
		old := refOf(*word)
		dup := w.alloc(n)
		copy(memory.Bytes(dup, n), memory.Bytes(old, n))
		*word = uint64(dup)
		w.retire(old)
	}
	return memory.Bytes(refOf(*word), n)
}

// node is the node at word to be written.
func (w *writer) node(word *uint64, overLeaves bool) *node {
	if *word == 0 {
		*word = uint64(w.alloc(nodeBytes))
		n := nodeAt(*word)
		*n = node{epoch: w.heap.Epoch()}
		return n
	}
	n := nodeAt(*word)
	if n.epoch > w.heap.Frozen() {
		return n
	}
	old := refOf(*word)
	*word = uint64(w.alloc(nodeBytes))
	dup := nodeAt(*word)
	*dup = *n
	dup.epoch = w.heap.Epoch()
	invariant.That(dup.epoch > w.heap.Frozen(), "bloom.P2: node stamped %d under freeze %d", dup.epoch, w.heap.Frozen())
	if overLeaves {
		for i, word := range dup.words {
			if word != 0 {
				dup.words[i] = word | pageShared
			}
		}
	}
	w.retire(old)
	return dup
}

func (w *writer) alloc(n int) memory.Ref {
	ref := w.heap.Alloc(n, memory.Values)
	w.root.held += uint64(memory.UsableSize(ref))
	return ref
}

// retire lets a page go that views may read, at the position that e.Root set.
func (w *writer) retire(ref memory.Ref) {
	w.root.held -= uint64(memory.UsableSize(ref))
	if w.wide {
		w.heap.RetireWide(ref, memory.Values)
	} else {
		w.heap.Retire(ref, memory.Values)
	}
}
