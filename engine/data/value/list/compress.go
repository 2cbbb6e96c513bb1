package list

import (
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
	"spindle/internal/compress/lzf"
	"spindle/internal/invariant"
)

// Leaves far from the ends are compressed if list-compress-depth is above 0, in the format of compressed strings in RDB
// files. A reader expands a leaf into other memory. A writer expands the leaf in the list first (expand), and close
// compresses it again. Three kinds of leaves stay uncompressed: those that would not become smaller, very short ones,
// and very long ones, which would make a long turn.
const (
	compressAtLeast = 48        // bytes, as Redis
	compressAtMost  = 256 << 10 // a few milliseconds at worst
	deepest         = 1<<16 - 1 // the greatest effective list-compress-depth, as in Redis
)

func isCompressed(ref memory.Ref) bool { return *leafWord(ref)&compressedMark != 0 }

// compressedAt returns the bytes of a compressed leaf. size is their length when expanded.
func compressedAt(ref memory.Ref) (packed []byte, size int) {
	w := *leafWord(ref) &^ (plainMark | compressedMark)
	return memory.Bytes(ref+leafHeader, int(w&(1<<31-1))), int(w >> 31)
}

// expanded returns the content of a compressed leaf, in new memory of the Go heap.
func expanded(ref memory.Ref) []byte {
	packed, size := compressedAt(ref)
	text := make([]byte, size)
	expandTo(text, packed)
	return text
}

func expandTo(to, packed []byte) {
	n, err := lzf.Decompress(to, packed)
	invariant.That(err == nil && n == len(to), "a compressed leaf expands to %d bytes, want %d: %v", n, len(to), err)
}

// listpackBytes returns the length of the listpack of a leaf that is not plain. If the leaf is compressed, it is the
// length when expanded.
func listpackBytes(ref memory.Ref) int {
	if isCompressed(ref) {
		_, size := compressedAt(ref)
		return size
	}
	return listpack.Bytes(packedAt(ref))
}

// expand expands p's leaf if it is compressed. p keeps leading to it.
func (t *nodes) expand(p *tree.Path) {
	ref := p.Leaf()
	if !isCompressed(ref) {
		return
	}
	packed, size := compressedAt(ref)
	var dup memory.Ref
	var to []byte
	if isPlain(ref) {
		dup, to = t.plainOf(size)
	} else {
		dup, to = t.newPacked(size, roomy(leafHeader+size), Tail)
	}
	expandTo(to, packed)
	t.SetLeaf(p, dup, t.CountOf(p), tree.Key{})
}

// compressLeaf compresses p's leaf, if that makes it smaller. p keeps leading to it.
func (t *nodes) compressLeaf(p *tree.Path) {
	ref := p.Leaf()
	if isCompressed(ref) {
		return
	}
	mark := uint64(compressedMark)
	text, plain := plainAt(ref)
	if plain {
		mark |= plainMark
	} else {
		text = packedAt(ref)
	}
	if len(text) < compressAtLeast || len(text) > compressAtMost {
		return
	}
	packed := t.store.Compress(text, len(text)-8)
	if packed == nil || memory.GoodSize(leafHeader+len(packed)) >= memory.UsableSize(ref) {
		return
	}
	dup := t.NewLeaf(leafHeader + len(packed))
	*leafWord(dup) = mark | uint64(len(text))<<31 | uint64(len(packed))
	copy(memory.Bytes(dup+leafHeader, len(packed)), packed)
	t.SetLeaf(p, dup, t.CountOf(p), tree.Key{})
}

// compress restores list.I4. It expands the leaves that are now among the outermost. It compresses those that are now
// inside, or that may have been changed there. Paths lead nowhere afterwards.
// Cost: O(log leaves + depth / 63) and the leaves in question.
func (t *nodes) compress() {
	c, depth := t.changes, int(t.root.depth)
	if t.changes = (changes{}); c == t.changes {
		return
	}
	t.openUp(Head, min(c.gone, depth))
	t.openUp(Tail, min(c.gone, depth))
	if t.Len() <= 2*uint64(depth) {
		return // all leaves are outermost
	}
	var p tree.Path
	if !t.LeafFrom(&p, Head.side(), depth) {
		return
	}
	first := p.Rank()
	t.LeafFrom(&p, Tail.side(), depth)
	last := p.Rank()
	if first > last {
		return
	}
	t.compressSome(last, Head, c.came[Tail.index()], first, last)
	t.compressSome(first, Tail, c.came[Head.index()], first, last)
	if c.near != 0 {
		t.compressSome(c.near-1, Tail, 1+joined, first, last)
		t.compressSome(c.near-1, Head, 1+joined, first, last)
	}
}

// joined is how many leaves away from a changed element the function join may have changed a leaf.
const joined = 2

// openUp expands the innermost n of the outermost leaves at one end.
func (t *nodes) openUp(end End, n int) {
	var p tree.Path
	for more := n > 0 && t.LeafFrom(&p, end.side(), int(t.root.depth)-n); more && n > 0; n-- {
		t.expand(&p)
		more = step(&p, !end)
	}
}

// compressSome walks over n leaves, from the leaf that holds rank, towards an end. It compresses those whose first rank
// lies in first..last.
func (t *nodes) compressSome(rank uint64, towards End, n int, first, last uint64) {
	if n == 0 {
		return
	}
	var p tree.Path
	t.LeafAt(&p, rank)
	for more := true; more && n > 0; n-- {
		if at := p.Rank(); first <= at && at <= last {
			t.compressLeaf(&p)
		}
		more = step(&p, towards)
	}
}

func step(p *tree.Path, towards End) bool {
	if towards == Head {
		return p.Prev()
	}
	return p.Next()
}

// addInside is addLeaf for a leaf that may be anywhere. It may move leaves at both ends further inside.
func (t *nodes) addInside(p *tree.Path, ref memory.Ref, count int, side End) {
	t.addLeaf(p, ref, count, side)
	t.changes.came[0]++
	t.changes.came[1]++
}

// dropLeaf removes p's leaf. p then leads to the next leaf, if there is one.
func (t *nodes) dropLeaf(p *tree.Path) {
	t.Remove(p)
	t.changes.gone++
}

// addCopy adds a copy of another list's leaf, of count elements, after p's leaf, without spare room. It leads p to the
// copy.
func (t *nodes) addCopy(p *tree.Path, ref memory.Ref, count int) {
	var dup memory.Ref
	var to, from []byte
	switch {
	case isCompressed(ref):
		from, _ = compressedAt(ref)
		dup = t.NewLeaf(leafHeader + len(from))
		*leafWord(dup) = *leafWord(ref)
		to = memory.Bytes(dup+leafHeader, len(from))
	case isPlain(ref):
		from, _ = plainAt(ref)
		dup, to = t.plainOf(len(from))
	default:
		from = packedAt(ref)
		dup, to = t.newPacked(len(from), 0, Tail)
	}
	copy(to, from)
	t.addLeaf(p, dup, count, Tail)
}

// LimitsOf returns the list-max-listpack-size and list-compress-depth that a quicklist stores (list.I3).
func LimitsOf(v value.Value) Limits { return rootAt(v.Root()).limits() }
