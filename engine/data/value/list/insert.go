package list

import (
	"spindle/engine/data/listpack"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// Insert inserts text before or after the first element that equals pivot. It returns false if there is no such
// element. text must lie outside the list. The caller calls Grow first, whether pivot is found or not.
// Cost: a walk to the pivot.
func Insert(e *value.Edit, l Limits, pivot, text []byte, side End) bool {
	if lp := e.Packed(); lp != nil {
		at := listpack.Find(lp, listpack.First(lp), pivot, 0)
		if at == 0 {
			return false
		}
		el := listpack.Of(text)
		s := insertion(lp, at, el, side)
		el.Put(s.Gap(splicePacked(e, s)))
		return true
	}
	var p tree.Path
	s := rootAt(e.Value().Root()).nodes
	at := 0
	for ok := s.FirstLeaf(&p); ok; ok = p.Next() {
		if at = find(p.Leaf(), pivot); at != 0 {
			break
		}
	}
	if at == 0 {
		return false
	}
	rank := p.Rank()
	t := open(e, l)
	t.LeafAt(&p, rank) // the root may have been copied
	t.changes.near = rank + 1
	t.insert(&p, at, text, side)
	t.close()
	return true
}

// insertion plans the insertion of an element before or after the one at at.
func insertion(lp []byte, at int, el listpack.Element, side End) listpack.Splice {
	if side == Head {
		return listpack.InsertBefore(at, el.EncodedLen(), 1)
	}
	return listpack.InsertAfter(lp, at, el.EncodedLen(), 1)
}

// insert inserts text before or after the element at at in p's leaf. A plain leaf ignores at. After that p leads
// nowhere.
func (t *nodes) insert(p *tree.Path, at int, text []byte, side End) {
	plain, edge := isPlain(p.Leaf()), true
	var lp []byte
	if !plain {
		t.expand(p)
		lp = packedAt(p.Leaf())
		edge = at == listpack.HeaderLen
		if side == Tail {
			edge = listpack.Next(lp, at) == 0
		}
	}
	el := listpack.Of(text)
	if t.limits.plain(len(text)) {
		if edge {
			t.addInside(p, t.newPlain(text), 1, side)
			return
		}
		t.split(p, at, side)
		t.addInside(p, t.newPlain(text), 1, !side)
		return
	}
	switch {
	case t.allows(p, len(text)):
		s := insertion(lp, at, el, side)
		el.Put(s.Gap(t.splice(p, s)))
	case edge:
		next := *p
		if (side == Tail && next.Next() || side == Head && next.Prev()) && t.allows(&next, len(text)) {
			t.pushIn(&next, !side, el)
			return
		}
		t.addInside(p, t.single(el, side), 1, side)
	default:
		rank := t.split(p, at, side)
		t.pushIn(p, !side, el)
		if side == Head {
			rank++ // the element came before the part that stayed
		}
		t.join(rank)
	}
}

// gapOf returns the offset at which insertion makes its gap.
func gapOf(lp []byte, at int, side End) int {
	if side == Head {
		return at
	}
	return listpack.InsertAfter(lp, at, 0, 0).Off
}

// split divides p's leaf at the element at at. The elements on that side, at least one, move to a new leaf, and p leads
// to the new leaf. It returns the rank of the first element in the part that stayed.
func (t *nodes) split(p *tree.Path, at int, side End) (rank uint64) {
	lp := packedAt(p.Leaf())
	count := int(t.CountOf(p))
	off := gapOf(lp, at, side)
	before := listpack.CountRange(lp, listpack.HeaderLen, off)
	left := listpack.Splice{Off: off, Del: listpack.End(lp) - off, Count: before - count}
	right := listpack.Splice{Off: listpack.HeaderLen, Del: off - listpack.HeaderLen, Count: -before}
	stays, goes, moved := left, right, count-before
	rank = p.Rank()
	if side == Head {
		stays, goes, moved = right, left, before
		rank += uint64(before)
	}
	size := len(lp) + goes.Grow()
	ref, to := t.newPacked(size, growing(leafHeader+size), Tail)
	goes.CopyTo(to, lp)
	t.splice(p, stays)
	t.addInside(p, ref, moved, side)
	return rank
}

// join joins leaves near the leaf whose first element has this rank, if two fit into one. It tries four pairs: the two
// leaves before that leaf, the two after it, and the leaf itself with each neighbour.
func (t *nodes) join(rank uint64) {
	var p tree.Path
	if rank > 0 {
		t.LeafAt(&p, rank-1)
		if before := p.Rank(); before > 0 {
			t.LeafAt(&p, before-1)
			t.joinNext(&p)
		}
	}
	t.LeafAt(&p, rank)
	if p.Next() {
		t.joinNext(&p)
	}
	if rank > 0 {
		t.LeafAt(&p, rank-1)
		before := p.Rank()
		if t.joinNext(&p) {
			rank = before
		}
	}
	t.LeafAt(&p, rank)
	t.joinNext(&p)
}

// joinNext joins p's leaf and the next leaf, if they fit into one. After that p leads nowhere.
func (t *nodes) joinNext(p *tree.Path) bool {
	next := *p
	if !next.Next() || isPlain(p.Leaf()) || isPlain(next.Leaf()) {
		return false
	}
	n, m := int(t.CountOf(p)), int(t.CountOf(&next))
	less := 0
	if uint64(n+m) != t.Len() {
		less = tight
	}
	if t.limits.exceeded(listpackBytes(p.Leaf())+listpackBytes(next.Leaf())-listpack.EmptyLen, n+m, less) {
		return false
	}
	entries := listpack.Entries(listpackAt(next.Leaf()))
	t.expand(p)
	a := packedAt(p.Leaf())
	s := listpack.Append(a, len(entries), m)
	copy(s.Gap(t.splice(p, s)), entries)
	p.Next()
	t.dropLeaf(p)
	return true
}
