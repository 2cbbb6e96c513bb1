package zset

import (
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// An Iter is at a member, or nowhere. It is a value for the stack, valid until the sorted set next changes. Any
// goroutine may use one on a frozen value.
type Iter struct {
	lp []byte
	at int // the offset in lp of the member's entry; 0 if nowhere
	c  tree.Cursor
	ok bool
}

// At moves i to the member of this rank. It returns false if there is none.
func (i *Iter) At(v value.Value, rank int) bool {
	if rank < 0 {
		i.at, i.ok = 0, false
		return false
	}
	if i.lp = v.Packed(); i.lp != nil {
		i.at = listpack.Seek(i.lp, 2*rank)
		i.ok = i.at != 0
		return i.ok
	}
	i.ok = rootAt(v.Root()).order.At(&i.c, uint64(rank))
	return i.ok
}

// Prev moves i to the previous member. It returns false if there is none.
func (i *Iter) Prev() bool {
	if i.lp == nil {
		i.ok = i.c.Prev()
		return i.ok
	}
	if i.at = listpack.Prev(i.lp, i.at); i.at != 0 {
		i.at = listpack.Prev(i.lp, i.at)
	}
	i.ok = i.at != 0
	return i.ok
}

// Member returns the member at i, in place.
func (i *Iter) Member() listpack.Element {
	if i.lp != nil {
		return listpack.Get(i.lp, i.at)
	}
	return text(i.block())
}

// Score returns the score of the member at i.
func (i *Iter) Score() float64 {
	if i.lp != nil {
		p, _ := pairAt(i.lp, i.at)
		return p.score
	}
	return table.Score(i.block())
}

func (i *Iter) block() memory.Ref { return memory.Ref(i.c.Record()[1]) }

// ahead is how many members ahead Each fetches blocks.
const ahead = 12

// Each yields up to n members, the first of rank from, in ascending order, or in descending order if reverse. It stops
// if yield returns false.
func Each(v value.Value, from, n int, reverse bool, yield func(member listpack.Element, score float64) bool) {
	var i Iter
	if n <= 0 || !i.At(v, from) {
		return
	}
	if i.lp != nil {
		i.each(n, reverse, yield)
		return
	}
	// A second cursor runs ahead and starts fetching the blocks that the first one will need.
	front, more := i.c, n > 2
	if more {
		for range min(ahead, n-1) {
			if more = step(&front, reverse); !more {
				break
			}
			memory.PrefetchRef(memory.Ref(front.Record()[1]))
		}
	}
	for {
		ref := i.block()
		if !yield(text(ref), table.Score(ref)) {
			return
		}
		if n--; n == 0 || !step(&i.c, reverse) {
			return
		}
		if more && n > ahead {
			if more = step(&front, reverse); more {
				memory.PrefetchRef(memory.Ref(front.Record()[1]))
			}
		}
	}
}

func step(c *tree.Cursor, reverse bool) bool {
	if reverse {
		return c.Prev()
	}
	return c.Next()
}

// each is Each for a listpack.
func (i *Iter) each(n int, reverse bool, yield func(listpack.Element, float64) bool) {
	for ; n > 0 && i.ok; n-- {
		m, next := listpack.GetNext(i.lp, i.at)
		x, behind := listpack.GetNext(i.lp, next)
		if !yield(m, scoreOf(x)) {
			return
		}
		if !reverse {
			i.at, i.ok = behind, behind != 0
		} else {
			i.Prev()
		}
	}
}
