package table

import (
	"fmt"
	"math/bits"

	"spindle/engine/data/memory"
	hashslots "spindle/internal/slots"
)

// Check returns an error if Find misses a key, or if the table breaks one of these rules: table.S1, table.S2, table.S5,
// table.D1..table.D3, table.E2, table.T2, table.T3. O(n): for tests.
func (t *Table) Check() error {
	c := checker{t: t, ids: map[uint32]uint32{}, inSlots: map[uint16]int{}}
	c.entry(t.root, 0, 0, ^uint64(0))
	if c.err == nil && (c.count != t.count || c.volatile != t.volatile) {
		c.fail("table.S2: %d keys of which %d volatile, Len says %d, %d", c.count, c.volatile, t.count, t.volatile)
	}
	if t.slots != nil {
		c.slots()
	}
	if t.due.root != 0 {
		c.free = map[uint32]bool{}
		for id := t.due.free; id != 0; {
			c.free[id-1] = true
			id = uint32(t.due.leaf(id - 1).word[(id-1)%dueFanout])
		}
		if least := c.node(t.due.root, t.due.height-1, 0); least != t.due.least {
			c.fail("table.D3: least is %d, the root's %d", t.due.least, least)
		}
		if len(c.ids)+len(c.free) != int(t.due.ids) {
			c.fail("due: %d ids in use and %d free of %d", len(c.ids), len(c.free), t.due.ids)
		}
		if !t.nested && len(c.ids) != int(t.due.live) {
			c.fail("due: %d ids in use, live says %d", len(c.ids), t.due.live)
		}
	} else if len(c.ids) != 0 {
		c.fail("due: sidecars and no index")
	}
	return c.err
}

type checker struct {
	t               *Table
	count, volatile int
	ids             map[uint32]uint32 // of segments with a sidecar: their minimum
	free            map[uint32]bool
	inSlots         map[uint16]int
	err             error
}

func (c *checker) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("table: "+format, args...)
	}
}

// entry checks the tree under e. depth bits of prefix lead to e. parent is the epoch of the node above.
func (c *checker) entry(e uint64, prefix uint64, depth uint8, parent uint64) {
	if c.err != nil {
		return
	}
	if e&entryBuckets != 0 {
		s := segmentAt(refOf(e))
		if int(s.nb) != int(e&entryBuckets) || s.prefix != prefix || s.depth != depth {
			c.fail("segment %x/%d of %d buckets stands at %x/%d as %d", s.prefix, s.depth, s.nb, prefix, depth, e&entryBuckets)
			return
		}
		c.epochs(s.epoch, parent)
		c.segment(s, refOf(e))
		return
	}
	n := nodeAt(refOf(e))
	if n.depth != depth || uint64(n.bits) != e>>entryBits || n.bits == 0 || n.bits > maxBits {
		c.fail("node of depth %d, %d bits stands at depth %d, %d bits", n.depth, n.bits, depth, e>>entryBits)
		return
	}
	c.epochs(n.epoch, parent)
	halved := true
	for i := uint64(0); i < 1<<n.bits; {
		at, width := *n.entry(i), uint64(1)
		d := depth + n.bits
		if at&entryBuckets != 0 {
			d = segmentAt(refOf(at)).depth
			if d <= depth || d > depth+n.bits {
				c.fail("segment of depth %d under a node of depth %d, %d bits", d, depth, n.bits)
				return
			}
			width = 1 << (depth + n.bits - d)
		}
		if width == 1 {
			halved = false
		}
		for j := range width {
			if *n.entry(i + j) != at {
				c.fail("entries %d and %d of a node differ", i, i+j)
				return
			}
		}
		c.entry(at, prefix|i<<(64-depth-n.bits), d, n.epoch)
		i += width
	}
	if halved {
		c.fail("a node of %d bits has every entry twice", n.bits)
	}
}

// slots compares the table's slot counts with the numbers of keys found.
func (c *checker) slots() {
	for slot := range uint16(hashslots.Count) {
		if n := c.t.slots.Count(slot); n != c.inSlots[slot] {
			c.fail("table.T2: %d keys of slot %d, counted %d", c.inSlots[slot], slot, n)
		} else if n == 0 && c.t.slots.Marked(slot) {
			c.fail("table.T2: slot %d is marked and has no key", slot)
		}
	}
	hidden := 0
	for slot, n := range c.inSlots {
		if c.t.slots.hidden.Has(slot) {
			hidden += n
		}
	}
	if hidden != c.t.slots.concealed.keys {
		c.fail("table.T3: %d keys of hidden slots, counted %d", hidden, c.t.slots.concealed.keys)
	}
	for group, n := range c.t.slots.groups {
		for i := range groupSize {
			if slot := uint16(group*groupSize + i); !c.t.slots.hidden.Has(slot) {
				n -= int32(c.inSlots[slot])
			}
		}
		if n != 0 {
			c.fail("table.T2: group %d is wrong by %d", group, n)
		}
	}
}

func (c *checker) epochs(epoch, parent uint64) {
	if f := c.t.heap.Frozen(); epoch > f && parent <= f {
		c.fail("table.E2: epoch %d under %d, frozen %d", epoch, parent, f)
	}
}

