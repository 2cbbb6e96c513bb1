package tree

import "spindle/engine/data/memory"

// Blocks is a tree whose leaves are blocks of its owner, while the core changes it. The tree knows of a leaf where it
// is, how many elements it has (at least one), and a key, if the owner gives keys: ascending, and all 0 otherwise. It
// is a value for the stack: the owner opens it from a State, and keeps its State again after a change. What a State can
// be asked, Blocks can be asked.
//
// tree.B1. A leaf is one block of purpose Values that begins with its epoch; [Blocks.NewLeaf] makes one.
// tree.B2. The owner writes to a leaf only after Writable or SetLeaf gave it to him, in the same turn.
// tree.B3. A leaf that is not in the tree belongs to the owner; the tree lets go of those it replaces or removes.
type Blocks struct{ tree }

// OpenBlocks opens the tree s. kind is what h knows [Destroy] under; wide says that a view may know the tree under
// another key, so that what is let go is retired wide.
func OpenBlocks(h *memory.Heap, kind memory.Kind, s State, wide bool) Blocks {
	return Blocks{tree{s, h, kind, wide}}
}

// NewLeaf is a block of size bytes at least whose epoch is stamped; the rest is undefined.
func (t *Blocks) NewLeaf(size int) memory.Ref {
	ref := t.heap.Alloc(size, memory.Values)
	*memory.Word(ref) = t.heap.Epoch()
	return ref
}

// Writable makes p's leaf writable, with room for that many bytes, and returns it: a copy of its first used bytes when
// a view may read it or its block is too small, else the leaf itself (tree.E1).
func (t *Blocks) Writable(p *Path, used, room int) memory.Ref {
	t.own(p)
	link := t.linkOf(p, p.height)
	old := *link
	if *memory.Word(old) > t.heap.Frozen() && room <= memory.UsableSize(old) {
		return old
	}
	ref := t.NewLeaf(max(used, room))
	copy(memory.Bytes(ref, used)[8:], memory.Bytes(old, used)[8:])
	*link, p.leaf = ref, ref
	t.letGo(old)
	return ref
}

// SetLeaf puts ref in the place of p's leaf, with this count and key, and lets go of the old one, if it is another. p
// stays there.
func (t *Blocks) SetLeaf(p *Path, ref memory.Ref, count uint64, key Key) {
	t.SetCount(p, count)
	if old := p.leaf; old != ref {
		*t.linkOf(p, p.height), p.leaf = ref, ref
		t.letGo(old)
	}
	t.rekey(p, p.height, key[0], key[1])
}

// SetCount says that p's leaf has count elements now, at least one. p stays there.
func (t *Blocks) SetCount(p *Path, count uint64) {
	t.own(p)
	if delta := count - t.CountOf(p); delta != 0 {
		t.bump(p, p.height, delta)
	}
}

// InsertAfter puts the leaf ref behind p's, and leads p to it. In an empty tree it becomes the only one.
func (t *Blocks) InsertAfter(p *Path, ref memory.Ref, count uint64, key Key) {
	t.insert(p, 1, entry{key[0], key[1], ref, count})
}

// InsertBefore puts the leaf ref before p's, and leads p to it. In an empty tree it becomes the only one.
func (t *Blocks) InsertBefore(p *Path, ref memory.Ref, count uint64, key Key) {
	t.insert(p, 0, entry{key[0], key[1], ref, count})
}

// insert puts the leaf e beside p's, before it (by 0) or after it (by 1), and leads p to it.
func (t *tree) insert(p *Path, by int, e entry) {
	if t.root == 0 {
		t.State = State{e.word0, e.word1, e.ref, e.count, 0}
		p.leaf, p.height = e.ref, 0
		return
	}
	t.own(p)
	count := e.count
	e.count = 0
	t.addLeaf(p, by, e)
	t.bump(p, p.height, count)
}

// Remove takes p's leaf out and lets go of it. p leads to the leaf behind it then; false says that there is none, and p
// leads nowhere.
func (t *Blocks) Remove(p *Path) bool {
	t.own(p)
	rank, gone := p.Rank(), p.leaf
	t.bump(p, p.height, -t.CountOf(p))
	t.drop(p, p.height-1)
	t.letGo(gone)
	if _, ok := t.LeafAt(p, rank); ok {
		return true
	}
	p.leaf = 0
	return false
}

// CutFront removes every leaf before p's and returns how many elements they had. p leads to the same leaf, the first
// then. O(height): whole subtrees go to a reclaimer.
func (t *Blocks) CutFront(p *Path) (removed uint64) {
	t.own(p)
	for i := p.height - 1; i >= 0; i-- {
		s := &p.steps[i]
		n := nodeAt(s.ref)
		n.counts()[s.at] -= removed
		removed += n.sum(0, s.at)
		t.cut(n, 0, s.at)
		s.at = 0
	}
	t.count -= removed
	if p.height > 0 {
		n := nodeAt(p.steps[p.height-1].ref)
		t.rekey(p, p.height, n.word0s()[0], n.word1s()[0])
	}
	t.lower()
	t.FirstLeaf(p)
	return removed
}

// CutBack removes every leaf behind p's and returns how many elements they had. p leads to the same leaf, the last
// then. O(height): whole subtrees go to a reclaimer.
func (t *Blocks) CutBack(p *Path) (removed uint64) {
	t.own(p)
	for i := p.height - 1; i >= 0; i-- {
		s := &p.steps[i]
		n := nodeAt(s.ref)
		n.counts()[s.at] -= removed
		behind := int(n.n) - s.at - 1
		removed += n.sum(s.at+1, behind)
		t.cut(n, s.at+1, behind)
	}
	t.count -= removed
	t.lower()
	t.LastLeaf(p)
	return removed
}

// cut takes k children from the one at from on out of n, which is writable, and lets go of all that is under them.
func (t *Blocks) cut(n *node, from, k int) {
	for i := from; i < from+k; i++ {
		if n.level == 1 {
			t.letGo(n.child(i))
		} else {
			t.letGoTree(n.child(i))
		}
	}
	n.remove(from, k)
}
