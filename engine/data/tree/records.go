package tree

import (
	"spindle/engine/data/memory"
	"spindle/internal/invariant"
)

// Records is a tree whose leaves are records of one width, in the order of their keys, while the core changes the tree.
// It is a value for the stack: the owner opens it from a State, and stores its State after a change. All methods of
// State work on Records.
type Records struct {
	tree
	width int
}

// OpenRecords opens the tree s. A record has width bytes, 16 or 32, and begins with its key. kind is the kind under
// which [Destroy] is registered in h. wide means that a view may know the tree under another key, so that blocks are
// retired wide.
func OpenRecords(h *memory.Heap, kind memory.Kind, s State, width int, wide bool) Records {
	return Records{tree{s, h, kind, wide}, width}
}

// Insert adds a record of width/8 words. If the tree has a record with this key, it changes nothing and returns false.
// tie orders records of the same word0, as in [Probe].
func (t *Records) Insert(record []uint64, tie func(word1 uint64) int) bool {
	invariant.That(len(record) == t.width>>3, "tree.R1: a record of %d words in a tree of width %d", len(record), t.width)
	var c Cursor
	p := Probe{Word0: record[0], Word1: record[1], Tie: tie}
	if t.root == 0 {
		ref := t.newLeaf(t.width, 1)
		leafAt(ref).splice(0, record)
		t.State = State{word0: record[0], word1: record[1], root: ref, count: 1}
		return true
	}
	t.locate(&c, &p, false)
	if c.Valid() {
		if r := c.Record(); p.compare(r[0], r[1]) == 0 {
			return false
		}
	}
	t.own(&c.path)
	if c.n == mostRecords(t.width) && t.split(&c, record) {
		return true
	}
	link := t.linkOf(&c.path, c.path.height)
	t.leafIn(link, c.n+1).splice(c.at, record)
	t.bump(&c.path, c.path.height, 1)
	if c.at == 0 {
		t.rekey(&c.path, c.path.height, record[0], record[1])
	}
	return true
}

// split divides the full leaf in which c is, and moves c to the place where the record belongs. At the edges of the
// tree the leaf stays full instead, and the record gets a new leaf. Then the insertion is done and split returns true.
func (t *Records) split(c *Cursor, record []uint64) bool {
	p := &c.path
	first, last := c.at == 0 && p.leftmost(p.height), c.at == c.n && p.rightmost(p.height)
	if first || last {
		ref := t.newLeaf(t.width, 4)
		leafAt(ref).splice(0, record)
		side := 1
		if first {
			side = 0
		}
		t.addLeaf(p, side, entry{record[0], record[1], ref, 0})
		t.bump(p, p.height, 1)
		return true
	}
	half := (c.n + 1) / 2
	l := leafAt(p.leaf)
	right := t.newLeaf(t.width, c.n-half+1)
	r := leafAt(right)
	r.splice(0, l.words()[half*l.stride():])
	moved := uint64(c.n - half)
	t.bump(p, p.height, -moved)
	t.moveLeaf(t.linkOf(p, p.height), half, half+1)
	least := r.record(0)
	t.addLeaf(p, 1, entry{least[0], least[1], right, 0})
	t.bump(p, p.height, moved)
	if c.at > half {
		c.at -= half
	} else {
		p.Prev()
	}
	c.n = int(leafAt(p.leaf).n)
	return false
}

// leafIn returns the leaf in link, writable and with room for at least room records (tree.E1). link must be writable.
func (t *Records) leafIn(link *memory.Ref, room int) *leaf {
	l := leafAt(*link)
	if l.epoch > t.heap.Frozen() && room <= int(l.room) {
		return l
	}
	return t.moveLeaf(link, int(l.n), max(room, int(l.n)))
}

// moveLeaf replaces the leaf in link by a copy of its first n records, with this much room.
func (t *Records) moveLeaf(link *memory.Ref, n, room int) *leaf {
	old := *link
	ref := t.newLeaf(t.width, room)
	dup := leafAt(ref)
	l := leafAt(old)
	dup.splice(0, l.words()[:n*l.stride()])
	*link = ref
	t.release(old)
	return dup
}

// Replace replaces the record at c. The new record must belong in the same place of the order. So it has another
// payload, another word1 for the same member, or a word0 between those of the neighbours. c does not move.
func (t *Records) Replace(c *Cursor, record []uint64) {
	p := &c.path
	t.own(p)
	link := t.linkOf(p, p.height)
	l := t.leafIn(link, 0)
	p.leaf = *link
	copy(l.record(c.at), record)
	if invariant.Enabled {
		low, high := l.record(max(c.at-1, 0)), l.record(min(c.at+1, c.n-1))
		invariant.That(low[0] <= record[0] && record[0] <= high[0],
			"tree.R1: record %x put between %x and %x", record, low, high)
	}
	if c.at == 0 {
		t.rekey(p, p.height, record[0], record[1])
	}
}

