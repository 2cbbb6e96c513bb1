package table

import (
	"math"
	"math/bits"
	"unsafe"

	"spindle/engine/data/memory"
	"spindle/internal/invariant"
)

// The index of deadlines leads directly to the keys that are due.
//
//	tournament: nodes of 64 minima ──▶ segment ──▶ its sidecar: a bound for each bucket ──▶ at most 7 blocks
//
// Each segment with volatile keys has an id; ids count from 0. The tournament is a 64-ary tree over the ids. Each of
// its nodes holds the minima of its children. A block has its exact deadline; everything above it is a bound.
//
// table.D1. A bucket's bound is at or below the tick of each of its volatile keys. It may be too low after a key was
// removed or got a later deadline. It becomes exact when the bound comes due. So refreshing a deadline costs one
// compare.
// table.D2. The last word of a sidecar is the least of the others, and the segment's minimum in the tournament.
// table.D3. Each node's minimum is stored in its parent. The root's minimum is least.
// table.D4. A deadline's tick is the first one after it. Ticks are counted from base: the first fineTicks come every 16
// ms, the others every 128 ms. So 32 bits reach nearly ten years past base. When a deadline's tick has come, it passed
// at most 16 ms ago, or 128 ms once the server has run for a year.
// table.D5. All deadlines before base have tick 1, and nothing is due before base. Otherwise a key whose deadline is to
// come would be due again and again after the clock was set back.
type dueIndex struct {
	heap   *memory.Heap
	root   memory.Ref
	height int
	ids    uint32 // ids given out so far, with the released ones
	live   uint32 // ids in use; a nested table's State omits it, because only databases draw by deadline
	free   uint32 // 1 + the first of the list of released ids; 0 if there is none
	least  uint32
	base   int64
}

const (
	// Never is the tick of a key without a deadline.
	Never = math.MaxUint32
	// far is the tick of all deadlines that are too late for ticks. Only lookups find such keys due.
	far = Never - 1

	tickMs    = 16
	coarse    = 8 // tickMs in coarseMs
	coarseMs  = coarse * tickMs
	fineTicks = 1 << 31
	dueFanout = 64
	dueLevels = 6
)

type dueNode struct {
	minima [dueFanout]uint32
	word   [dueFanout]uint64 // child node; in a leaf the segment's prefix, or the next released id as in free
}

const dueNodeBytes = int(unsafe.Sizeof(dueNode{}))

func dueNodeAt(r memory.Ref) *dueNode { return (*dueNode)(memory.Pointer(r)) }

func (x *dueIndex) init(h *memory.Heap) { x.heap, x.least = h, Never }

// SetBase sets the time of tick 0, in Unix ms. Call it before the first key is inserted.
func (t *Table) SetBase(ms int64) { t.due.base = ms }

// Tick returns the tick of a deadline in Unix ms. It returns Never for deadline 0 (table.D4).
func (t *Table) Tick(deadline int64) uint32 {
	if deadline == 0 {
		return Never
	}
	return t.TickNow(min(deadline, math.MaxInt64/2)) + 1
}

// TickNow returns the last tick that has come at the time now, and at most far-1.
func (t *Table) TickNow(now int64) uint32 {
	past := max(now-t.due.base, 0)
	if past < fineTicks*tickMs {
		return uint32(past / tickMs)
	}
	return uint32(min(fineTicks+(past-fineTicks*tickMs)/coarseMs, far-1))
}

// Steps returns how long after base a tick comes, in steps of 16 ms.
func Steps(tick uint32) uint64 {
	if tick <= fineTicks {
		return uint64(tick)
	}
	return fineTicks + coarse*uint64(tick-fineTicks)
}

// StepTime returns the time that is so many steps after base, in Unix ms.
func (t *Table) StepTime(steps uint64) int64 { return t.due.base + int64(steps)*tickMs }

// TickTime returns the time at which a tick comes, in Unix ms.
func (t *Table) TickTime(tick uint32) int64 { return t.StepTime(Steps(tick)) }

// Least returns a lower bound of the ticks of all keys, or Never if no key is volatile.
func (t *Table) Least() uint32 { return t.due.least }

// LeastDeadline returns a lower bound of all keys' deadlines, in Unix ms, with the same tick as Least. It returns 0 if
// no key is volatile.
func (t *Table) LeastDeadline() int64 {
	if t.due.least == Never {
		return 0
	}
	return max(t.TickTime(t.due.least-1), 1)
}

