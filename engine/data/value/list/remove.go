package list

import (
	"bytes"

	"spindle/engine/data/listpack"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// Remove removes the first most elements that equal text, counted from an end, or all if most is 0. It returns how many
// it removed. The command then calls Shrink, or removes the key if the list is empty.
// Cost: a walk; each leaf with such elements is written once.
func Remove(e *value.Edit, l Limits, text []byte, from End, most int) (removed int) {
	if most == 0 {
		most = Len(e.Value())
	}
	if lp := e.Packed(); lp != nil {
		n, skip := choose(lp, text, from, most)
		if n == 0 {
			return 0
		}
		lp = e.Splice(0, 0, 0)
		end := squeeze(lp, text, skip, n)
		splicePacked(e, listpack.Splice{Off: end, Del: len(lp) - 1 - end, Count: -n})
		return n
	}
	if !holds(rootAt(e.Value().Root()).nodes, text) {
		return 0 // nothing becomes writable, and nothing is copied
	}
	t := open(e, l)
	t.changes.gone = int(t.root.depth)
	var p tree.Path
	for ok := t.edge(&p, from); ok && removed < most; {
		n, gone := t.removeIn(&p, text, from, most-removed)
		removed += n
		switch {
		case gone && from == Tail:
			rank := p.Rank()
			t.Remove(&p)
			if ok = rank > 0; ok {
				t.LeafAt(&p, rank-1)
			}
		case gone:
			ok = t.Remove(&p)
		case from == Tail:
			ok = p.Prev()
		default:
			ok = p.Next()
		}
	}
	t.close()
	return removed
}

// holds reports whether an element equals text.
func holds(s tree.State, text []byte) bool {
	var p tree.Path
	for ok := s.FirstLeaf(&p); ok; ok = p.Next() {
		if find(p.Leaf(), text) != 0 {
			return true
		}
	}
	return false
}

// removeIn removes up to most of the elements that equal text from p's leaf. gone means that the leaf would become
// empty. In that case the leaf is unchanged.
func (t *nodes) removeIn(p *tree.Path, text []byte, from End, most int) (n int, gone bool) {
	if plain, ok := plainAt(p.Leaf()); ok {
		if bytes.Equal(plain, text) {
			return 1, true
		}
		return 0, false
	}
	lp := listpackAt(p.Leaf())
	n, skip := choose(lp, text, from, most)
	if n == 0 {
		return 0, false
	}
	if n == int(t.CountOf(p)) {
		return n, true
	}
	t.expand(p)
	lp = t.splice(p, listpack.Splice{Off: listpack.HeaderLen}) // makes the leaf writable
	end := squeeze(lp, text, skip, n)
	t.splice(p, listpack.Splice{Off: end, Del: len(lp) - 1 - end, Count: -n})
	if t.root.depth != 0 {
		t.compressLeaf(p) // close expands it again, if it is one of the outermost
	}
	return n, false
}

// choose returns how many of a listpack's elements that equal text are to be removed, at most most. skip is how many of
// them stay because they are nearer to the head.
func choose(lp, text []byte, from End, most int) (n, skip int) {
	found := 0
	for at := listpack.Find(lp, listpack.First(lp), text, 0); at != 0; at = listpack.Find(lp,
		listpack.Next(lp, at), text, 0) {
		if found++; from == Head && found == most {
			break
		}
	}
	n = min(found, most)
	if from == Tail {
		skip = found - n
	}
	return n, skip
}

// squeeze removes n elements that equal text from lp, after the first skip of them, by moving the rest together. It
// returns the end of the rest. The caller removes the bytes after that.
func squeeze(lp, text []byte, skip, n int) (end int) {
	last := listpack.End(lp)
	at := listpack.Find(lp, listpack.HeaderLen, text, 0)
	for ; skip > 0; skip-- {
		at = listpack.Find(lp, listpack.Next(lp, at), text, 0)
	}
	end = at
	for ; n > 0; n-- {
		from, to := listpack.InsertAfter(lp, at, 0, 0).Off, last // the bytes from..to after this element stay
		if n > 1 {
			at = listpack.Find(lp, from, text, 0)
			to = at
		}
		end += copy(lp[end:], lp[from:to])
	}
	return end
}
