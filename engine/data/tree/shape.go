package tree

import (
	"spindle/engine/data/memory"
	"spindle/internal/invariant"
)

// Nodes are split and joined here. All of it works on a path whose nodes are writable (own). Counts change in two
// steps. A child is added or dropped while its count is 0, so that sums stay right however nodes are divided. Then bump
// changes the counts of a path.

// bump adds delta to the counts of all nodes of p above level i.
func (t *tree) bump(p *Path, i int, delta uint64) {
	for j := range i {
		s := &p.steps[j]
		nodeAt(s.ref).counts()[s.at] += delta
	}
	t.count += delta
}

// rekey changes the least key under level i of p to (word0, word1) (tree.T3).
func (t *tree) rekey(p *Path, i int, word0, word1 uint64) {
	for i > 0 {
		i--
		s := &p.steps[i]
		n := nodeAt(s.ref)
		n.word0s()[s.at], n.word1s()[s.at] = word0, word1
		if s.at > 0 {
			return
		}
	}
	t.word0, t.word1 = word0, word1
}

// leftmost reports whether nothing is to the left of level i of p.
func (p *Path) leftmost(i int) bool {
	for j := range i {
		if p.steps[j].at > 0 {
			return false
		}
	}
	return true
}

// rightmost reports whether nothing is to the right of level i of p.
func (p *Path) rightmost(i int) bool {
	for j := range i {
		s := &p.steps[j]
		if s.at < int(nodeAt(s.ref).n)-1 {
			return false
		}
	}
	return true
}

// raise puts a new root above the present root, and inserts it into p.
func (t *tree) raise(p *Path) {
	invariant.That(p.height < maxHeight, "tree.T5: a tree of height %d with %d elements", p.height, t.count)
	ref := t.newNode(uint8(t.height)+1, 2)
	nodeAt(ref).insert(0, entry{t.word0, t.word1, t.root, t.count})
	t.root = ref
	t.height++
	copy(p.steps[1:], p.steps[:p.height])
	p.steps[0] = step{ref, 0}
	p.height++
}

// addLeaf adds a leaf with count 0 before p's leaf (by 0) or after it (by 1), and leads p to the new leaf.
func (t *tree) addLeaf(p *Path, by int, e entry) {
	if p.height == 0 {
		t.raise(p)
	}
	t.add(p, p.height-1, p.steps[p.height-1].at+by, e)
	p.leaf = e.ref
}

// add adds a child with count 0 at index at of the node at level i of p, and leads p to the child. A full node is split
// in the middle. At the edges of the tree the node stays full instead, so that ascending and descending insertion leave
// full nodes.
func (t *tree) add(p *Path, i, at int, e entry) {
	n := nodeAt(p.steps[i].ref)
	if n.n < maxFan {
		link := t.linkOf(p, i)
		n = t.nodeIn(link, int(n.n)+1)
		p.steps[i] = step{*link, at}
		n.insert(at, e)
		if at == 0 {
			t.rekey(p, i, e.word0, e.word1)
		}
		return
	}
	if i == 0 {
		t.raise(p)
		i = 1
	}
	above := p.steps[i-1].at
	switch {
	case at == 0 && p.leftmost(i):
		t.addNode(p, i, above, n.level, e)
	case at == maxFan && p.rightmost(i):
		t.addNode(p, i, above+1, n.level, e)
	default:
		const half = (maxFan + 1) / 2
		right := t.newNode(n.level, maxFan-half+1)
		r := nodeAt(right)
		r.splice(0, n, half, maxFan-half)
		n.remove(half, maxFan-half)
		moved := r.sum(0, int(r.n))
		t.bump(p, i, -moved)
		t.moveNode(t.linkOf(p, i), half+1)
		t.add(p, i-1, above+1, entry{r.word0s()[0], r.word1s()[0], right, 0})
		// If the parent was split too and the root was raised, p has one more level. So count the level of right from
		// below.
		i = p.height - int(r.level)
		t.bump(p, i, moved)
		if at > half {
			p.steps[i].ref = right
			at -= half
		} else {
			p.back(i)
		}
		t.add(p, i, at, e)
	}
}

// addNode adds a new node whose only child is e, and leads p to e. The new node gets the index above in the node at
// level i-1 of p.
func (t *tree) addNode(p *Path, i, above int, level uint8, e entry) {
	ref := t.newNode(level, 1)
	nodeAt(ref).insert(0, e)
	t.add(p, i-1, above, entry{e.word0, e.word1, ref, 0})
	p.steps[p.height-int(level)] = step{ref, 0}
}

