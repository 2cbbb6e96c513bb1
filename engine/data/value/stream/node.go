package stream

import (
	"encoding/binary"
	"unsafe"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
)

// A node is a leaf of the tree of entries: its epoch and a listpack. The listpack begins with a master entry. Other
// entries need not repeat the fields of the master entry. IDs are differences to the node's key.
//
//	0       8
//	+-------+--- listpack: ------------------------------------------------------------+
//	| epoch | count | deleted | n | field 1 … field n | 0 | entry | entry | …          |
//	+-------+--------------------------------------------------------------------------+
//
//	entry with other fields than the master's:  | flags | ms | seq | n | field 1 | value 1 | … | elements before it |
//	entry with the master's fields (same):      | flags | ms | seq |     value 1 | … | value n | elements before it |
//
// The last element of an entry lets a walk go backwards. The master's 0 means that there is no entry before it.
// Deleting an entry sets a flag, so that nothing after the entry moves.
//
// stream.N1. count + deleted is the number of entries; count of them are not deleted.
// stream.N2. IDs of entries that are not deleted ascend strictly. None is before the node's key. IDs of deleted entries
// ascend too, except in nodes written by servers before 7.0. There, XSETID could set the last ID back to before a
// deleted entry.
// stream.N3. The last element of an entry is the number of the entry's elements before it.
type node struct {
	lp     []byte
	master ID
	n      int // fields of the master entry
	fields int // offset of the first of them
	first  int // offset of the first entry, 0 if there is none
}

const (
	nodeHeader = 8

	flagDeleted = 1
	flagSame    = 2
)

// packAt returns the listpack of the node at ref.
func packAt(ref memory.Ref) []byte {
	p := unsafe.Add(memory.Pointer(ref), nodeHeader)
	n := binary.LittleEndian.Uint32(unsafe.Slice((*byte)(p), 4))
	return unsafe.Slice((*byte)(p), int(n))
}

// intAt returns the integer at at.
func intAt(lp []byte, at int) int64 {
	if b := lp[at]; b < 0x80 {
		return int64(b) // nearly always
	}
	n, _ := listpack.Get(lp, at).Integer()
	return n
}

// countAt is the offset of the first element of the master entry.
const countAt = listpack.HeaderLen

func deletedAt(lp []byte) int { return listpack.Next(lp, countAt) }

// open reads the master entry.
func (n *node) open(lp []byte, master ID) {
	n.lp, n.master = lp, master
	at := listpack.Next(lp, deletedAt(lp))
	n.n = int(intAt(lp, at))
	at = listpack.Next(lp, at)
	n.fields = at
	for range n.n {
		at = listpack.Next(lp, at)
	}
	n.first = listpack.Next(lp, at)
}

// An entry is the offset of an entry and the content of its first elements, its head.
type entry struct {
	at    int // the offset of the entry's flags
	flags int64
	id    ID
	n     int // pairs of field and value
	body  int // the first field, or with flagSame the first value
}

// read reads the head of the entry at at.
func (n *node) read(at int) (e entry) {
	e.at = at
	el, at := listpack.GetNext(n.lp, at)
	e.flags, _ = el.Integer()
	el, at = listpack.GetNext(n.lp, at)
	ms, _ := el.Integer()
	el, at = listpack.GetNext(n.lp, at)
	seq, _ := el.Integer()
	e.id = ID{n.master.Ms + uint64(ms), n.master.Seq + uint64(seq)}
	e.n = n.n
	if e.flags&flagSame == 0 {
		el, at = listpack.GetNext(n.lp, at)
		count, _ := el.Integer()
		e.n = int(count)
	}
	e.body = at
	return e
}

// elements returns how many elements the entry has after its head, without the last element.
func (e *entry) elements() int {
	if e.flags&flagSame != 0 {
		return e.n
	}
	return 2 * e.n
}

// after returns the offset of the entry after e, or 0 at the end.
func (n *node) after(e *entry) int {
	at := e.body
	for range e.elements() {
		at = listpack.Next(n.lp, at)
	}
	return listpack.Next(n.lp, at)
}

// live returns the offset of the first live entry at or after at, or 0 if there is none. Every read from the beginning
// skips the deleted entries that trimming left. So live reads only the necessary elements of them.
func (n *node) live(at int) int {
	for at != 0 {
		el, next := listpack.GetNext(n.lp, at)
		flags, _ := el.Integer()
		if flags&flagDeleted == 0 {
			return at
		}
		next = listpack.Next(n.lp, listpack.Next(n.lp, next))
		elements := n.n
		if flags&flagSame == 0 {
			el, next = listpack.GetNext(n.lp, next)
			count, _ := el.Integer()
			elements = 2 * int(count)
		}
		for range elements + 1 {
			next = listpack.Next(n.lp, next)
		}
		at = next
	}
	return 0
}

// before returns the offset of the entry before the one at at (or before the listpack's End), or 0 at the beginning.
func (n *node) before(at int) int {
	at = listpack.Prev(n.lp, at)
	steps := int(intAt(n.lp, at))
	if steps == 0 {
		return 0
	}
	for range steps {
		at = listpack.Prev(n.lp, at)
	}
	return at
}

// lastID returns the ID of the last entry, deleted or not.
func (n *node) lastID() ID {
	at := n.before(listpack.End(n.lp))
	if at == 0 {
		return ID{}
	}
	return n.read(at).id
}

// setInt replaces the integer at at. The listpack must have room after it for a longer integer.
func setInt(lp []byte, at int, n int64) {
	size := listpack.EncodedIntLen(n)
	s := listpack.Replace(lp, at, size)
	if s.Del == size {
		listpack.PutInt(lp[at:], n)
		return
	}
	whole := unsafe.Slice(unsafe.SliceData(lp), listpack.Bytes(lp)+max(s.Grow(), 0))
	s.Open(whole)
	listpack.PutInt(whole[at:], n)
}
