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

// A leaf is a block of the tree. The listpack of a packed leaf may lie anywhere in the block, so that it can grow and
// shrink at either end in place:
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
// A prepend writes the new entry before the first one, and the listpack's header, six bytes, before that. A pop at the
// head moves those six bytes up.
const (
	leafHeader     = 16
	plainMark      = 1 << 63
	compressedMark = 1 << 62
)

func leafWord(ref memory.Ref) *uint64 { return memory.Word(ref + 8) }

// plainAt returns the element of a plain leaf, in place. If the leaf is compressed, the element is in new memory.
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

// listpackAt returns the listpack of a leaf that is not plain, in place. If the leaf is compressed, the listpack is in
// new memory.
func listpackAt(ref memory.Ref) []byte {
	if isCompressed(ref) {
		return expanded(ref)
	}
	return packedAt(ref)
}

// packedAt returns the listpack of a packed leaf.
func packedAt(ref memory.Ref) []byte {
	p := unsafe.Add(memory.Pointer(ref), *leafWord(ref))
	n := binary.LittleEndian.Uint32(unsafe.Slice((*byte)(p), 4))
	return unsafe.Slice((*byte)(p), int(n))
}

// newPlain returns a plain leaf with this element.
func (t *nodes) newPlain(text []byte) memory.Ref {
	ref, to := t.plainOf(len(text))
	copy(to, text)
	return ref
}

// plainOf returns a plain leaf with an element of n undefined bytes. text is these bytes.
func (t *nodes) plainOf(n int) (ref memory.Ref, text []byte) {
	ref = t.NewLeaf(leafHeader + n)
	*leafWord(ref) = plainMark | uint64(n)
	return ref, memory.Bytes(ref+leafHeader, n)
}

// newPacked returns a packed leaf of size undefined bytes. lp is these bytes. room is the size of the whole block. If
// the leaf is to grow at its head, the listpack lies at the end of the block.
func (t *nodes) newPacked(size, room int, grow End) (ref memory.Ref, lp []byte) {
	ref = t.NewLeaf(max(room, leafHeader+size))
	at := leafHeader
	if grow == Head {
		at = memory.UsableSize(ref) - size
	}
	*leafWord(ref) = uint64(at)
	return ref, memory.Bytes(ref, at+size)[at:]
}

// growing returns the block size for a leaf that needs n bytes and will soon need more. It doubles n, but if n fits a
// small block, so does the result. A full leaf of the usual 8 KB has the largest small block (tight).
func growing(n int) int {
	if n <= memory.MaxSmall {
		return min(2*n, memory.MaxSmall)
	}
	return n + n/8
}

// roomy returns the block size for a copy of a leaf that needs n bytes and may later need a few more. A leaf that fits
// a small block stays in one. Most copies are made while a view is open, when small blocks are warm and runs are not.
func roomy(n int) int {
	if n <= memory.MaxSmall {
		return min(n+n/4, memory.MaxSmall)
	}
	return n + n/8
}

// tight is how many bytes a leaf leaves free below Redis's limit, if the list has other leaves. So header and listpack
// together take no larger block than the listpack alone takes in Redis. A list of one leaf keeps the exact limit,
// because there the difference would show in OBJECT ENCODING.
const tight = leafHeader

// single returns a listpack leaf with only this element.
func (t *nodes) single(el listpack.Element, grow End) memory.Ref {
	size := listpack.EmptyLen + el.EncodedLen()
	ref, lp := t.newPacked(size, growing(leafHeader+size), grow)
	listpack.AppendEmpty(lp[:0])
	s := listpack.Prepend(size-listpack.EmptyLen, 1)
	s.Open(lp)
	el.Put(s.Gap(lp))
	return ref
}

// allows reports whether an element of n bytes may be added to p's leaf.
func (t *nodes) allows(p *tree.Path, n int) bool {
	ref := p.Leaf()
	if ref == 0 || isPlain(ref) {
		return false
	}
	return t.limits.takes(listpackBytes(ref), t.CountOf(p), t.Len(), n)
}

// takes reports whether a leaf of this many bytes and count elements may get an element of n bytes. all is the list's
// length.
func (l Limits) takes(bytes int, count, all uint64, n int) bool {
	less := 0
	if count != all {
		less = tight
	}
	return !l.plain(n) && !l.exceeded(bytes+n+overhead, int(count)+1, less)
}

// splice makes the gap of s in p's leaf, which must be packed and not become empty. It returns the leaf's listpack with
// its header set and the gap undefined. p keeps leading to the leaf.
// Cost: the shorter part before or after the gap moves. The leaf is copied if a view reads it or its block is too
// small.
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

// spliceIn is splice within the leaf's block. It returns nil if the block is too small, or far too large.
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
	to := at // the listpack's new offset
	switch down, up := at-by >= leafHeader, at+size <= room; {
	case down && (before < behind || !up):
		to = at - by
	case up:
	case room-leafHeader-size < room/16:
		return nil // otherwise the bytes would have to be moved again soon
	case before < behind:
		to = room - size
	default:
		to = leafHeader
	}
	head, tail := block[at:at+before], block[at+s.Off+s.Del:at+len(old)]
	if to > at { // move the part first that would be overwritten
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

// tooRoomy reports whether a listpack of size bytes is too small to stay in a block of this size.
func tooRoomy(size, block int) bool { return 4*(leafHeader+size) < block && block > 512 }

// trimRoom frees the unused room of p's leaf, which will not grow any more. p keeps leading to the leaf.
func (t *nodes) trimRoom(p *tree.Path) {
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

// countable is the largest number of elements of a leaf. A listpack's header cannot hold a larger number. Redis counts
// the elements of a leaf in 16 bits, and would misread our files. No limit in bytes allows that many elements. But
// whether a list stays a listpack depends only on its texts, and empty texts take no bytes.
const countable = 1<<16 - 2

// divided yields the entries of lp, of count elements, in parts that are not too long for a leaf. It also yields the
// number of elements of each part.
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

// addPacked adds leaves with lp's count elements after p's leaf, and leads p to the last of them. It returns their
// number. room returns the block size for a leaf of n bytes.
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

// exactly returns the block size for a leaf that is not expected to grow.
func exactly(n int) int { return n }

// addLeaf adds a leaf with count elements before or after p's leaf, and leads p to the new one. In an empty list it
// becomes the only leaf.
func (t *nodes) addLeaf(p *tree.Path, ref memory.Ref, count int, side End) {
	if side == Tail {
		t.InsertAfter(p, ref, uint64(count), tree.Key{})
	} else {
		t.InsertBefore(p, ref, uint64(count), tree.Key{})
	}
}
