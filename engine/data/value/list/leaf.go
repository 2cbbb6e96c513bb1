package list

import (
	"encoding/binary"
	"iter"
	"unsafe"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/tree"
	"spindle/internal/invariant"
)

// A leaf is a block of the tree. A packed one lies anywhere in it, so that it grows and shrinks at either end without
// moving:
//
//	0        8        16        at            at+bytes     the block's end
//	+--------+--------+---------+-------------+------------+
//	| epoch  | at     | unused  | listpack    | unused     |    packed
//	+--------+--------+---------+-------------+------------+
//	| epoch  | 1<<63 | n        | n bytes                  |    plain
//	+--------+--------+----------------------- ~ ----------+
//	| epoch  | …      | n compressed bytes                 |    compressed: 1<<62 | size<<31 | n, and 1<<63 if it was plain
//	+--------+--------+----------------------- ~ ----------+
//
// A prepend writes the entry before the first one and then the listpack's header, six bytes, before that; a pop at the
// head moves those six bytes up.
const (
	leafHeader     = 16
	plainMark      = 1 << 63
	compressedMark = 1 << 62
)

func leafWord(ref memory.Ref) *uint64 { return memory.Word(ref + 8) }

// plainAt is the element of a plain leaf, where it lies, or, if it is compressed, in new memory.
func plainAt(ref memory.Ref) (text []byte, ok bool) {
	w := *leafWord(ref)
	if w&plainMark == 0 {
		return nil, false
	}
	if w&compressedMark != 0 {
		return expanded(ref), true
	}
	return memory.Bytes(ref+leafHeader, int(w&^plainMark)), true
}

func isPlain(ref memory.Ref) bool { return *leafWord(ref)&plainMark != 0 }

// listpackAt is the listpack of a leaf that is not plain, where it lies, or, if it is compressed, in new memory.
func listpackAt(ref memory.Ref) []byte {
	if isCompressed(ref) {
		return expanded(ref)
	}
	return packedAt(ref)
}

// packedAt is the listpack of a packed leaf.
func packedAt(ref memory.Ref) []byte {
	p := unsafe.Add(memory.Pointer(ref), *leafWord(ref))
	n := binary.LittleEndian.Uint32(unsafe.Slice((*byte)(p), 4))
	return unsafe.Slice((*byte)(p), int(n))
}

// newPlain is a plain leaf with this element.
func (t *nodes) newPlain(text []byte) memory.Ref {
	ref, to := t.plainOf(len(text))
	copy(to, text)
	return ref
}

// plainOf is a plain leaf with an element of n undefined bytes, which it returns.
func (t *nodes) plainOf(n int) (ref memory.Ref, text []byte) {
	ref = t.NewLeaf(leafHeader + n)
	*leafWord(ref) = plainMark | uint64(n)
	return ref, memory.Bytes(ref+leafHeader, n)
}

// newPacked is a packed leaf of size undefined bytes, which it returns. room is for the whole block; the listpack lies
// at the end of it if it is to grow at its head.
func (t *nodes) newPacked(size, room int, grow End) (ref memory.Ref, lp []byte) {
	ref = t.NewLeaf(max(room, leafHeader+size))
	at := leafHeader
	if grow == Head {
		at = memory.UsableSize(ref) - size
	}
	*leafWord(ref) = uint64(at)
	return ref, memory.Bytes(ref, at+size)[at:]
}

// growing is the room for a leaf that needs n bytes and will soon need more: twice that, but no more than the largest
// small block before it must be. A full leaf of the usual 8 KB is that block (tight).
func growing(n int) int {
	if n <= memory.MaxSmall {
		return min(2*n, memory.MaxSmall)
	}
	return n + n/8
}

// roomy is the room for a copy of a leaf that needs n bytes and may need a few more one day: a leaf that fits a small
// block stays in one, because small blocks are warm while a view lives, when most copies are made, and runs are not.
func roomy(n int) int {
	if n <= memory.MaxSmall {
		return min(n+n/4, memory.MaxSmall)
	}
	return n + n/8
}

// tight is what a leaf that is not alone leaves free of what Redis would fill, so that header and listpack together
// take what the listpack takes there, and no block of the next size. A list of one leaf, and one that becomes that,
// keeps the exact limit: there the difference would show in OBJECT ENCODING.
const tight = leafHeader

// single is a listpack leaf with this one element.
func (t *nodes) single(el listpack.Element, grow End) memory.Ref {
	size := listpack.EmptyLen + el.EncodedLen()
	ref, lp := t.newPacked(size, growing(leafHeader+size), grow)
	listpack.AppendEmpty(lp[:0])
	s := listpack.Prepend(size-listpack.EmptyLen, 1)
	s.Open(lp)
	el.Put(s.Gap(lp))
	return ref
}

// allows says whether an element of n bytes may be added to p's leaf.
func (t *nodes) allows(p *tree.Path, n int) bool {
	ref := p.Leaf()
	if ref == 0 || isPlain(ref) {
		return false
	}
	return t.limits.takes(listpackBytes(ref), t.CountOf(p), t.Len(), n)
}

// takes says whether an element of n bytes may be added to a leaf of so many bytes and elements, in a list of all.
func (l Limits) takes(bytes int, count, all uint64, n int) bool {
	less := 0
	if count != all {
		less = tight
	}
	return !l.plain(n) && !l.exceeded(bytes+n+overhead, int(count)+1, less)
}

