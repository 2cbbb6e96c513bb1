package stream

import (
	"spindle/engine/data/listpack"
	"spindle/engine/data/tree"
)

// An Iterator walks the entries between two IDs, in either direction. It is a value for the stack. Any goroutine may
// use one on a frozen stream.
//
//	var it stream.Iterator
//	for s.Range(&it, from, to, false); it.Next(); {
//		for range it.Pairs { field, val := it.Pair(); … }
//	}
//
// Lifetime: until the stream next changes.
type Iterator struct {
	ID    ID  // of the entry that Next moved to
	Pairs int // its number of fields, each with a value

	from, to   ID
	reverse    bool
	tombstones bool // also yield deleted entries
	begun      bool
	path       tree.Path
	state      *tree.State
	node       node
	entry      entry
	// ahead is the entry to look at next. 0 means that of the next node. unknown means the one after the elements that
	// Pair has not read.
	ahead  int
	left   int // elements of the entry that Pair has not read
	cursor int // the offset of the next of these elements
	field  int // the offset of the next field of the master entry, if its fields are used
}

// Range puts it before the first entry between from and to, both included. With reverse, it puts it before the last
// one, to walk backwards.
func (s Stream) Range(it *Iterator, from, to ID, reverse bool) {
	it.from, it.to, it.reverse, it.tombstones, it.begun = from, to, reverse, false, false
	it.state, it.ahead = &s.r.entries, 0
	edge := from
	if reverse {
		edge = to
	}
	s.r.entries.LeafOf(&it.path, tree.Key{edge.Ms, edge.Seq})
}

// AtMost returns an upper bound of the number of entries between from and to. It counts all entries of the nodes in
// which from and to lie. O(log Nodes).
func (s Stream) AtMost(from, to ID) uint64 {
	var first, last tree.Path
	if to.Less(from) || !s.r.entries.LeafOf(&last, tree.Key{to.Ms, to.Seq}) {
		return 0
	}
	s.r.entries.LeafOf(&first, tree.Key{from.Ms, from.Seq})
	return last.Rank() + s.r.entries.CountOf(&last) - first.Rank()
}

// All puts it before the first entry of the stream.
func (s Stream) All(it *Iterator) { s.Range(it, ID{}, MaxID, false) }

const unknown = -1

// Next moves it to the next entry. It returns false if there is none.
func (it *Iterator) Next() bool {
	for {
		if it.ahead == unknown {
			at := it.cursor
			for range it.left {
				at = listpack.Next(it.node.lp, at)
			}
			it.ahead = listpack.Next(it.node.lp, at)
		}
		if it.ahead == 0 && !it.enter() {
			return false
		}
		if !it.reverse && !it.tombstones {
			it.ahead = it.node.live(it.ahead)
		}
		if it.ahead == 0 {
			continue
		}
		e := it.node.read(it.ahead)
		if it.reverse {
			it.ahead = it.node.before(e.at)
		}
		counts := it.tombstones || e.flags&flagDeleted == 0 // the order of deleted entries is not guaranteed (stream.N2)
		switch {
		case counts && (!it.reverse && it.to.Less(e.id) || it.reverse && e.id.Less(it.from)):
			return it.end()
		case !counts || e.id.Less(it.from) || it.to.Less(e.id):
			if !it.reverse {
				it.ahead = it.node.after(&e)
			}
			continue
		}
		it.entry, it.ID, it.Pairs = e, e.id, e.n
		it.left, it.cursor, it.field = e.elements(), e.body, it.node.fields
		if !it.reverse {
			it.ahead = unknown
		}
		return true
	}
}

// end makes every later Next return false.
func (it *Iterator) end() bool {
	it.path, it.ahead, it.begun = tree.Path{}, 0, true
	return false
}

// enter moves it to the next node.
func (it *Iterator) enter() bool {
	switch {
	case it.path.Leaf() == 0:
		return false
	case !it.begun:
		it.begun = true
	case it.reverse && !it.path.Prev(), !it.reverse && !it.path.Next():
		return it.end()
	}
	key := it.state.KeyOf(&it.path)
	it.node.open(packAt(it.path.Leaf()), ID{key[0], key[1]})
	it.ahead = it.node.first
	if it.reverse {
		it.ahead = it.node.before(listpack.End(it.node.lp))
	}
	return true
}

// Pair returns the next field of the entry and its value. Call it Pairs times after each Next.
func (it *Iterator) Pair() (field, val listpack.Element) {
	lp := it.node.lp
	if it.entry.flags&flagSame != 0 {
		field, it.field = listpack.GetNext(lp, it.field)
		it.left--
	} else {
		field, it.cursor = listpack.GetNext(lp, it.cursor)
		it.left -= 2
	}
	val, it.cursor = listpack.GetNext(lp, it.cursor)
	return field, val
}

// find puts it at the entry with this ID. It returns false if there is none.
func (s Stream) find(it *Iterator, id ID) bool {
	s.Range(it, id, id, false)
	return it.Next()
}

// Has reports whether the stream has an entry with this ID.
func (s Stream) Has(id ID) bool {
	var it Iterator
	return s.find(&it, id)
}

// LastValid returns the greatest ID of an entry, or 0-0 in an empty stream.
func (s Stream) LastValid() ID {
	var it Iterator
	s.Range(&it, ID{}, MaxID, true)
	if !it.Next() {
		return ID{}
	}
	return it.ID
}

// edge returns the ID of the first entry, or MaxID if there is none. With tombstones it includes deleted entries.
func (s Stream) edge(tombstones bool) ID {
	var it Iterator
	s.All(&it)
	it.tombstones = tombstones
	if !it.Next() {
		return MaxID
	}
	return it.ID
}

// Edge returns the ID of the first entry, deleted or not, or MaxID if there is none. After a trim by ID, this is the
// first entry that the trim kept.
func (s Stream) Edge() ID { return s.edge(true) }

// Leaves yields the nodes in order: the ID of the master entry, and the listpack.
func (s Stream) Leaves(yield func(master ID, lp []byte) bool) {
	var p tree.Path
	for ok := s.r.entries.FirstLeaf(&p); ok; ok = p.Next() {
		key := s.r.entries.KeyOf(&p)
		if !yield(ID{key[0], key[1]}, packAt(p.Leaf())) {
			return
		}
	}
}
