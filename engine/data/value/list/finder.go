package list

import (
	"spindle/engine/data/listpack"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// A Finder finds the elements that equal one text, in one direction. It is a value for the stack.
//
// Lifetime: that of a Cursor, and that of the text.
type Finder struct {
	text  Text
	back  bool
	bound int // first index that is out of range

	lp    []byte // the present listpack; nil if the leaf of path is next
	at    int    // where to continue in lp, 0 at its end
	index int    // of the entry at at

	nodes *tree.State
	path  tree.Path
	more  bool // path leads to a leaf that has not been searched
}

// Start leads f to an end of a list, to search no more than most elements from there.
func (f *Finder) Start(v value.Value, text []byte, from End, most int) {
	f.text, f.back, f.bound = TextOf(text), from == Tail, most
	if f.back {
		f.bound = Len(v) - most - 1
	}
	if lp := v.Packed(); lp != nil {
		f.more = false
		f.enter(lp, 0, listpack.Count(lp))
		return
	}
	f.lp, f.nodes = nil, &rootAt(v.Root()).nodes
	if f.back {
		f.more = f.nodes.LastLeaf(&f.path)
	} else {
		f.more = f.nodes.FirstLeaf(&f.path)
	}
}

// enter leads f to the first element, in the direction of the search, of a listpack. The listpack has count elements,
// and its first element has this rank.
func (f *Finder) enter(lp []byte, rank, count int) {
	f.lp, f.at, f.index = lp, listpack.First(lp), rank
	if f.back {
		f.index += count - 1
		if listpack.Find(lp, f.at, f.text.text, 0) == 0 { // quicker than a walk backwards
			f.at = 0
		} else {
			f.at = listpack.Last(lp)
		}
	}
}

// Next returns the index of the next element that equals the text. It returns false if there is none.
func (f *Finder) Next() (index int, ok bool) {
	for {
		for f.lp == nil {
			if !f.more {
				return 0, false
			}
			ref, rank, count := f.path.Leaf(), int(f.path.Rank()), int(f.nodes.CountOf(&f.path))
			if f.beyond(rank) && f.beyond(rank+count-1) {
				return 0, false
			}
			if f.back {
				f.more = f.path.Prev()
			} else {
				f.more = f.path.Next()
			}
			if isPlain(ref) {
				if find(ref, f.text.text) != 0 {
					return rank, true
				}
				continue
			}
			f.enter(listpackAt(ref), rank, count)
		}
		if index, ok = f.within(); ok {
			return index, !f.beyond(index)
		}
		f.lp = nil
	}
}

func (f *Finder) beyond(index int) bool {
	if f.back {
		return index <= f.bound
	}
	return index >= f.bound
}

// within returns the index of the next such element in lp.
func (f *Finder) within() (index int, ok bool) {
	if f.at == 0 {
		return 0, false
	}
	if !f.back {
		at := listpack.Find(f.lp, f.at, f.text.text, 0)
		if at == 0 {
			return 0, false
		}
		index = f.index + listpack.CountRange(f.lp, f.at, at)
		f.at, f.index = listpack.Next(f.lp, at), index+1
		return index, true
	}
	for f.at != 0 {
		el := listpack.Get(f.lp, f.at)
		index = f.index
		f.at, f.index = listpack.Prev(f.lp, f.at), index-1
		if f.text.Is(el) {
			return index, true
		}
	}
	return 0, false
}
