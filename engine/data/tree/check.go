package tree

import (
	"fmt"

	"spindle/engine/data/memory"
)

// Check returns an error if the tree breaks one of the rules tree.T1 to tree.T5, tree.R1, tree.R2 and tree.E2. tie
// compares two word1 of the same word0; nil compares them as numbers. O(n): for tests.
func (t *Records) Check(tie func(a, b uint64) int) error { return t.check(t.width, tie) }

// Check returns an error if the tree breaks one of the rules tree.T1 to tree.T5 and tree.E2. O(leaves): for tests.
func (t *Blocks) Check() error { return t.check(0, nil) }

func (t *tree) check(width int, tie func(a, b uint64) int) error {
	if t.root == 0 {
		if t.State != (State{}) {
			return fmt.Errorf("tree: an empty tree is %+v", t.State)
		}
		return nil
	}
	c := checker{frozen: t.heap.Frozen(), width: width, tie: tie}
	c.under(entry{t.word0, t.word1, t.root, t.count}, int(t.height), ^uint64(0), true, true)
	return c.err
}

type checker struct {
	frozen uint64
	width  int // 0 for opaque leaves
	tie    func(a, b uint64) int
	last   []uint64 // the previous key
	err    error
}

func (c *checker) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("tree: "+format, args...)
	}
}

// compare orders two keys.
func (c *checker) compare(a, b []uint64) int {
	p := Probe{Word0: a[0], Word1: a[1]}
	if c.tie != nil {
		p.Tie = func(word1 uint64) int { return c.tie(a[1], word1) }
	}
	return p.compare(b[0], b[1])
}

// under checks the entry e of a subtree of this height. parent is the epoch of the node above. first means that nothing
// is to the left of the subtree; last means that nothing is to the right of it.
func (c *checker) under(e entry, height int, parent uint64, first, last bool) {
	if c.err != nil {
		return
	}
	epoch := *memory.Word(e.ref)
	if epoch > c.frozen && parent <= c.frozen {
		c.fail("tree.E2: epoch %d under %d, frozen %d", epoch, parent, c.frozen)
	}
	if height == 0 {
		c.leaf(e, first || last)
		return
	}
	n := nodeAt(e.ref)
	root := first && last
	if int(n.level) != height || n.mark != 0 {
		c.fail("tree.T1: a node of level %d, mark %d at height %d", n.level, n.mark, height)
		return
	}
	if n.n == 0 || n.n > n.room || n.room > maxFan || nodeHeader+entryBytes*int(n.room) > memory.UsableSize(e.ref) ||
		parent == ^uint64(0) && n.n < 2 {
		c.fail("tree.T4: a node of %d children with room for %d", n.n, n.room)
		return
	}
	if !root && !first && !last && n.n < minFan {
		c.fail("tree.T5: a node inside has %d children", n.n)
	}
	if n.word0s()[0] != e.word0 || n.word1s()[0] != e.word1 {
		c.fail("tree.T3: a node's least key is %x %x, above it is %x %x", n.word0s()[0], n.word1s()[0], e.word0, e.word1)
	}
	if sum := n.sum(0, int(n.n)); sum != e.count {
		c.fail("tree.T2: a node counts %d, above it is %d", sum, e.count)
	}
	for i := range int(n.n) {
		c.under(entry{n.word0s()[i], n.word1s()[i], n.child(i), n.counts()[i]}, height-1, epoch, first && i == 0,
			last && i == int(n.n)-1)
	}
}

func (c *checker) leaf(e entry, edge bool) {
	if e.count == 0 {
		c.fail("tree.T2: a leaf counts nothing")
	}
	if c.width == 0 {
		if c.last != nil && c.compare(c.last, []uint64{e.word0, e.word1}) > 0 {
			c.fail("tree.T3: key %x before %x %x", c.last, e.word0, e.word1)
		}
		c.last = []uint64{e.word0, e.word1}
		return
	}
	l := leafAt(e.ref)
	if int(l.width) != c.width || l.n == 0 || l.n > l.room || int(l.room) > mostRecords(c.width) ||
		leafHeader+int(l.room)*c.width > memory.UsableSize(e.ref) {
		c.fail("tree.R2: a leaf of %d records of %d bytes with room for %d", l.n, l.width, l.room)
		return
	}
	if uint64(l.n) != e.count {
		c.fail("tree.T2: a leaf of %d records, above it is %d", l.n, e.count)
	}
	if !edge && int(l.n) < mostRecords(c.width)/3 {
		c.fail("tree.T5: a leaf inside has %d records", l.n)
	}
	if r := l.record(0); r[0] != e.word0 || r[1] != e.word1 {
		c.fail("tree.T3: a leaf's least key is %x, above it is %x %x", r[:2], e.word0, e.word1)
	}
	for i := range int(l.n) {
		r := l.record(i)[:2]
		if c.last != nil && c.compare(c.last, r) >= 0 {
			c.fail("tree.R1: %x before %x", c.last, r)
		}
		c.last = r
	}
}
