package tree

import (
	"unsafe"

	"spindle/engine/data/memory"
)

// A tree is inner nodes over leaves. An element is the unit that a leaf counts: a record, or what the owner of an
// opaque leaf counts.
//
//	State ─▶ node (level h) ─▶ node ─▶ … ─▶ node (level 1) ─▶ leaf          an h of 0: the root is a leaf
//	root's    up to 63 children                                records, or the owner's block
//	entry
//
// A node has four columns, so that a search reads only keys and a rank reads only counts:
//
//	0       8   10     12     13    16            16+8*room      16+16*room   16+24*room   16+32*room
//	+-------+---+------+-------+----+--------------+--------------+------------+------------+
//	| epoch | n | room | level |mark| word0 × room | word1 × room | ref × room | count × room |
//	+-------+---+------+-------+----+--------------+--------------+------------+------------+
//	  u64    u16  u16    u8     u8    key of child                  the child    its elements
//
// tree.T1. Every leaf is height steps below the State. A node's level is its height above the leaves. Its children's
// level is one less.
// tree.T2. A child's count is the number of elements under the child, at least 1. The State's count is that of the
// whole tree.
// tree.T3. A child's key (word0, word1) is exactly the least key under the child. It must be exact because a key may
// point to memory that is freed with its record. Keys of unkeyed leaves are all 0.
// tree.T4. 1 <= n <= room <= 63. A root that is a node has at least two children. room is the number of entries that
// fit in the block.
// tree.T5. A node, or a leaf of records, with neighbours on both sides is at least a third full.
// tree.T6. Every block begins with the epoch in which it was made (cow.go, tree.E1 to tree.E4).
type node struct {
	epoch uint64
	n     uint16
	room  uint16
	level uint8
	mark  uint8 // destroying, or 0
	_     [2]byte
}

const (
	nodeHeader = 16
	entryBytes = 32

	maxFan = 63 // a full node is 2032 bytes
	minFan = maxFan / 3
	joinAt = maxFan * 3 / 4 // two nodes with at most this many children together are joined

	// maxHeight is never reached, because all but the two outermost nodes of a level have at least minFan children
	// (tree.T5).
	maxHeight = 12
)

var _ [nodeHeader]byte = [unsafe.Sizeof(node{})]byte{}

// An entry is the data that a node stores for a child.
type entry struct {
	word0, word1 uint64
	ref          memory.Ref
	count        uint64
}

func nodeAt(r memory.Ref) *node { return (*node)(memory.Pointer(r)) }

// nodeBytes returns the size of a node, a multiple of 64, so that the Ref of a retired root has room for tags.
func nodeBytes(room int) int { return (nodeHeader + room*entryBytes + 63) &^ 63 }

// column returns column i of the node. The slice's capacity is the node's room.
func (n *node) column(i int) []uint64 {
	first := (*uint64)(unsafe.Add(unsafe.Pointer(n), nodeHeader+i*8*int(n.room)))
	return unsafe.Slice(first, int(n.room))[:n.n]
}

func (n *node) word0s() []uint64 { return n.column(0) }
func (n *node) word1s() []uint64 { return n.column(1) }
func (n *node) counts() []uint64 { return n.column(3) }

// link returns the address of the node's Ref to child i.
func (n *node) link(i int) *memory.Ref { return (*memory.Ref)(&n.column(2)[i]) }

func (n *node) child(i int) memory.Ref { return memory.Ref(n.column(2)[i]) }

// insert inserts e at index at. The node must have room for it.
func (n *node) insert(at int, e entry) {
	n.n++
	for i, v := range [4]uint64{e.word0, e.word1, uint64(e.ref), e.count} {
		c := n.column(i)
		copy(c[at+1:], c[at:])
		c[at] = v
	}
}

// splice inserts k entries of src, the first at index from, at index at. The node must have room for them.
func (n *node) splice(at int, src *node, from, k int) {
	n.n += uint16(k)
	for i := range 4 {
		c := n.column(i)
		copy(c[at+k:], c[at:])
		copy(c[at:at+k], src.column(i)[from:])
	}
}

// remove removes k entries, the first at index at.
func (n *node) remove(at, k int) {
	for i := range 4 {
		c := n.column(i)
		copy(c[at:], c[at+k:])
	}
	n.n -= uint16(k)
}

// sum returns the number of elements under k children, the first at index from.
func (n *node) sum(from, k int) (s uint64) {
	for _, c := range n.counts()[from : from+k] {
		s += c
	}
	return s
}

// lowerBound returns the first index whose word is not below w.
func lowerBound(words []uint64, w uint64) int {
	base, n := 0, len(words)
	for n > 1 {
		half := n >> 1
		if words[base+half-1] < w {
			base += half
		}
		n -= half
	}
	if n == 1 && words[base] < w {
		base++
	}
	return base
}

// find returns the last child whose key is not after the probe, or the first child if there is none.
func (n *node) find(p *Probe) int {
	words := n.word0s()
	lo, hi := 0, len(words)
	if !p.TieOnly {
		lo = lowerBound(words, p.Word0)
		if lo == hi || words[lo] != p.Word0 {
			return max(lo-1, 0)
		}
	}
	ties := n.word1s()
	for lo < hi {
		mid := (lo + hi) >> 1
		if p.compare(words[mid], ties[mid]) >= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return max(lo-1, 0)
}