// splice makes the gap of s in p's leaf, which is packed and does not become empty, and returns its listpack: the
// header is set, the gap is undefined. p stays at the leaf.
// Cost: the shorter of what lies before and behind the gap moves; a copy of the leaf when a view reads it or its block
// is too small.
func (t *nodes) splice(p *tree.Path, s listpack.Splice) []byte {
	ref := p.Leaf()
	count := t.CountOf(p) + uint64(s.Count)
	invariant.That(!isCompressed(ref), "a compressed leaf is spliced")
	if *memory.Word(ref) > t.store.Heap.Frozen() {
		if lp := spliceIn(ref, s); lp != nil {
			if s.Count != 0 {
				t.SetCount(p, count)
			}
			return lp
		}
	}
	old := packedAt(ref)
	size := len(old) + s.Grow()
	room, grow := leafHeader+size, Tail
	if s.Grow() > 0 {
		room = growing(room)
		if s.Off == listpack.HeaderLen && s.Del == 0 {
			grow = Head
		}
	} else {
		room = roomy(room)
	}
	dup, lp := t.newPacked(size, room, grow)
	s.CopyTo(lp, old)
	t.SetLeaf(p, dup, count, tree.Key{})
	return lp
}

// spliceIn is splice within the leaf's own block, nil if that has too little room for it, or far too much.
func spliceIn(ref memory.Ref, s listpack.Splice) []byte {
	at, room := int(*leafWord(ref)), memory.UsableSize(ref)
	old := packedAt(ref)
	by := s.Grow()
	size := len(old) + by
	if by == 0 {
		listpack.SetHeader(old, size, s.Count)
		return old
	}
	if leafHeader+size > room || tooRoomy(size, room) {
		return nil
	}
	before, behind := s.Off, len(old)-s.Off-s.Del
	block := memory.Bytes(ref, room)
	to := at // where the listpack lies afterwards
	switch down, up := at-by >= leafHeader, at+size <= room; {
	case down && (before < behind || !up):
		to = at - by
	case up:
	case room-leafHeader-size < room/16:
		return nil // it would have to be moved again soon
	case before < behind:
		to = room - size
	default:
		to = leafHeader
	}
	head, tail := block[at:at+before], block[at+s.Off+s.Del:at+len(old)]
	if to > at { // neither may be written over before it has moved
		copy(block[to+s.Off+s.Ins:], tail)
		copy(block[to:], head)
	} else {
		copy(block[to:], head)
		copy(block[to+s.Off+s.Ins:], tail)
	}
	*leafWord(ref) = uint64(to)
	lp := block[to : to+size]
	listpack.SetHeader(lp, size, s.Count)
	invariant.That(listpack.Bytes(lp) == len(lp) && behind >= 0,
		"leaf of %d bytes after a splice, want %d", listpack.Bytes(lp), len(lp))
	return lp
}

// tooRoomy says that a listpack of so many bytes should not stay in a block of that size.
func tooRoomy(size, block int) bool { return 4*(leafHeader+size) < block && block > 512 }

// settle gives back the room that p's leaf, which grows no more, has left. p stays at it.
func (t *nodes) settle(p *tree.Path) {
	ref := p.Leaf()
	if ref == 0 || isPlain(ref) || isCompressed(ref) {
		return
	}
	lp := packedAt(ref)
	if room := memory.UsableSize(ref); memory.GoodSize(leafHeader+len(lp)) < room-room/8 &&
		*memory.Word(ref) > t.store.Heap.Frozen() {
		dup, to := t.newPacked(len(lp), 0, Tail)
		copy(to, lp)
		t.SetLeaf(p, dup, t.CountOf(p), tree.Key{})
	}
}

// countable is the most elements of a leaf: beyond, a listpack's header no longer tells their number, and Redis, which
// keeps that of a leaf in 16 bits, would misread what we save. No limit in bytes lets so many in, but a list that is
// one listpack is asked by its texts alone whether it is too long, and empty ones take none.
const countable = 1<<16 - 2

// divided is lp, of count elements, in listpacks' worth of entries that a leaf may have, and how many elements each is.
func divided(lp []byte, count int) iter.Seq2[[]byte, int] {
	return func(yield func(entries []byte, count int) bool) {
		rest, left := listpack.Entries(lp), count
		for ; left > countable; left -= countable {
			some := listpack.FirstEntries(rest, countable)
			if !yield(some, countable) {
				return
			}
			rest = rest[len(some):]
		}
		yield(rest, left)
	}
}

// addPacked puts leaves with lp's count elements behind p's, and leads p to the last; it says how many those are. room
// is for a block that needs so many bytes.
func (t *nodes) addPacked(p *tree.Path, lp []byte, count int, room func(n int) int) (leaves int) {
	for entries, n := range divided(lp, count) {
		size := listpack.EmptyLen + len(entries)
		ref, to := t.newPacked(size, room(leafHeader+size), Tail)
		listpack.Wrap(to, entries, n)
		t.addLeaf(p, ref, n, Tail)
		leaves++
	}
	return leaves
}

// exactly is the room for a leaf that is not expected to grow.
func exactly(n int) int { return n }

// addLeaf puts a leaf with count elements beside p's, and leads p to it. In an empty list it becomes the only one.
func (t *nodes) addLeaf(p *tree.Path, ref memory.Ref, count int, side End) {
	if side == Tail {
		t.InsertAfter(p, ref, uint64(count), tree.Key{})
	} else {
		t.InsertBefore(p, ref, uint64(count), tree.Key{})
	}
}
