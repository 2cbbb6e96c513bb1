package stream

import (
	"spindle/engine/data/listpack"
	"spindle/engine/data/tree"
)

// setIntRoom is what setInt may need behind a listpack.
const setIntRoom = 3 * listpack.MaxOverhead

// Delete removes the entry with this ID; false says that there is none. It notes the ID as deleted.
//
// Cost: one node written to. Its entry stays, marked, until the node goes.
func (w *Writer) Delete(id ID) bool {
	t := w.blocks()
	var p tree.Path
	if !t.LeafOf(&p, tree.Key{id.Ms, id.Seq}) {
		return false
	}
	var n node
	key := t.KeyOf(&p)
	n.open(packAt(p.Leaf()), ID{key[0], key[1]})
	at := n.first
	for ; at != 0; at = n.step(at) {
		e := n.read(at)
		if e.flags&flagDeleted != 0 {
			continue
		}
		if e.id == id {
			break
		}
		if id.Less(e.id) {
			return false
		}
	}
	if at == 0 {
		return false
	}
	w.mark(&t, &p, at, 1)
	w.r.entries = t.State
	if w.r.maxDeleted.Less(id) {
		w.r.maxDeleted = id
	}
	if id == w.r.first || t.Len() == 0 {
		w.refreshFirst()
	}
	return true
}

// step is the entry behind the one at at, 0 at the end.
func (n *node) step(at int) int {
	e := n.read(at)
	return n.after(&e)
}

// mark marks k entries that are not deleted, from the one at at on, as deleted; the node goes with its last (S1).
func (w *Writer) mark(t *tree.Blocks, p *tree.Path, at, k int) {
	live := int(t.CountOf(p)) - k
	if live == 0 {
		t.Remove(p)
		return
	}
	used := nodeHeader + len(packAt(p.Leaf()))
	key := t.KeyOf(p)
	var n node
	ref := t.Writable(p, used, used+setIntRoom)
	n.open(packAt(ref), ID{key[0], key[1]})
	for left := k; left > 0; {
		e := n.read(at)
		if e.flags&flagDeleted == 0 {
			setInt(n.lp, at, e.flags|flagDeleted)
			n.lp = packAt(ref) // flags that came in an odd encoding have become shorter
			left--
			e = n.read(at)
		}
		at = n.after(&e)
	}
	setInt(n.lp, deletedAt(n.lp), intAt(n.lp, deletedAt(n.lp))+int64(k))
	setInt(packAt(ref), countAt, int64(live))
	t.SetCount(p, uint64(live))
}

// refreshFirst finds the first entry anew (S3).
func (w *Writer) refreshFirst() {
	if w.Len() == 0 {
		w.r.first = ID{}
	} else {
		w.r.first = w.edge(false)
	}
}

// A Trimming says which entries at the beginning are to go.
type Trimming struct {
	ByID   bool
	MinID  ID     // those before it
	MaxLen uint64 // or those beyond so many
	Whole  bool   // only as far as whole nodes go
	Most   uint64 // and no more of them; 0: no bound
}

// Trim removes entries from the beginning and returns how many.
//
// Cost: O(log n), whatever the number of nodes, and one node written to: what is cut off is a reclaimer's.
func (w *Writer) Trim(o Trimming) (removed uint64) {
	t := w.blocks()
	before := t.Len()
	if before == 0 || !o.ByID && before <= o.MaxLen {
		return 0
	}
	var p tree.Path
	if o.ByID {
		w.trimByID(&t, &p, o)
	} else {
		w.trimByLength(&t, &p, o)
	}
	w.r.entries = t.State
	if removed = before - t.Len(); removed > 0 {
		w.refreshFirst()
	}
	return removed
}

func (w *Writer) trimByLength(t *tree.Blocks, p *tree.Path, o Trimming) {
	goal := t.Len() - o.MaxLen
	if o.Most > 0 {
		goal = min(goal, o.Most)
	}
	if goal == t.Len() {
		t.Clear()
		return
	}
	rest, _ := t.LeafAt(p, goal) // the nodes before hold no more than goal
	t.CutFront(p)
	if rest > 0 && !o.Whole {
		w.markFirst(t, p, int(rest))
	}
}

func (w *Writer) trimByID(t *tree.Blocks, p *tree.Path, o Trimming) {
	if !t.LeafOf(p, tree.Key{o.MinID.Ms, o.MinID.Seq}) {
		return
	}
	// The nodes before end before this one's key, and so before MinID. This one may, too.
	var n node
	key := t.KeyOf(p)
	n.open(packAt(p.Leaf()), ID{key[0], key[1]})
	rank, whole := p.Rank(), n.lastID().Less(o.MinID)
	if end := rank + t.CountOf(p); whole && (o.Most == 0 || end <= o.Most) {
		if end == t.Len() {
			t.Clear()
			return
		}
		p.Next()
		t.CutFront(p)
		return
	}
	if o.Most > 0 && rank > o.Most {
		t.LeafAt(p, o.Most)
	}
	t.CutFront(p)
	if o.Whole {
		return
	}
	k := 0
	for at := n.first; at != 0; {
		e := n.read(at)
		if !e.id.Less(o.MinID) {
			break
		}
		if e.flags&flagDeleted == 0 {
			k++
		}
		at = n.after(&e)
	}
	if k > 0 {
		w.markFirst(t, p, k)
	}
}

// markFirst marks the first k entries of p's node that are not deleted.
func (w *Writer) markFirst(t *tree.Blocks, p *tree.Path, k int) {
	var n node
	key := t.KeyOf(p)
	n.open(packAt(p.Leaf()), ID{key[0], key[1]})
	w.mark(t, p, n.first, k)
}
