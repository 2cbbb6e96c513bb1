package list

import (
	"spindle/engine/data/listpack"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// Pop removes n elements, 0 < n <= Len, at an end. The command then calls Shrink, or removes the key if the list is
// empty.
// Cost: O(log Len). With a compression depth it also looks at up to n leaves at either end, but at most depth. Whole
// subtrees go to a reclaimer.
func Pop(e *value.Edit, l Limits, end End, n int) {
	if lp := e.Packed(); lp != nil {
		splicePacked(e, cut(lp, listpack.Count(lp), end, n))
		return
	}
	var o Outermost
	if n == 1 && o.Find(e, end) {
		o.Remove(end)
		return
	}
	t := open(e, l)
	t.pop(end, n)
	t.close()
}

// Trim keeps n elements, the first at index from, and removes the others. n must be above 0.
func Trim(e *value.Edit, l Limits, from, n int) {
	behind := Len(e.Value()) - from - n
	if from > 0 {
		Pop(e, l, Head, from)
	}
	if behind > 0 {
		Pop(e, l, Tail, behind)
	}
}

// cut plans the removal of n elements at an end of a listpack of count elements.
func cut(lp []byte, count int, end End, n int) listpack.Splice {
	s := listpack.Splice{Off: listpack.HeaderLen, Count: -n}
	switch {
	case n >= count:
		s.Del = len(lp) - listpack.EmptyLen
	case end == Head && n == 1:
		s.Del = listpack.Next(lp, listpack.HeaderLen) - listpack.HeaderLen
	case end == Head:
		s.Del = listpack.Seek(lp, n) - listpack.HeaderLen
	case n == 1:
		s.Off = listpack.Last(lp)
		s.Del = len(lp) - 1 - s.Off
	default:
		s.Off = listpack.Seek(lp, count-n)
		s.Del = len(lp) - 1 - s.Off
	}
	return s
}

// fewer returns an upper bound, at most depth, of how many leaves are removed with n elements.
func (t *nodes) fewer(n int) int { return min(n, int(t.root.depth)) }

func (t *nodes) pop(end End, n int) {
	total := t.Len()
	if uint64(n) >= total {
		t.Clear()
		return
	}
	var p tree.Path
	if n == 1 { // the usual case, without a search for the rank
		t.edge(&p, end)
		if count := t.CountOf(&p); count > 1 {
			t.splice(&p, cut(packedAt(p.Leaf()), int(count), end, 1))
			return
		}
	}
	drop := 0 // elements to remove from p's leaf
	if end == Head {
		offset, _ := t.LeafAt(&p, uint64(n))
		drop = int(offset)
		if p.Rank() > 0 {
			t.CutFront(&p)
			t.changes.gone = t.fewer(n)
		}
	} else {
		offset, _ := t.LeafAt(&p, total-uint64(n)-1)
		drop = int(t.CountOf(&p) - offset - 1)
		if drop < n {
			t.CutBack(&p)
			t.changes.gone = t.fewer(n)
		}
	}
	if drop > 0 {
		t.expand(&p)
		t.splice(&p, cut(packedAt(p.Leaf()), int(t.CountOf(&p)), end, drop))
	}
}