func (t *Table) deadline(ref memory.Ref) int64 {
	switch t.layout {
	case Entry:
		return EntryDeadline(memory.Pointer(ref))
	case Field:
		return FieldDeadline(ref)
	}
	return 0
}

// minima returns the segment's sidecar: nb bounds and the least of them.
func (s *segment) minima() []uint32 {
	return unsafe.Slice((*uint32)(memory.Pointer(s.sidecar)), int(s.nb)+1)
}

// addSidecar gives s an id and a sidecar without bounds. s must be writable and have neither.
func (t *Table) addSidecar(s *segment) {
	s.sidecar = t.heap.Alloc(4*(int(s.nb)+1), memory.Index)
	for i := range s.minima() {
		s.minima()[i] = Never
	}
	s.dueID = t.due.newID(s.prefix)
}

func (t *Table) dropSidecar(s *segment) {
	t.heap.Free(s.sidecar, memory.Index)
	t.due.release(s.dueID)
	s.sidecar = 0
}

// noteDue lowers the bound of bucket at of the writable segment s to tick.
func (t *Table) noteDue(s *segment, at int, tick uint32) {
	if s.sidecar == 0 {
		t.addSidecar(s)
	}
	minima := s.minima()
	if tick >= minima[at] {
		return
	}
	minima[at] = tick
	if tick < minima[s.nb] {
		minima[s.nb] = tick
		t.due.set(s.dueID, tick)
	}
}

// dueBuckets is the number of buckets examined together, so that their misses overlap.
const dueBuckets = 8

// A Due is a set of some buckets of one segment with keys that may be past their deadline.
type Due struct {
	Refs    [dueBuckets * slots]memory.Ref // the volatile keys' blocks
	N       int                            // the length of Refs; 0 if the bounds were too low, and EndDue corrects them
	Most    int                            // the most buckets wanted; 0, or more than dueBuckets, means dueBuckets
	at      [dueBuckets * slots]uint16     // where Refs are: index in buckets<<3 | slot
	buckets [dueBuckets]uint8
	left    [dueBuckets]uint32 // the least tick that remains in each bucket
	n       int
	nb      int
	seg     memory.Ref
	hash    uint64
}

// NextDue finds buckets with a bound at or below now, in the segment with the least minimum. It starts fetching their
// blocks. The caller reads the deadlines, calls Drop or Stays for each key and then EndDue. It must write nothing else
// to the table in between. NextDue returns false if nothing is due. Cost: at most dueBuckets buckets, whatever they
// hold.
func (t *Table) NextDue(now uint32, d *Due) bool {
	if t.due.least > now {
		return false
	}
	id, prefix := t.due.first()
	d.seg, d.hash, d.N, d.n = refOf(segmentFor(t.root, prefix)), prefix, 0, 0
	s := segmentAt(d.seg)
	invariant.That(s.prefix == prefix && s.dueID == id && s.sidecar != 0,
		"table.D3: id %d leads to segment %x, not %x", id, s.prefix, prefix)
	d.nb = int(s.nb)
	most := dueBuckets
	if d.Most > 0 {
		most = min(d.Most, dueBuckets)
	}
	for i, m := range s.minima()[:d.nb] {
		if m <= now {
			memory.Prefetch(unsafe.Pointer(s.bucket(i)))
			d.buckets[d.n], d.left[d.n] = uint8(i), Never
			if d.n++; d.n == most {
				break
			}
		}
	}
	invariant.That(d.n > 0, "table.D2: no bucket of segment %x has the bound %d", prefix, t.due.least)
	for i, at := range d.buckets[:d.n] {
		b := s.bucket(int(at))
		for m := b.meta & metaKeys; m != 0; m &= m - 1 {
			j := bits.TrailingZeros64(m) >> 3
			if b.slot[j]&slotVolatile != 0 {
				d.Refs[d.N], d.at[d.N] = memory.Ref(b.slot[j]&slotRef), uint16(i<<3|j)
				memory.PrefetchRef(d.Refs[d.N])
				d.N++
			}
		}
	}
	return true
}

// Place returns the place of the i-th key of d. Only the hash bits that select the segment are set; SetHash sets the
// rest.
func (d *Due) Place(i int) Place {
	return Place{d.hash, d.seg, uint32(d.buckets[d.at[i]>>3])<<3 | uint32(d.at[i]&7), uint32(d.nb)}
}

