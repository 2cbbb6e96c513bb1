package stream

import (
	"spindle/engine/data/memory"
	"spindle/engine/data/tree"
)

// A reference to an entry is a group that has the entry pending or has not read it yet. References are not counted. A
// command that needs them looks at the groups, so that other streams pay nothing.

// Referenced reports whether a group has id pending, or has not yet read up to id. O(groups × log pending).
func (s Stream) Referenced(id ID) bool {
	var c tree.Cursor
	for g := range s.Groups {
		if g.last.Less(id) || g.pending.Find(&c, probe(id)) {
			return true
		}
	}
	return false
}

// Unreferenced returns the ID before which no group has a reference to any entry. Without groups it returns MaxID.
// O(groups).
func (s Stream) Unreferenced() ID {
	bound := MaxID
	for g := range s.Groups {
		next, ok := g.last.Next()
		if !ok {
			next = MaxID
		}
		if g.pending.Len() > 0 && g.FirstPending().Less(next) {
			next = g.FirstPending()
		}
		if next.Less(bound) {
			bound = next
		}
	}
	return bound
}

// AllRead returns the ID up to which all groups have read. Without groups it returns MaxID.
func (s Stream) AllRead() ID {
	bound := MaxID
	for g := range s.Groups {
		if g.last.Less(bound) {
			bound = g.last
		}
	}
	return bound
}

// Forget removes the IDs from first to last, both included, from the pending entries of all groups. It calls told for
// each entry removed.
//
// Cost: O(groups × log pending), and O(log pending) for each entry removed.
func (w *Writer) Forget(first, last ID, told func(group []byte, id ID)) {
	for i := range w.r.groups.Len() {
		var at tree.Cursor
		w.r.groups.At(&at, i)
		g := groupAt(memory.Ref(at.Record()[1]))
		for {
			var c tree.Cursor
			if !g.pending.SeekGE(&c, probe(first)) {
				break
			}
			id := ID{c.Record()[0], c.Record()[1]}
			if last.Less(id) {
				break
			}
			g = groupAt(w.own(&w.r.groups, &at, groupBytes))
			w.Acknowledge(g, id)
			told(g.Name(), id)
		}
	}
}