// back leads p to the node before its node at level i.
func (p *Path) back(i int) {
	for j := i - 1; ; j-- {
		if s := &p.steps[j]; s.at > 0 {
			s.at--
			for ; j < i; j++ {
				n := nodeAt(p.steps[j].ref)
				next := n.child(p.steps[j].at)
				at := 0
				if j+1 < i {
					at = int(nodeAt(next).n) - 1
				}
				p.steps[j+1] = step{next, at}
			}
			return
		}
	}
}

// drop removes the child to which level i of p leads. Its count must be 0, and its block already freed. After that p
// leads nowhere.
func (t *tree) drop(p *Path, i int) {
	if i < 0 {
		t.State = State{}
		return
	}
	s := &p.steps[i]
	n := nodeAt(s.ref)
	if n.n == 1 { // the node is on an edge, or a root with one leaf (tree.T5)
		ref := s.ref
		t.drop(p, i-1)
		t.release(ref)
		return
	}
	n.remove(s.at, 1)
	if s.at == 0 {
		t.rekey(p, i, n.word0s()[0], n.word1s()[0])
	}
	t.rebalance(p, i)
}

// rebalance handles a node with too few children (tree.T5). It joins the node at level i of p with a neighbour, or
// fills it with children of a neighbour. A root with one child is removed. After that p leads nowhere.
func (t *tree) rebalance(p *Path, i int) {
	if i == 0 {
		t.lower()
		return
	}
	link := t.linkOf(p, i)
	n := nodeAt(*link)
	if n.n >= minFan {
		if spare := int(n.room - n.n); spare > int(n.n)/4+4 {
			t.moveNode(link, int(n.n))
		}
		return
	}
	above := &p.steps[i-1]
	up := nodeAt(above.ref)
	at, join := neighbour(above.at, int(up.n), joinAt-int(n.n), p.leftmost(i) || p.rightmost(i),
		func(j int) int { return int(nodeAt(up.child(j)).n) })
	if at < 0 {
		return
	}
	if !join {
		each := (int(nodeAt(up.child(at)).n) + int(nodeAt(up.child(at+1)).n) + 1) / 2
		l, r := t.nodeIn(up.link(at), each), t.nodeIn(up.link(at+1), each)
		moved := levelNodes(l, r)
		counts := up.counts()
		counts[at] -= moved
		counts[at+1] += moved
		up.word0s()[at+1], up.word1s()[at+1] = r.word0s()[0], r.word1s()[0]
		return
	}
	gone := up.child(at + 1)
	r := nodeAt(gone)
	l := nodeAt(up.child(at))
	l = t.nodeIn(up.link(at), int(l.n)+int(r.n))
	l.splice(int(l.n), r, 0, int(r.n))
	counts := up.counts()
	counts[at] += counts[at+1]
	up.remove(at+1, 1)
	t.release(gone)
	t.rebalance(p, i-1)
}

// lower removes the root as long as it has only one child.
func (t *tree) lower() {
	for t.height > 0 {
		n := nodeAt(t.root)
		if n.n > 1 {
			return
		}
		old := t.root
		t.root = n.child(0)
		t.height--
		t.release(old)
	}
}

// levelNodes evens out two neighbours, which must be writable and have room. It returns the count that moved from l to
// r, negative if from r to l.
func levelNodes(l, r *node) (moved uint64) {
	even := (int(l.n) + int(r.n)) / 2
	if k := int(l.n) - even; k > 0 {
		moved = l.sum(even, k)
		r.splice(0, l, even, k)
		l.remove(even, k)
		return moved
	}
	k := even - int(l.n)
	moved = -r.sum(0, k)
	l.splice(int(l.n), r, 0, k)
	r.remove(0, k)
	return moved
}

// neighbour selects the sibling with which child i of n is joined or evened out. at is the left one of the two, or -1.
// They are joined if the smaller sibling's size is at most fits. A node on an edge may have few children, so it is not
// evened out.
func neighbour(i, n, fits int, edge bool, size func(int) int) (at int, join bool) {
	left, right := -1, -1
	if i > 0 {
		left = size(i - 1)
	}
	if i+1 < n {
		right = size(i + 1)
	}
	switch {
	case left >= 0 && left <= fits && (right < 0 || left <= right):
		return i - 1, true
	case right >= 0 && right <= fits:
		return i, true
	case edge || left < 0 && right < 0:
		return -1, false
	case left >= right:
		return i - 1, false
	}
	return i, false
}

// newLeaf returns a leaf without records, with room for at least room records.
func (t *tree) newLeaf(width, room int) memory.Ref {
	if room < 24 { // small leaves grow by more than one size class
		room += room / 4
	}
	size := memory.GoodSize(leafHeader + min(room, mostRecords(width))*width)
	ref := t.heap.Alloc(size, memory.Values)
	*leafAt(ref) = leaf{epoch: t.heap.Epoch(), room: uint16(min((size-leafHeader)/width, mostRecords(width))),
		width: uint16(width)}
	return ref
}
