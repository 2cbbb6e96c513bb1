package list

import (
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
	"spindle/internal/invariant"
	"spindle/internal/number"
)

// Push and pop of one element at an end of a quicklist have a fast way. The outermost leaf is changed in place, if no
// view reads it and its block has a suitable size. The way to the leaf is searched once. Nothing is freed, so no
// position has to be set. All other changes use nodes, which copies, moves, adds and removes leaves (bench: types;
// BenchmarkEnds).

// side returns the number by which package tree names the end.
func (end End) side() int {
	if end == Head {
		return -1
	}
	return 1
}

func (end End) index() int { return (end.side() + 1) / 2 }

// writable returns the list's root if the list is a quicklist whose root no view reads, otherwise nil.
func writable(e *value.Edit) *root {
	v := e.Value()
	if v.Encoding() != value.Quicklist {
		return nil
	}
	if r := rootAt(v.Root()); r.Epoch > e.Heap().Frozen() {
		return r
	}
	return nil
}

// PushOne is Push of one element if that is possible in place. It returns the new length, or 0 if it has done nothing.
func PushOne(e *value.Edit, l Limits, end End, text []byte) (length int) {
	r := writable(e)
	if r == nil || !r.pushInPlace(&e.Edge, e.Heap().Frozen(), l, end, text) {
		return 0
	}
	return int(r.nodes.Len())
}

// pushInPlace adds an element at an end. It returns false if it has done nothing. r must be writable.
func (r *root) pushInPlace(edge *tree.Edge, frozen uint64, l Limits, end End, text []byte) bool {
	if !edge.Find(&r.nodes, frozen, end.side()) || isPlain(edge.Leaf) {
		return false
	}
	l.Fill = int(r.fill) // list.I3
	ref := edge.Leaf
	lp, at := packedAt(ref), int(*leafWord(ref))
	if !l.takes(len(lp), edge.Count(), r.nodes.Len(), len(text)) {
		return false
	}
	// A listpack.Element would be slower: reading it right after it was written would stall.
	n, isInt := number.ParseInt(text)
	ins := listpack.EncodedTextLen(len(text))
	if isInt {
		ins = listpack.EncodedIntLen(n)
	}
	size, gap := len(lp)+ins, listpack.HeaderLen
	if end == Head {
		if at -= ins; at < leafHeader {
			return false
		}
		*leafWord(ref) = uint64(at)
		old := lp
		lp = memory.Bytes(ref+memory.Ref(at), size)
		*(*[listpack.HeaderLen]byte)(lp) = *(*[listpack.HeaderLen]byte)(old)
	} else {
		if at+size > memory.UsableSize(ref) {
			return false
		}
		gap = len(lp) - 1
		lp = memory.Bytes(ref+memory.Ref(at), size)
		lp[size-1] = lp[gap]
	}
	if isInt {
		listpack.PutInt(lp[gap:], n)
	} else {
		listpack.PutText(lp[gap:], text)
	}
	listpack.SetHeader(lp, size, 1)
	edge.Bump(1)
	return true
}

// An Outermost is the element at an end of a quicklist. It is found once, so that the command can reply with it, and
// then removed in place.
type Outermost struct {
	Element listpack.Element // valid until Remove

	edge *tree.Edge
	lp   []byte
	del  int // the entry's length
}

// Find leads o to the element at an end. It returns false if the element cannot be removed in place. Then use First and
// Pop.
func (o *Outermost) Find(e *value.Edit, end End) bool {
	r := writable(e)
	return r != nil && o.find(r, &e.Edge, e.Heap().Frozen(), end)
}

func (o *Outermost) find(r *root, edge *tree.Edge, frozen uint64, end End) bool {
	if o.edge = edge; !edge.Find(&r.nodes, frozen, end.side()) || edge.Count() == 1 { // a plain leaf has one
		return false
	}
	o.lp = packedAt(edge.Leaf)
	if end == Head {
		var behind int
		o.Element, behind = listpack.GetNext(o.lp, listpack.HeaderLen)
		o.del = behind - listpack.HeaderLen
	} else {
		at := listpack.Last(o.lp)
		o.Element, o.del = listpack.Get(o.lp, at), len(o.lp)-1-at
	}
	return !tooRoomy(len(o.lp)-o.del, memory.UsableSize(edge.Leaf))
}

// Remove removes the element at the end where it was found. The command calls Shrink afterwards.
func (o *Outermost) Remove(end End) {
	lp, size := o.lp, len(o.lp)-o.del
	if end == Head {
		lp = lp[o.del:]
		*(*[listpack.HeaderLen]byte)(lp) = *(*[listpack.HeaderLen]byte)(o.lp)
		*leafWord(o.edge.Leaf) += uint64(o.del)
	} else {
		lp[size-1] = lp[len(lp)-1]
	}
	listpack.SetHeader(lp, size, -1)
	invariant.That(listpack.Bytes(lp) == size, "leaf of %d bytes after a pop, want %d", listpack.Bytes(lp), size)
	o.edge.Bump(^uint64(0))
}