// Delete removes the record at c and moves c to the next one. It returns false if there is none; c is then after the
// last record.
func (t *Records) Delete(c *Cursor) bool {
	if t.deleteHere(c, 1) && c.at < c.n {
		return true
	}
	return c.Valid() || c.roll()
}

// DeleteRange removes up to n records, beginning with the one at c, and returns how many it removed. each, if not nil,
// is called with each record before its removal. It must not change the tree, but may free memory that the record
// points to. c moves to the first record after the removed ones. O(log Len + n).
func (t *Records) DeleteRange(c *Cursor, n uint64, each func(record []uint64)) (removed uint64) {
	for removed < n && (c.Valid() || c.roll()) {
		k := int(min(n-removed, uint64(c.n-c.at)))
		if each != nil {
			l := leafAt(c.path.leaf)
			for i := c.at; i < c.at+k; i++ {
				each(l.record(i))
			}
		}
		removed += uint64(k)
		t.deleteHere(c, k)
	}
	if !c.Valid() {
		c.roll()
	}
	return removed
}

// deleteHere removes k records of one leaf, beginning with the one at c. c is then at the record after them, or after
// the last record of the leaf. It returns false if it had to find c again by its rank.
func (t *Records) deleteHere(c *Cursor, k int) bool {
	p := &c.path
	t.own(p)
	left := c.n - k
	if left == 0 {
		rank := c.Rank()
		t.bump(p, p.height, -uint64(k))
		gone := p.leaf
		t.drop(p, p.height-1)
		t.release(gone)
		t.At(c, rank)
		return false
	}
	link := t.linkOf(p, p.height)
	l := t.leafIn(link, 0)
	l.remove(c.at, k)
	if spare := int(l.room) - left; spare > left/4+4 {
		l = t.moveLeaf(link, left, left)
	}
	p.leaf = *link
	c.n = left
	t.bump(p, p.height, -uint64(k))
	if c.at == 0 {
		t.rekey(p, p.height, l.record(0)[0], l.record(0)[1])
	}
	if left < mostRecords(t.width)/3 && p.height > 0 {
		rank := c.Rank()
		if t.rebalanceLeaf(p, left) {
			t.At(c, rank)
			return false
		}
	}
	return true
}

// rebalanceLeaf joins p's leaf of n records with a neighbour, or fills it with records of a neighbour (tree.T5). It
// returns false if it changed nothing. If it returns true, p leads nowhere.
func (t *Records) rebalanceLeaf(p *Path, n int) bool {
	most := mostRecords(t.width)
	above := &p.steps[p.height-1]
	up := nodeAt(above.ref)
	counts := up.counts()
	at, join := neighbour(above.at, int(up.n), most*3/4-n, p.leftmost(p.height) || p.rightmost(p.height),
		func(j int) int { return int(counts[j]) })
	if at < 0 {
		return false
	}
	if !join {
		even := int(counts[at]+counts[at+1]) / 2
		l, r := t.leafIn(up.link(at), even), t.leafIn(up.link(at+1), int(counts[at]+counts[at+1])-even)
		if k := int(l.n) - even; k > 0 {
			r.splice(0, l.words()[even*l.stride():])
			l.remove(even, k)
		} else {
			l.splice(int(l.n), r.words()[:-k*r.stride()])
			r.remove(0, -k)
		}
		counts[at], counts[at+1] = uint64(l.n), uint64(r.n)
		least := r.record(0)
		up.word0s()[at+1], up.word1s()[at+1] = least[0], least[1]
		return true
	}
	gone := up.child(at + 1)
	r := leafAt(gone)
	l := t.leafIn(up.link(at), int(counts[at]+counts[at+1]))
	l.splice(int(l.n), r.words())
	counts[at] += counts[at+1]
	up.remove(at+1, 1)
	t.release(gone)
	t.rebalance(p, p.height-1)
	return true
}

// Build fills an empty tree with n records in ascending order. next writes each record in turn into record. Afterwards,
// leaves and nodes are full. O(n).
func (t *Records) Build(n uint64, next func(record []uint64)) {
	invariant.That(t.root == 0, "Build of a tree that has %d records", t.count)
	most := uint64(mostRecords(t.width))
	var p Path
	for n > 0 {
		k := min(n, most)
		n -= k
		ref := t.newLeaf(t.width, int(k))
		l := leafAt(ref)
		for range k {
			l.n++
			next(l.record(int(l.n) - 1))
		}
		t.insert(&p, 1, entry{l.record(0)[0], l.record(0)[1], ref, k})
	}
}
