package list

import (
	"bytes"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
	"spindle/internal/number"
)

// A Cursor walks the elements of a list, live or frozen, in one direction. It is a value for the stack.
//
// Lifetime: until the list next changes; for a frozen list, until its View is closed.
type Cursor struct {
	lp   []byte // the listpack of the next element; nil if there is none or it is plain
	at   int    // the next element's offset, 0 if it is not in lp
	back bool
	more bool // there may be leaves after path's leaf

	plain bool // the next element is the plain leaf of path
	path  tree.Path
}

// Seek leads c to the element at index, 0 <= index < Len. Next then walks in the direction of the end towards.
func (c *Cursor) Seek(v value.Value, index int, towards End) {
	c.back = towards == Head
	if c.lp = v.Packed(); c.lp != nil {
		c.more, c.plain = false, false
		c.at = listpack.Seek(c.lp, index)
		return
	}
	offset, ok := rootAt(v.Root()).nodes.LeafAt(&c.path, uint64(index))
	if c.more = ok; !ok {
		c.at, c.plain = 0, false
		return
	}
	c.enter()
	if !c.plain {
		c.at = listpack.Seek(c.lp, int(offset))
	}
}

// enter leads c to the first element, in the direction of the walk, of path's leaf.
func (c *Cursor) enter() {
	ref := c.path.Leaf()
	if c.plain = isPlain(ref); c.plain {
		c.lp, c.at = nil, 0
		return
	}
	c.lp = listpackAt(ref)
	if c.back {
		c.at = listpack.Last(c.lp)
	} else {
		c.at = listpack.First(c.lp)
	}
}

// Next returns the element at c, and moves c. It returns false at the end.
func (c *Cursor) Next() (el listpack.Element, ok bool) {
	for {
		if at := c.at; at != 0 {
			if c.back {
				el, c.at = listpack.Get(c.lp, at), listpack.Prev(c.lp, at)
			} else {
				el, c.at = listpack.GetNext(c.lp, at)
			}
			return el, true
		}
		if c.plain {
			c.plain = false
			text, _ := plainAt(c.path.Leaf())
			return listpack.OfText(text), true
		}
		if !c.more || !c.step() {
			c.more = false
			return el, false
		}
	}
}

// Piece returns the listpack of the next elements towards the tail, and the offset of the first of them. It moves c
// past the listpack. Callers use it to walk the listpack themselves, which costs less. It returns nil if the next
// element is plain or there is none.
func (c *Cursor) Piece() (lp []byte, at int) {
	if c.at == 0 && !c.plain && c.more && !c.step() {
		c.more = false
	}
	if c.at == 0 {
		return nil, 0
	}
	lp, at, c.at = c.lp, c.at, 0
	return lp, at
}

func (c *Cursor) step() bool {
	ok := false
	if c.back {
		ok = c.path.Prev()
	} else {
		ok = c.path.Next()
	}
	if ok {
		c.enter()
	}
	return ok
}

// At returns the element at index, counted from the tail if negative. It returns false if there is none.
//
// Lifetime: that of a Cursor.
func At(v value.Value, index int64) (el listpack.Element, ok bool) {
	n := int64(Len(v))
	if index < 0 {
		index += n
	}
	if index < 0 || index >= n {
		return el, false
	}
	var c Cursor
	c.Seek(v, int(index), Tail)
	return c.Next()
}

// First returns the element at one end of a list. The list must not be empty.
//
// Lifetime: that of a Cursor.
func First(v value.Value, end End) listpack.Element {
	lp := v.Packed()
	if lp == nil {
		leaf, _ := rootAt(v.Root()).nodes.Edge(end.side())
		if text, ok := plainAt(leaf); ok {
			return listpack.OfText(text)
		}
		lp = packedAt(leaf)
	}
	if end == Head {
		return listpack.Get(lp, listpack.First(lp))
	}
	return listpack.Get(lp, listpack.Last(lp))
}

// A Piece is a part of a list in the form in which it is stored: a listpack, or a single element (Plain).
type Piece struct {
	Bytes []byte
	Size  int // length of Bytes uncompressed; package lzf expands them
	Plain bool
}

// Compressed reports whether Bytes are compressed. Then they are shorter than Size.
func (p *Piece) Compressed() bool { return len(p.Bytes) != p.Size }

// Leaves yields the pieces of a list. A list that is a listpack has one piece. If it has more elements than a leaf may
// have (countable), it is yielded in several pieces.
//
// Lifetime: that of a Cursor; for a divided listpack, until yield returns.
func Leaves(v value.Value, yield func(p Piece) bool) {
	if lp := v.Packed(); lp != nil {
		if count := listpack.Count(lp); count > countable {
			var piece []byte
			for entries, n := range divided(lp, count) {
				piece = listpack.Close(append(listpack.Begin(piece[:0]), entries...), 0, n)
				if !yield(Piece{piece, len(piece), false}) {
					break
				}
			}
			return
		}
		yield(Piece{lp, len(lp), false})
		return
	}
	var p tree.Path
	s := rootAt(v.Root()).nodes
	for ok := s.FirstLeaf(&p); ok; ok = p.Next() {
		if !yield(pieceAt(p.Leaf())) {
			return
		}
	}
}

func pieceAt(ref memory.Ref) Piece {
	if isCompressed(ref) {
		packed, size := compressedAt(ref)
		return Piece{packed, size, isPlain(ref)}
	}
	if text, plain := plainAt(ref); plain {
		return Piece{text, len(text), true}
	}
	lp := packedAt(ref)
	return Piece{lp, len(lp), false}
}

// LeafCount returns the number of pieces that Leaves yields.
func LeafCount(v value.Value) int {
	if lp := v.Packed(); lp != nil {
		return (max(listpack.Count(lp), 1) + countable - 1) / countable
	}
	return rootAt(v.Root()).nodes.Leaves()
}

// A Text is a text to compare with elements. It is parsed only once.
type Text struct {
	text  []byte
	n     int64
	isInt bool
}

// TextOf returns a Text of text. Lifetime: that of text.
func TextOf(text []byte) Text {
	n, ok := number.ParseInt(text)
	return Text{text, n, ok}
}

// Is reports whether el's text equals x.
func (x *Text) Is(el listpack.Element) bool {
	if el.IsInt {
		return x.isInt && el.Int == x.n
	}
	return bytes.Equal(el.Bytes(), x.text)
}

// find returns the first element with this text in the leaf at ref, or 0 if there is none. For the element of a plain
// leaf it returns 1.
func find(ref memory.Ref, text []byte) (at int) {
	if plain, ok := plainAt(ref); ok {
		if bytes.Equal(plain, text) {
			return 1
		}
		return 0
	}
	lp := listpackAt(ref)
	return listpack.Find(lp, listpack.First(lp), text, 0)
}
