package tree

import (
	"unsafe"

	"spindle/engine/data/memory"
)

// A State is a tree's root entry, in the form in which a node stores a child, and the tree's height. The zero value is
// an empty tree. It holds no Go pointer: the owner stores it in a block, and copies it there after each change.
//
// Lifetime: any goroutine can read a copy made at a freeze until the hold closes or passes the key.
type State struct {
	word0, word1 uint64 // the least key
	root         memory.Ref
	count        uint64
	height       uint16 // inner levels
	bytesHigh    uint16 // Bytes, in two parts, so that a State needs no further word
	bytesLow     uint32
}

var _ [40]byte = [unsafe.Sizeof(State{})]byte{}

func (s *State) Len() uint64 { return s.count }

// StateLen is the offset of the count in a State, a u64.
const StateLen = int(unsafe.Offsetof(State{}.count))

// Leaves returns the number of leaves. O(leaves / 63).
func (s *State) Leaves() int {
	if s.root == 0 {
		return 0
	}
	return leavesUnder(s.root, int(s.height))
}

func leavesUnder(ref memory.Ref, height int) (leaves int) {
	if height == 0 {
		return 1
	}
	n := nodeAt(ref)
	if height == 1 {
		return int(n.n)
	}
	for i := range int(n.n) {
		leaves += leavesUnder(n.child(i), height-1)
	}
	return leaves
}

// Bytes returns the size of the leaves of Blocks, with a share of the nodes above them (tree.B4). Trees of records do
// not count it.
func (s *State) Bytes() int64 { return int64(s.bytesHigh)<<32 | int64(s.bytesLow) }

// addBytes adds delta to Bytes, but not below 0.
func (s *State) addBytes(delta int64) {
	n := max(0, s.Bytes()+delta)
	s.bytesHigh, s.bytesLow = uint16(n>>32), uint32(n)
}

// A Key is the least key in an opaque leaf, by which the leaf is found. Keys compare by the first word, then by the
// second.
type Key [2]uint64

// A Path leads to a leaf. It is a value for the stack. It is valid until the tree next changes, unless the call that
// changes the tree updates the path.
type Path struct {
	leaf   memory.Ref // 0 if the path leads nowhere
	height int
	steps  [maxHeight]step
}

// A step is a node of a path, and the index of the child that the path continues with.
type step struct {
	ref memory.Ref
	at  int
}

// Leaf returns the leaf that p leads to, or 0 if the tree is empty or p has passed its end.
func (p *Path) Leaf() memory.Ref { return p.leaf }

// Rank returns the number of elements before p's leaf. O(height).
func (p *Path) Rank() (rank uint64) {
	for i := range p.height {
		rank += nodeAt(p.steps[i].ref).sum(0, p.steps[i].at)
	}
	return rank
}

// FirstLeaf leads p to the first leaf. It returns false if there is none.
func (s *State) FirstLeaf(p *Path) bool { return s.edge(p, -1) }

// LastLeaf leads p to the last leaf. It returns false if there is none.
func (s *State) LastLeaf(p *Path) bool { return s.edge(p, 1) }

// LeafFrom leads p to the leaf that has n other leaves between it and an end of the tree. side -1 means the beginning,
// and 1 the end. It returns false if there are no more than n leaves. O(height + n / 63).
func (s *State) LeafFrom(p *Path, side, n int) bool {
	if !s.edge(p, side) || p.height == 0 {
		return n == 0 && s.root != 0
	}
	for {
		last := &p.steps[p.height-1]
		here := nodeAt(last.ref)
		if n < int(here.n) {
			last.at -= side * n
			p.leaf = here.child(last.at)
			return true
		}
		if n -= int(here.n); !p.shift(p.height-1, -side) {
			return false
		}
	}
}

func (s *State) edge(p *Path, side int) bool {
	p.leaf, p.height = s.root, int(s.height)
	if s.root == 0 {
		return false
	}
	p.descend(0, s.root, side)
	return true
}

