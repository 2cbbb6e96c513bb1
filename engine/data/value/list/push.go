package list

import (
	"spindle/engine/data/listpack"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// PackedBytes returns the length of the listpack of a new list with these elements. ok is false if the listpack would
// be too long.
func PackedBytes(l Limits, elements [][]byte) (n int, ok bool) {
	n = listpack.EmptyLen
	bytes := n
	for _, x := range elements {
		n += listpack.EncodedLen(x)
		bytes += len(x)
	}
	return n, !l.exceeded(bytes, len(elements), 0)
}

// Write makes lp, of PackedBytes bytes, the listpack of the elements, pushed one after the other at end.
func Write(lp []byte, end End, elements [][]byte) {
	listpack.AppendEmpty(lp[:0])
	s := listpack.Prepend(len(lp)-listpack.EmptyLen, len(elements))
	s.Open(lp)
	writeEntries(s.Gap(lp), end, elements)
}

// writeEntries writes the entries of elements to gap, in the order that pushes at end would give.
func writeEntries(gap []byte, end End, elements [][]byte) {
	for i := range elements {
		x := elements[i]
		if end == Head {
			x = elements[len(elements)-1-i]
		}
		gap = gap[listpack.Put(gap, x):]
	}
}

// Push adds elements at an end, one after the other. They must lie outside the list.
func Push(e *value.Edit, l Limits, end End, elements [][]byte) {
	if e.Packed() != nil && pushPacked(e, l, end, elements) {
		return
	}
	r, frozen := rootAt(e.Root()), e.Heap().Frozen()
	for r.pushInPlace(&e.Edge, frozen, l, end, elements[0]) {
		if elements = elements[1:]; len(elements) == 0 {
			return
		}
	}
	t := open(e, l)
	var p tree.Path
	t.edge(&p, end)
	for _, x := range elements {
		t.push(&p, end, listpack.Of(x), len(x))
	}
	t.close()
}

// pushPacked is Push for a list that is a listpack. If the listpack would be too long, it turns the list into a
// quicklist and returns false.
func pushPacked(e *value.Edit, l Limits, end End, elements [][]byte) bool {
	bytes, ins := 0, 0
	for _, x := range elements {
		bytes += len(x)
		ins += listpack.EncodedLen(x)
	}
	Grow(e, l, bytes, len(elements))
	lp := e.Packed()
	if lp == nil {
		return false
	}
	s := listpack.Prepend(ins, len(elements))
	if end == Tail {
		s.Off = len(lp) - 1
	}
	writeEntries(s.Gap(splicePacked(e, s)), end, elements)
	return true
}

// PushElement is Push of one element that comes from another list.
func PushElement(e *value.Edit, l Limits, end End, el listpack.Element) {
	if lp := e.Packed(); lp != nil {
		s := listpack.Prepend(el.EncodedLen(), 1)
		if end == Tail {
			s.Off = len(lp) - 1
		}
		el.Put(s.Gap(splicePacked(e, s)))
		return
	}
	t := open(e, l)
	var p tree.Path
	t.edge(&p, end)
	t.push(&p, end, el, el.Len())
	t.close()
}

// splicePacked makes the gap of s in a list that is a listpack, and returns the listpack.
func splicePacked(e *value.Edit, s listpack.Splice) []byte {
	lp := e.Splice(s.Off, s.Del, s.Ins)
	s.Finish(lp)
	return lp
}

func (t *nodes) edge(p *tree.Path, end End) bool {
	if end == Head {
		return t.FirstLeaf(p)
	}
	return t.LastLeaf(p)
}

// push adds an element, of n bytes of text, at the outer end of p's leaf, which must be the outermost leaf. It leads p
// to the element's leaf.
func (t *nodes) push(p *tree.Path, end End, el listpack.Element, n int) {
	switch {
	case t.limits.plain(n):
		t.addLeaf(p, t.newPlain(t.text(el)), 1, end)
	case t.allows(p, n):
		t.pushIn(p, end, el)
		return
	default:
		t.trimRoom(p)
		t.addLeaf(p, t.single(el, end), 1, end)
	}
	t.added(p, end, 1)
}

// added is called after leaves were added at an end; leaves is their number. p leads to the outermost of them, and
// stays there.
func (t *nodes) added(p *tree.Path, end End, leaves int) {
	if t.root.depth != 0 {
		t.changes.came[end.index()] += leaves
		t.compress()
		t.edge(p, end)
	}
}

// pushIn adds an element at an end of p's leaf.
func (t *nodes) pushIn(p *tree.Path, end End, el listpack.Element) {
	t.expand(p)
	s := listpack.Prepend(el.EncodedLen(), 1)
	if end == Tail {
		s.Off = listpack.End(packedAt(p.Leaf()))
	}
	el.Put(s.Gap(t.splice(p, s)))
}

// text returns the element's text. An integer is formatted only if it gets a plain leaf, which only DEBUG's threshold
// can cause.
func (t *nodes) text(el listpack.Element) []byte {
	if el.IsInt {
		return el.Append(nil)
	}
	return el.Bytes()
}