// Drop removes the i-th key of d, as Remove does.
func (t *Table) Drop(d *Due, i int) (shared bool) {
	p := d.Place(i)
	if t.slots != nil { // a segment may hold several slots
		p.hash = t.HashOf(t.key(d.Refs[i]))
	}
	shared = t.removeOnly(&p)
	d.seg = p.seg
	return shared
}

// Stays records that the i-th key of d is not due before tick.
func (d *Due) Stays(i int, tick uint32) {
	left := &d.left[d.at[i]>>3]
	*left = min(*left, tick)
}

// EndDue corrects the bounds of d's buckets and ends the use of d.
func (t *Table) EndDue(d *Due) {
	s := segmentAt(d.seg)
	if s.sidecar != 0 { // otherwise its last volatile key was dropped
		minima := s.minima()
		for i, at := range d.buckets[:d.n] {
			minima[at] = d.left[i]
		}
		least := uint32(Never)
		for _, m := range minima[:s.nb] {
			least = min(least, m)
		}
		minima[s.nb] = least
		t.due.set(s.dueID, least)
	}
	if s.sparse() {
		t.shrink(d.hash)
	}
}

// newID returns an id for the segment with this prefix.
func (x *dueIndex) newID(prefix uint64) uint32 {
	x.live++
	if x.free != 0 {
		id := x.free - 1
		n := x.leaf(id)
		x.free = uint32(n.word[id%dueFanout])
		n.word[id%dueFanout] = prefix
		return id
	}
	id := x.ids
	x.ids++
	if x.root == 0 || id>>(6*x.height) != 0 { // one level more: the old root is its first child
		r := x.newNode()
		n := dueNodeAt(r)
		n.minima[0], n.word[0] = x.least, uint64(x.root)
		x.root = r
		x.height++
	}
	// Make the missing nodes on the way.
	r := x.root
	for l := x.height - 1; l > 0; l-- {
		w := &dueNodeAt(r).word[id>>(6*l)%dueFanout]
		if *w == 0 {
			*w = uint64(x.newNode())
		}
		r = memory.Ref(*w)
	}
	dueNodeAt(r).word[id%dueFanout] = prefix
	return id
}

func (x *dueIndex) newNode() memory.Ref {
	r := x.heap.Alloc(dueNodeBytes, memory.Index)
	n := dueNodeAt(r)
	*n = dueNode{}
	for i := range n.minima {
		n.minima[i] = Never
	}
	return r
}

func (x *dueIndex) release(id uint32) {
	x.live--
	x.set(id, Never)
	x.leaf(id).word[id%dueFanout] = uint64(x.free)
	x.free = id + 1
}

func (x *dueIndex) leaf(id uint32) *dueNode {
	r := x.root
	for l := x.height - 1; l > 0; l-- {
		r = memory.Ref(dueNodeAt(r).word[id>>(6*l)%dueFanout])
	}
	return dueNodeAt(r)
}

// set gives id its minimum v and updates the nodes above (table.D3).
// Cost: one node per level where the node's minimum changes; 64 compares per level when the least one rises.
func (x *dueIndex) set(id, v uint32) {
	var path [dueLevels]*dueNode
	r := x.root
	for l := x.height - 1; ; l-- {
		path[l] = dueNodeAt(r)
		if l == 0 {
			break
		}
		r = memory.Ref(path[l].word[id>>(6*l)%dueFanout])
	}
	for l := 0; l < x.height; l++ {
		n := path[l]
		at := &n.minima[id>>(6*l)%dueFanout]
		was := *at
		if was == v {
			return
		}
		*at = v
		least := x.least
		if l+1 < x.height {
			least = path[l+1].minima[id>>(6*(l+1))%dueFanout]
		}
		if v > least {
			if was != least {
				return
			}
			for _, m := range n.minima {
				v = min(v, m)
			}
		}
	}
	x.least = v
}

// first returns the id with the least minimum and its segment's prefix. The index must not be empty.
func (x *dueIndex) first() (id uint32, prefix uint64) {
	r := x.root
	for l := x.height - 1; ; l-- {
		n := dueNodeAt(r)
		i := 0
		for n.minima[i] != x.least {
			i++
		}
		id = id<<6 | uint32(i)
		if l == 0 {
			return id, n.word[i]
		}
		r = memory.Ref(n.word[i])
	}
}