// descend leads p from its level i, where ref is, to an outermost leaf of the subtree: the first with side -1,
// otherwise the last.
func (p *Path) descend(i int, ref memory.Ref, side int) {
	for ; i < p.height; i++ {
		n := nodeAt(ref)
		at := 0
		if side > 0 {
			at = int(n.n) - 1
		}
		p.steps[i] = step{ref, at}
		ref = n.child(at)
	}
	p.leaf = ref
}

// Next leads p to the next leaf. If there is none, it returns false and p does not change.
func (p *Path) Next() bool { return p.shift(p.height, 1) }

// Prev leads p to the previous leaf. If there is none, it returns false and p does not change.
func (p *Path) Prev() bool { return p.shift(p.height, -1) }

// shift leads p to the neighbour of its block at level: the next block (by 1) or the previous one (by -1). It then
// continues down to the leaf of that neighbour that is nearest.
func (p *Path) shift(level, by int) bool {
	for i := level - 1; i >= 0; i-- {
		s := &p.steps[i]
		n := nodeAt(s.ref)
		at := s.at + by
		if uint(at) >= uint(n.n) {
			continue
		}
		s.at = at
		if i == p.height-1 {
			if ahead := at + by; uint(ahead) < uint(n.n) {
				memory.PrefetchRef(n.child(ahead))
			}
			p.leaf = n.child(at)
			return true
		}
		p.descend(i+1, n.child(at), -by)
		return true
	}
	return false
}

// LeafAt leads p to the leaf that has the element of this rank, and returns the element's index in the leaf. If rank is
// not below Len, p leads to the last leaf, and offset is past its elements.
func (s *State) LeafAt(p *Path, rank uint64) (offset uint64, ok bool) {
	p.leaf, p.height = s.root, int(s.height)
	if s.root == 0 {
		return 0, false
	}
	ok = rank < s.count
	ref := s.root
	for i := range p.height {
		n := nodeAt(ref)
		counts := n.counts()
		at := 0
		for at < len(counts)-1 && rank >= counts[at] {
			rank -= counts[at]
			at++
		}
		p.steps[i] = step{ref, at}
		ref = n.child(at)
	}
	p.leaf = ref
	return rank, ok
}

// LeafOf leads p to the last leaf whose key is not above key. If there is no such leaf, it leads p to the first leaf
// and returns false.
func (s *State) LeafOf(p *Path, key Key) bool {
	probe := Probe{Word0: key[0], Word1: key[1]}
	s.seek(p, &probe)
	return s.root != 0 && probe.compare(s.word0, s.word1) >= 0
}

// seek leads p to the last leaf whose key is not after the probe, or to the first leaf if there is none.
func (s *State) seek(p *Path, probe *Probe) {
	p.height = int(s.height)
	ref := s.root
	for i := range p.height {
		n := nodeAt(ref)
		at := n.find(probe)
		p.steps[i] = step{ref, at}
		ref = n.child(at)
	}
	p.leaf = ref
}

// entry returns the entry of p's leaf in the node above, or in the State.
func (s *State) entry(p *Path) (e entry) {
	if p.height == 0 {
		return entry{s.word0, s.word1, s.root, s.count}
	}
	last := &p.steps[p.height-1]
	n := nodeAt(last.ref)
	return entry{n.word0s()[last.at], n.word1s()[last.at], n.child(last.at), n.counts()[last.at]}
}

// CountOf returns the number of elements in p's leaf.
func (s *State) CountOf(p *Path) uint64 {
	if p.height == 0 {
		return s.count
	}
	last := &p.steps[p.height-1]
	return nodeAt(last.ref).counts()[last.at]
}

// KeyOf returns the key of p's leaf.
func (s *State) KeyOf(p *Path) Key {
	e := s.entry(p)
	return Key{e.word0, e.word1}
}
