package stream

import (
	"math"

	"spindle/engine/data/listpack"
	"spindle/engine/data/tree"
)

// setIntRoom is the number of bytes that setInt may need after a listpack.
const setIntRoom = 3 * listpack.MaxOverhead

// Delete removes the entry with this ID, and updates MaxDeleted. It returns false if there is no such entry.
//
// Cost: writing to one node. The entry is only marked as deleted, until its node is removed.
func (w *Writer) Delete(id ID) bool {
	t := w.blocks()
	var p tree.Path
	if !t.LeafOf(&p, tree.Key{id.Ms, id.Seq}) {
		return false
	}
	var n node
	key := t.KeyOf(&p)
	n.open(packAt(p.Leaf()), ID{key[0], key[1]})
	at := n.live(n.first)
	for at != 0 {
		e := n.read(at)
		if !e.id.Less(id) {
			if e.id != id {
				return false
			}
			break
		}
		at = n.live(n.after(&e))
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

// mark marks k live entries, the first at at, as deleted. It removes the node if no live entry is left (stream.S1).
// next is the ID of the first live entry after them in the node, if there is one.
func (w *Writer) mark(t *tree.Blocks, p *tree.Path, at, k int) (next ID, ok bool) {
	live := int(t.CountOf(p)) - k
	if live == 0 {
		t.Remove(p)
		return ID{}, false
	}
	used := nodeHeader + len(packAt(p.Leaf()))
	key := t.KeyOf(p)
	var n node
	ref := t.Writable(p, used, used+setIntRoom)
	n.open(packAt(ref), ID{key[0], key[1]})
	for range k {
		at = n.live(at)
		setInt(n.lp, at, intAt(n.lp, at)|flagDeleted)
		n.lp = packAt(ref) // flags that were in a longer encoding may have become shorter
	}
	if at = n.live(at); at != 0 {
		next, ok = n.read(at).id, true
	}
	setInt(n.lp, deletedAt(n.lp), intAt(n.lp, deletedAt(n.lp))+int64(k))
	setInt(packAt(ref), countAt, int64(live))
	t.SetCount(p, uint64(live))
	return next, ok
}

// refreshFirst searches for the first entry again (stream.S3).
func (w *Writer) refreshFirst() {
	if w.Len() == 0 {
		w.r.first = ID{}
	} else {
		w.r.first = w.edge(false)
	}
}

// A Trimming selects the entries at the beginning that Trim removes.
type Trimming struct {
	ByID   bool
	MinID  ID     // with ByID, entries before MinID are removed
	MaxLen uint64 // otherwise all but the last MaxLen entries
	Whole  bool   // remove only whole nodes
	Most   uint64 // remove at most this many; 0 means no limit
}

// Trim removes entries from the beginning and returns how many it removed.
//
// Cost: O(log n), whatever the number of nodes, and writing to one node. A reclaimer frees the nodes that are cut off.
func (w *Writer) Trim(o Trimming) (removed uint64) {
	t := w.blocks()
	before := t.Len()
	if before == 0 || !o.ByID && before <= o.MaxLen {
		return 0
	}
	var p tree.Path
	first, known := ID{}, false
	if o.ByID {
		first, known = w.trimByID(&t, &p, o)
	} else {
		first, known = w.trimByLength(&t, &p, o)
	}
	w.r.entries = t.State
	switch removed = before - t.Len(); {
	case known:
		w.r.first = first
	case removed > 0:
		w.refreshFirst()
	}
	return removed
}

// trimByLength trims by o.MaxLen. first is the ID of the first entry left. known is false if it has to be searched.
func (w *Writer) trimByLength(t *tree.Blocks, p *tree.Path, o Trimming) (first ID, known bool) {
	goal := t.Len() - o.MaxLen
	if o.Most > 0 {
		goal = min(goal, o.Most)
	}
	if goal == t.Len() {
		t.Clear()
		return
	}
	rest, _ := t.LeafAt(p, goal) // the nodes before it hold at most goal entries
	t.CutFront(p)
	if rest == 0 || o.Whole {
		return
	}
	var n node
	key := t.KeyOf(p)
	n.open(packAt(p.Leaf()), ID{key[0], key[1]})
	return w.mark(t, p, n.first, int(rest))
}

// trimByID trims by o.MinID. first and known are as for trimByLength.
func (w *Writer) trimByID(t *tree.Blocks, p *tree.Path, o Trimming) (first ID, known bool) {
	if !t.LeafOf(p, tree.Key{o.MinID.Ms, o.MinID.Seq}) {
		return
	}
	// The entries of the previous nodes are before this node's key, so before MinID. All entries of this node may be
	// before MinID, too.
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
	most := uint64(math.MaxUint64) // the most entries to remove from this node
	if o.Most > 0 {
		if rank > o.Most {
			rest, _ := t.LeafAt(p, o.Most)
			rank = o.Most - rest
		}
		most = o.Most - rank
	}
	t.CutFront(p)
	if o.Whole {
		return
	}
	key = t.KeyOf(p)
	n.open(packAt(p.Leaf()), ID{key[0], key[1]})
	k, from := 0, n.live(n.first)
	for at := from; at != 0 && uint64(k) < most; k++ {
		e := n.read(at)
		if !e.id.Less(o.MinID) {
			break
		}
		at = n.live(n.after(&e))
	}
	if k == 0 {
		return
	}
	return w.mark(t, p, from, k)
}
