package list

import (
	"spindle/engine/data/listpack"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// Set replaces the element at index, counted from the tail if negative, by text. It returns false if there is no such
// element. text must lie outside the list. The caller calls Grow first in either case, and Shrink afterwards.
func Set(e *value.Edit, l Limits, index int64, text []byte) bool {
	n := int64(Len(e.Value()))
	if index < 0 {
		index += n
	}
	if index < 0 || index >= n {
		return false
	}
	el := listpack.Of(text)
	if lp := e.Packed(); lp != nil {
		s := listpack.Replace(lp, listpack.Seek(lp, int(index)), el.EncodedLen())
		el.Put(s.Gap(splicePacked(e, s)))
		return true
	}
	t := open(e, l)
	var p tree.Path
	offset, _ := t.LeafAt(&p, uint64(index))
	t.set(&p, int(offset), el, text)
	t.close()
	return true
}

// set replaces the element at offset in p's leaf. After that p leads nowhere.
func (t *nodes) set(p *tree.Path, offset int, el listpack.Element, text []byte) {
	large := t.limits.plain(len(text))
	rank := p.Rank()
	t.changes.near = rank + 1
	if isPlain(p.Leaf()) {
		if large {
			t.SetLeaf(p, t.newPlain(text), 1, tree.Key{})
			return
		}
		t.insert(p, 0, text, Tail)
		t.LeafAt(p, rank)
		t.dropLeaf(p)
		return
	}
	t.expand(p)
	lp := packedAt(p.Leaf())
	at := listpack.Seek(lp, offset)
	if !large {
		s := listpack.Replace(lp, at, el.EncodedLen())
		el.Put(s.Gap(t.splice(p, s))) // also past the limit: the leaf is not split for it
		return
	}
	if listpack.Next(lp, at) != 0 {
		t.split(p, at, Tail)
		t.LeafAt(p, rank)
	}
	t.addInside(p, t.newPlain(text), 1, Tail)
	t.LeafAt(p, rank)
	if offset == 0 {
		t.dropLeaf(p)
		return
	}
	lp = packedAt(p.Leaf())
	t.splice(p, cut(lp, offset+1, Tail, 1))
	t.join(rank + uint64(offset))
}