func (c *checker) segment(s *segment, ref memory.Ref) {
	t, nb := c.t, int(s.nb)
	count, volatile := 0, 0
	var over [maxBuckets]int
	for i := range nb {
		b := s.bucket(i)
		for j := range slots {
			fp, word := b.fingerprint(j), b.slot[j]
			if fp == 0 {
				if word&^slotShared != 0 {
					c.fail("a free slot holds %x", word)
				}
				continue
			}
			count++
			block := memory.Ref(word & slotRef)
			hash := t.HashOf(t.key(block))
			c.inSlots[slotOf(hash)]++
			if tagOf(hash) != word>>48 || fingerprintOf(hash) != fp || s.depth > 0 && (hash^s.prefix)>>(64-s.depth) != 0 {
				c.fail("slot %x/%x in segment %x/%d has a key of hash %x", word, fp, s.prefix, s.depth, hash)
				return
			}
			for at := home(word>>48, nb); at != i; at = (at + 1) % nb {
				over[at]++
			}
			deadline := t.deadline(block)
			if deadline != 0 != (word&slotVolatile != 0) {
				c.fail("volatile bit %t, deadline %d", word&slotVolatile != 0, deadline)
			}
			if deadline != 0 {
				volatile++
				if s.sidecar == 0 || s.minima()[i] > t.Tick(deadline) {
					c.fail("table.D1: bound above tick %d", t.Tick(deadline))
				}
			}
			if p, found := t.Find(hash, t.key(block)); found != block || p.Ref() != block {
				c.fail("key %q is not found where it stands", t.key(block))
			}
		}
	}
	for i := range nb {
		if o := s.bucket(i).meta >> 56; int(o) != over[i] && !(o == overflowMax && over[i] >= 0) {
			c.fail("table.S1: overflow %d, should be %d", o, over[i])
		}
	}
	if count != int(s.count) || volatile != int(s.volatile) || count > nb*perBucket {
		c.fail("table.S2: segment of %d buckets has %d keys, %d volatile, its header says %d, %d",
			nb, count, volatile, s.count, s.volatile)
	}
	if (s.sidecar != 0) != (volatile > 0) {
		c.fail("table.S6: sidecar %x with %d volatile keys", s.sidecar, volatile)
	}
	if s.sidecar != 0 {
		least := uint32(Never)
		for _, m := range s.minima()[:nb] {
			least = min(least, m)
		}
		if least != s.minima()[nb] {
			c.fail("table.D2: least %d, should be %d", s.minima()[nb], least)
		}
		c.ids[s.dueID] = least
		if got := t.due.leaf(s.dueID); got.minima[s.dueID%dueFanout] != least || got.word[s.dueID%dueFanout] != s.prefix {
			c.fail("table.D2: id %d: %d/%x in the index, %d/%x in the segment",
				s.dueID, got.minima[s.dueID%dueFanout], got.word[s.dueID%dueFanout], least, s.prefix)
		}
	}
	c.count += count
	c.volatile += volatile
}

// node checks a node of the index of deadlines and all nodes below it. It returns the node's least minimum.
func (c *checker) node(ref memory.Ref, level int, from uint32) uint32 {
	n := dueNodeAt(ref)
	least := uint32(Never)
	for i, m := range n.minima {
		least = min(least, m)
		id := from<<6 | uint32(i)
		if level > 0 {
			if n.word[i] == 0 {
				if m != Never {
					c.fail("table.D3: minimum %d without a child", m)
				}
			} else if got := c.node(memory.Ref(n.word[i]), level-1, id); got != m {
				c.fail("table.D3: minimum %d, the child's %d", m, got)
			}
			continue
		}
		if _, used := c.ids[id]; !used && m != Never {
			c.fail("due: id %d is not in use and has the minimum %d", id, m)
		}
	}
	return least
}

// A Shape describes a table: the numbers of segments, buckets and keys that are not in their home bucket (DEBUG
// HTSTATS).
type Shape struct {
	Segments, Nodes, Buckets, Keys, Displaced, Levels int
	Bytes                                             int
}

// Shape walks all segments. O(n): for DEBUG and tests.
func (t *Table) Shape() Shape {
	var sh Shape
	var entry func(e uint64, level int)
	entry = func(e uint64, level int) {
		sh.Levels = max(sh.Levels, level)
		if e&entryBuckets != 0 {
			s := segmentAt(refOf(e))
			sh.Segments++
			sh.Buckets += int(s.nb)
			sh.Keys += int(s.count)
			sh.Bytes += memory.GoodSize(segmentBytes(int(s.nb)))
			for i := range int(s.nb) {
				for m := s.bucket(i).meta & metaKeys; m != 0; m &= m - 1 {
					if home(s.bucket(i).slot[bits.TrailingZeros64(m)>>3]>>48, int(s.nb)) != i {
						sh.Displaced++
					}
				}
			}
			return
		}
		n := nodeAt(refOf(e))
		sh.Nodes++
		sh.Bytes += memory.GoodSize(nodeBytes(n.bits))
		for i := uint64(0); i < 1<<n.bits; {
			at := *n.entry(i)
			entry(at, level+1)
			i++
			for i < 1<<n.bits && *n.entry(i) == at {
				i++
			}
		}
	}
	entry(t.root, 0)
	return sh
}
