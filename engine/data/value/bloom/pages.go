package bloom

import (
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/internal/invariant"
)

// The bits of a link lie in leaves of 4 KB under nodes of 512 words. The number of levels of nodes depends on the
// link's size. It is none up to 4 KB, one up to 2 MB, two up to 1 GB. An item sets bits anywhere, and while a view is
// open each of them may cost the copy of a leaf. So leaves are small.
//
//	link.top ─▶ node: epoch u64, 512 words ─▶ node ─▶ leaf: 4096 bytes, the last one as long as the bits are
//	word: 0: nothing but zeros below | Ref | bit 0 shared (of a leaf)
//
// bloom.P1. A word of 0 means zeros that were never written. So a filter's cost in memory depends on its set bits, not
// on its capacity.
// bloom.P2. A node stamped at or below heap.Frozen() may have readers of a view: it is copied, not written. In the copy
// all leaves are marked as shared. The root does the same for links whose top is a leaf.
// bloom.P3. A shared leaf is replaced, not written, while a view is open.
// bloom.P4. The newest root owns nodes and leaves. An older root, kept for a view, owns only its root block.
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

// PageBytes is the size of a page of a filter.
const PageBytes = leafBytes

var zeros [leafBytes]byte

func refOf(word uint64) memory.Ref { return memory.Ref(word & pageRef) }

func nodeAt(word uint64) *node { return (*node)(memory.Pointer(refOf(word))) }

// levelsFor returns how many levels of nodes a link of this many bytes needs. bytes is at most MaxBytes.
func levelsFor(bytes uint64) (n uint8) {
	for room := uint64(leafBytes); room < bytes; room *= fanOut {
		n++
	}
	return n
}

// leafSize returns the length of leaf i.
func (l *link) leafSize(i uint64) int { return int(min(leafBytes, l.bytes-i<<leafShift)) }

// leaf returns leaf i, for reading only, or 0 if it was never written. Any goroutine may call it.
func (l *link) leaf(i uint64) memory.Ref {
	word := l.top
	for level := l.levels; level > 0 && word != 0; level-- {
		word = nodeAt(word).words[i>>((level-1)*fanShift)&(fanOut-1)]
	}
	return refOf(word)
}

// read returns the bytes of leaf i.
func (l *link) read(i uint64) []byte {
	if ref := l.leaf(i); ref != 0 {
		return memory.Bytes(ref, l.leafSize(i))
	}
	return zeros[:l.leafSize(i)]
}

// A writer writes pages of one root, which must be writable.
type writer struct {
	heap *memory.Heap
	root *root
	wide bool // its pages are retired wide
}

// write makes e's chain writable. If a view reads the root block, the block is copied, and the leaves directly under it
// are marked as shared (bloom.P2).
func write(e *value.Edit) writer {
	old := e.Value().Root()
	ref := e.Root()
	r := rootAt(ref)
	if ref != old {
		r.share()
	}
	return writer{e.Heap(), r, e.Wide()}
}

// share marks the leaves directly under r as shared, because a view may read them.
func (r *root) share() {
	for i := range int(r.links) {
		if l := r.link(i); l.levels == 0 && l.top != 0 {
			l.top |= pageShared
		}
	}
}

// leaf returns leaf i of l, writable (bloom.P2, bloom.P3).
//
// Cost: if no view is open, a load for each level. After a freeze, the first write copies the node of each level and
// the leaf.
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

// node returns the node to which word leads, writable.
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

// retire retires a page that views may read, at the position that e.Root set.
func (w *writer) retire(ref memory.Ref) {
	w.root.held -= uint64(memory.UsableSize(ref))
	if w.wide {
		w.heap.RetireWide(ref, memory.Values)
	} else {
		w.heap.Retire(ref, memory.Values)
	}
}
