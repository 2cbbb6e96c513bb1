package bloom

import (
	"spindle/engine/data/memory"
	"spindle/engine/data/value"
	"spindle/internal/invariant"
)

// A Reader reads a chain, live or frozen. Lifetime: that of its Value.
type Reader struct{ root *root }

// Read returns a Reader of v, which must be a Bloom filter.
func Read(v value.Value) Reader {
	invariant.That(IsFilter(v), "not a Bloom filter")
	return Reader{rootAt(v.Root())}
}

// Has reports whether item is in the chain. It may return true for an item that is not (a false positive).
func (r Reader) Has(item []byte) bool { return r.root.has(bitsOf(item, r.root.options), nil) }

// HasWithin is Has within the bound b, for a call that looks up several items.
//
// Errors: ErrWork.
func (r Reader) HasWithin(item []byte, b *Bound) (bool, error) {
	if b.spent() {
		return false, ErrWork
	}
	return r.root.has(bitsOf(item, r.root.options), b), nil
}

// Items returns the number of items added.
func (r Reader) Items() uint64 { return r.root.items }

// Growth returns the factor of the next link's capacity.
func (r Reader) Growth() uint32 { return r.root.growth }

// Options returns how the chain was made.
func (r Reader) Options() Options { return r.root.options }

// Links returns the number of filters.
func (r Reader) Links() int { return int(r.root.links) }

// Link returns the description of filter i.
func (r Reader) Link(i int) Link { return r.root.link(i).describe() }

// Chunk yields n of the chain's bytes, beginning at off, in the pieces in which they are stored. They must lie within
// one link.
func (r Reader) Chunk(off int64, n int, yield func([]byte) bool) {
	i, at := r.root.find(off)
	if i >= 0 {
		r.root.link(i).pieces(at, uint64(n), yield)
	}
}

// Ahead returns how many bytes are left from off to the end of its link. It returns 0 after the chain's end.
func (r Reader) Ahead(off int64) uint64 {
	i, at := r.root.find(off)
	if i < 0 {
		return 0
	}
	return r.root.link(i).bytes - at
}

// Bits yields the bytes of filter i in order. Each piece is either bytes, or the length of a run of zeros that was
// never written.
//
// Cost: it grows with the written pages, not with the filter (bloom.P1).
func (r Reader) Bits(i int, yield func(p []byte, zeros int) bool) {
	l := r.root.link(i)
	l.walk(l.top, l.levels, 0, yield)
}

// Empty returns how many bytes of filter i were never written.
func (r Reader) Empty(i int) (n int) {
	r.Bits(i, func(_ []byte, zeros int) bool {
		n += zeros
		return true
	})
	return n
}

// walk is Bits for the subtree at word. first is the number of the subtree's first leaf.
func (l *link) walk(word uint64, level uint8, first uint64, yield func(p []byte, zeros int) bool) bool {
	begin := first << leafShift
	switch {
	case begin >= l.bytes:
		return true
	case word == 0:
		return yield(nil, int(min(l.bytes-begin, leafBytes<<(level*fanShift))))
	case level == 0:
		return yield(memory.Bytes(refOf(word), l.leafSize(first)), 0)
	}
	for i, below := range nodeAt(word).words {
		if !l.walk(below, level-1, first+uint64(i)<<((level-1)*fanShift), yield) {
			return false
		}
	}
	return true
}

func (l *link) pieces(at, n uint64, yield func([]byte) bool) {
	for n > 0 {
		p := l.read(at >> leafShift)[at&(leafBytes-1):]
		p = p[:min(uint64(len(p)), n)]
		if !yield(p) {
			return
		}
		at += uint64(len(p))
		n -= uint64(len(p))
	}
}
