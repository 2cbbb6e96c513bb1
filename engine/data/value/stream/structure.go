package stream

import (
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// Structure is the set of functions that the keyspace uses for the root of a stream.
var Structure = value.Structure{
	Count: count, Destroy: destroy, Measure: measure, Cost: cost, Copy: duplicate,
	// Groups are not moved.
	Relocate: func(s *value.Store, ref memory.Ref, at *table.Spot, stop func() bool) (done bool) {
		return rootAt(ref).entries.Relocate(s.Heap, &at.At, stop)
	},
}

// count returns about the number of blocks to free.
func count(ref memory.Ref) int {
	s := At(ref)
	n := s.r.entries.Len()
	if s.r.memo != 0 {
		n += memoAt(s.r.memo).ages.Len() + 1
	}
	if s.GroupCount() > 4 {
		return int(n) + 16*int(s.GroupCount())
	}
	for g := range s.Groups {
		n += g.Pending() + 4*g.Consumers()
	}
	return int(n)
}

// destroy frees the stream, budget blocks at a time. It stores its progress in the root and in the groups.
func destroy(r *memory.Returner, ref memory.Ref, budget int) (rest memory.Ref, spent int) {
	s := rootAt(ref)
	done, spent := s.entries.Destroy(r, budget)
	if done {
		var n int
		done, n = destroyEach(r, &s.groups, &s.destroyed, destroyGroup, budget-spent)
		spent += n
	}
	if done && s.memo != 0 {
		var n int
		if done, n = destroyMemo(r, s.memo, budget-spent); done {
			s.memo = 0
		}
		spent += n
	}
	if !done {
		return ref, spent
	}
	r.Free(ref, memory.Values)
	return 0, spent + 1
}

// destroyEach frees the blocks that the records of a tree point to, and then the tree. at counts the records that are
// done.
func destroyEach(r *memory.Returner, t *tree.State, at *uint64,
	each func(r *memory.Returner, ref memory.Ref, budget int) (done bool, spent int), budget int) (done bool, spent int) {
	var c tree.Cursor
	for *at < t.Len() {
		t.At(&c, *at)
		done, n := each(r, memory.Ref(c.Record()[1]), budget-spent)
		if spent += n; !done {
			return false, spent
		}
		*at++
	}
	done, n := t.Destroy(r, budget-spent)
	return done, spent + n
}

func destroyGroup(r *memory.Returner, ref memory.Ref, budget int) (done bool, spent int) {
	if budget <= 0 {
		return false, 0
	}
	g := groupAt(ref)
	done, spent = g.pending.Destroy(r, budget)
	if done {
		var n int
		done, n = destroyEach(r, &g.consumers, &g.destroyed, destroyConsumer, budget-spent)
		spent += n
	}
	if done {
		r.Free(g.name, memory.Values)
		r.Free(ref, memory.Values)
		spent += 2
	}
	return done, spent
}

func destroyConsumer(r *memory.Returner, ref memory.Ref, budget int) (done bool, spent int) {
	if budget <= 0 {
		return false, 0
	}
	c := consumerAt(ref)
	if done, spent = c.pending.Destroy(r, budget); done {
		r.Free(c.name, memory.Values)
		r.Free(ref, memory.Values)
		spent += 2
	}
	return done, spent
}

// measured is the number of groups that measure looks at.
const measured = 4

// measure returns about how many bytes the stream has. It assumes that every group costs as much as the first ones do.
// So freeing a stream takes the same time whatever its length.
func measure(ref memory.Ref) int64 {
	s := At(ref)
	total := float64(memory.UsableSize(ref)) + float64(s.r.entries.Bytes()) + float64(s.memoCost())
	if s.GroupCount() > 0 {
		var seen, bytes uint64
		for g := range s.Groups {
			bytes += uint64(g.cost(measured))
			if seen++; seen == measured {
				break
			}
		}
		total += float64(bytes) / float64(seen) * float64(s.GroupCount())
	}
	return int64(total)
}

const (
	perLeaf    = 40 // a leaf's share of the nodes above
	perPending = 34 + 18
)

// cost estimates the bytes of the stream from the first samples nodes, or from all if samples is 0.
func cost(ref memory.Ref, samples int) int {
	s := At(ref)
	n := memory.UsableSize(ref) + s.memoCost()
	var p tree.Path
	seen, sum := 0, 0
	for ok := s.r.entries.FirstLeaf(&p); ok && (samples == 0 || seen < samples); ok = p.Next() {
		sum += memory.UsableSize(p.Leaf())
		seen++
	}
	if seen > 0 {
		if nodes := s.Nodes(); nodes > seen { // the last node is the one that may have room to grow
			s.r.entries.LastLeaf(&p)
			n += memory.UsableSize(p.Leaf()) + perLeaf
			n += int(float64(sum)/float64(seen)*float64(nodes-1)) + perLeaf*(nodes-1)
		} else {
			n += sum + perLeaf*nodes
		}
	}
	for g := range s.Groups {
		n += g.cost(samples)
	}
	return n
}

// cost estimates the bytes of the group from the first samples consumers, or from all if samples is 0.
func (g *Group) cost(samples int) int {
	n := groupBytes + memory.UsableSize(g.name) + perLeaf + int(g.Pending())*perPending
	seen, sum := 0, 0
	for c := range g.All {
		sum += consumerBytes + memory.UsableSize(c.name) + perLeaf
		if seen++; seen == samples {
			break
		}
	}
	if seen > 0 {
		n += int(float64(sum) / float64(seen) * float64(g.Consumers()))
	}
	return n
}

// duplicate returns a separate stream with the same content. O(n).
func duplicate(s *value.Store, ref memory.Ref) memory.Ref {
	to := New(s)
	from, w := At(ref), Build(s, to)
	r := w.r
	r.last, r.first, r.maxDeleted, r.added = from.r.last, from.r.first, from.r.maxDeleted, from.r.added
	var p tree.Path
	for ok := from.r.entries.FirstLeaf(&p); ok; ok = p.Next() {
		key := from.r.entries.KeyOf(&p)
		w.AddNode(ID{key[0], key[1]}, packAt(p.Leaf()), from.r.entries.CountOf(&p))
	}
	for g := range from.Groups {
		w.copyGroup(g)
	}
	w.copyMemo(from)
	return to
}

func (w *Writer) copyGroup(g *Group) {
	dup := w.CreateGroup(g.Name(), g.last, g.read)
	var cur tree.Cursor
	ids := w.records(tree.State{}, pendingWidth)
	for ok := g.pending.First(&cur); ok; ok = cur.Next() {
		p := pendingOf(cur.Record())
		p.consumer = 0
		rec := p.record()
		ids.Insert(rec[:], nil)
	}
	dup.pending, dup.oldest = ids.State, g.oldest
	for c := range g.All {
		to := w.CreateConsumer(dup, c.Name(), c.seen)
		to.active = c.active
		for ok := c.pending.First(&cur); ok; ok = cur.Next() {
			r := cur.Record()
			w.Assign(dup, to, ID{r[0], r[1]})
		}
	}
}

// AddNode adds a node after the last one, for loaders and copies. master is its key, lp its listpack, already checked,
// and live the number of its live entries, at least one.
func (w *Writer) AddNode(master ID, lp []byte, live uint64) {
	t := w.blocks()
	ref := t.NewLeaf(nodeHeader + len(lp))
	copy(memory.Bytes(ref, nodeHeader+len(lp))[nodeHeader:], lp)
	var p tree.Path
	t.LastLeaf(&p)
	t.InsertAfter(&p, ref, live, tree.Key{master.Ms, master.Seq})
	w.r.entries = t.State
}

// Complete sets the stream's other figures after the last AddNode.
func (w *Writer) Complete(last, maxDeleted ID, added uint64) {
	w.r.last, w.r.maxDeleted, w.r.added = last, maxDeleted, added
	w.refreshFirst()
}
