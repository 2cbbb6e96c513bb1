package tree

import "spindle/engine/data/memory"

// Blocks is a tree whose leaves are blocks of its owner, while the core changes the tree. For each leaf, the tree
// stores the address, the number of elements (at least one) and the key. Keys ascend; an owner that uses no keys passes
// 0. Blocks is a value for the stack: the owner opens it from a State, and stores its State after a change. All methods
// of State work on Blocks.
//
// tree.B1. A leaf is one block of purpose Values that begins with its epoch. [Blocks.NewLeaf] makes one.
// tree.B2. The owner writes to a leaf only after Writable or SetLeaf returned it, in the same turn.
// tree.B3. A leaf outside the tree belongs to the owner. The tree frees the leaves that it replaces or removes.
// tree.B4. State.Bytes is exact until CutFront or CutBack removes whole subtrees. Their leaves are assumed to have the
// average size. It is exact again when fewer than fewLeaves leaves are left.
type Blocks struct{ tree }

// leafShare is about how many bytes a leaf costs in the nodes above it.
const leafShare = 40

// weight returns the bytes that a leaf adds to State.Bytes.
func weight(ref memory.Ref) int64 { return int64(memory.UsableSize(ref)) + leafShare }

// fewLeaves: if a cut leaves fewer leaves, Bytes is computed again from the leaves.
const fewLeaves = 128

// weigh computes Bytes again in a tree that has few leaves left (tree.B4).
func (t *Blocks) weigh() {
	var p Path
	sum := int64(0)
	for i := range fewLeaves {
		if i == 0 && !t.FirstLeaf(&p) || i > 0 && !p.Next() {
			t.addBytes(sum - t.Bytes())
			return
		}
		sum += weight(p.Leaf())
	}
}

// OpenBlocks opens the tree s. kind is the kind under which [Destroy] is registered in h. wide means that a view may
// know the tree under another key, so that blocks are retired wide.
func OpenBlocks(h *memory.Heap, kind memory.Kind, s State, wide bool) Blocks {
	return Blocks{tree{s, h, kind, wide}}
}

// NewLeaf returns a block of at least size bytes with its epoch stamped. The rest is undefined.
func (t *Blocks) NewLeaf(size int) memory.Ref {
	ref := t.heap.Alloc(size, memory.Values)
	*memory.Word(ref) = t.heap.Epoch()
	return ref
}

// Writable returns p's leaf, writable and with at least room bytes. If a view may read the leaf, or it is too small, it
// is replaced by a copy of its first used bytes (tree.E1).
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
	t.addBytes(weight(ref) - weight(old))
	t.release(old)
	return ref
}

// SetLeaf replaces p's leaf by ref, with this count and key, and frees the old leaf unless it is ref. p leads to the
// new leaf.
func (t *Blocks) SetLeaf(p *Path, ref memory.Ref, count uint64, key Key) {
	t.SetCount(p, count)
	if old := p.leaf; old != ref {
		*t.linkOf(p, p.height), p.leaf = ref, ref
		t.addBytes(weight(ref) - weight(old))
		t.release(old)
	}
	t.rekey(p, p.height, key[0], key[1])
}

// SetCount sets the count of p's leaf, at least one. p stays where it is.
func (t *Blocks) SetCount(p *Path, count uint64) {
	t.own(p)
	if delta := count - t.CountOf(p); delta != 0 {
		t.bump(p, p.height, delta)
	}
}

// InsertAfter inserts the leaf ref after p's leaf, and leads p to ref. In an empty tree ref becomes the only leaf.
func (t *Blocks) InsertAfter(p *Path, ref memory.Ref, count uint64, key Key) {
	t.insert(p, 1, entry{key[0], key[1], ref, count})
}

// InsertBefore inserts the leaf ref before p's leaf, and leads p to ref. In an empty tree ref becomes the only leaf.
func (t *Blocks) InsertBefore(p *Path, ref memory.Ref, count uint64, key Key) {
	t.insert(p, 0, entry{key[0], key[1], ref, count})
}

// insert inserts the leaf e next to p's leaf, before it (by 0) or after it (by 1), and leads p to e.
func (t *tree) insert(p *Path, by int, e entry) {
	if t.root == 0 {
		t.State = State{word0: e.word0, word1: e.word1, root: e.ref, count: e.count}
		t.addBytes(weight(e.ref))
		p.leaf, p.height = e.ref, 0
		return
	}
	t.own(p)
	t.addBytes(weight(e.ref))
	count := e.count
	e.count = 0
	t.addLeaf(p, by, e)
	t.bump(p, p.height, count)
}

// Remove removes p's leaf, frees it, and leads p to the next leaf. It returns false if there is no next leaf; p then
// leads nowhere.
func (t *Blocks) Remove(p *Path) bool {
	t.own(p)
	rank, gone := p.Rank(), p.leaf
	t.addBytes(-weight(gone))
	t.bump(p, p.height, -t.CountOf(p))
	t.drop(p, p.height-1)
	t.release(gone)
	if _, ok := t.LeafAt(p, rank); ok {
		return true
	}
	p.leaf = 0
	return false
}

// CutFront removes every leaf before p's leaf and returns the number of their elements. p leads to the same leaf, which
// is now the first. O(height): whole subtrees go to a reclaimer.
func (t *Blocks) CutFront(p *Path) (removed uint64) {
	t.own(p)
	whole := false
	for i := p.height - 1; i >= 0; i-- {
		s := &p.steps[i]
		n := nodeAt(s.ref)
		n.counts()[s.at] -= removed
		here := n.sum(0, s.at)
		whole = t.cut(n, 0, s.at, t.count-removed) || whole
		removed += here
		s.at = 0
	}
	t.count -= removed
	if p.height > 0 {
		n := nodeAt(p.steps[p.height-1].ref)
		t.rekey(p, p.height, n.word0s()[0], n.word1s()[0])
	}
	t.lower()
	if whole {
		t.weigh()
	}
	t.FirstLeaf(p)
	return removed
}

// CutBack removes every leaf after p's leaf and returns the number of their elements. p leads to the same leaf, which
// is now the last. O(height): whole subtrees go to a reclaimer.
func (t *Blocks) CutBack(p *Path) (removed uint64) {
	t.own(p)
	whole := false
	for i := p.height - 1; i >= 0; i-- {
		s := &p.steps[i]
		n := nodeAt(s.ref)
		n.counts()[s.at] -= removed
		behind := int(n.n) - s.at - 1
		here := n.sum(s.at+1, behind)
		whole = t.cut(n, s.at+1, behind, t.count-removed) || whole
		removed += here
	}
	t.count -= removed
	t.lower()
	if whole {
		t.weigh()
	}
	t.LastLeaf(p)
	return removed
}

// cut removes k children of n, the first at index from, with all nodes and leaves below them. n must be writable. left
// is the number of elements that Bytes covers. whole reports whether whole subtrees were removed.
func (t *Blocks) cut(n *node, from, k int, left uint64) (whole bool) {
	if whole = n.level > 1 && k > 0; !whole {
		for i := from; i < from+k; i++ {
			t.addBytes(-weight(n.child(i)))
			t.release(n.child(i))
		}
	} else {
		t.addBytes(-int64(float64(t.Bytes()) * float64(n.sum(from, k)) / float64(left))) // tree.B4
		for i := from; i < from+k; i++ {
			t.releaseTree(n.child(i))
		}
	}
	n.remove(from, k)
	return whole
}
