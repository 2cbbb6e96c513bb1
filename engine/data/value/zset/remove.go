package zset

import (
	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
	"spindle/internal/number"
)

// Remove removes a member. It returns false if there is no such member. The caller removes the key of a set that has
// become empty. member must not lie in the value.
func Remove(e *value.Edit, member []byte) bool {
	if lp := e.Packed(); lp != nil {
		p := findPacked(lp, member)
		if p.at != 0 {
			deletePacked(e, p.at, 1)
		}
		return p.at != 0
	}
	hash := table.Hash(member)
	if table.FindIn(rootAt(e.Value().Root()).members.Root(), table.Scored, hash, member) == 0 {
		return false // returned before anything is copied for a view
	}
	h := open(e)
	p, ref := h.members.Find(hash, member)
	var c tree.Cursor
	h.find(&c, ref)
	h.order.Delete(&c)
	h.members.Release(ref, h.members.Remove(&p))
	h.save()
	return true
}

// rebuildAbove: if more members than this are removed at once, the rest may be rebuilt instead.
const rebuildAbove = 4096

// RemoveSpan removes the members of s. s must not be the whole set; in that case the caller removes the key.
//
// Cost: O(log Len + s.Len()). If s is most of a large set, the rest is rebuilt and a reclaimer frees the old set.
func RemoveSpan(e *value.Edit, s Span) {
	n := s.Len()
	if n == 0 {
		return
	}
	if lp := e.Packed(); lp != nil {
		deletePacked(e, listpack.Seek(lp, 2*s.From), n)
		return
	}
	if all := Len(e.Value()); n > rebuildAbove && all-n < n/2 {
		rebuildWithout(e, s, all)
		return
	}
	h := open(e)
	var c tree.Cursor
	var gone leaving
	h.order.At(&c, uint64(s.From))
	h.order.DeleteRange(&c, uint64(n), func(record []uint64) { gone.add(&h, memory.Ref(record[1])) })
	gone.release(&h)
	h.save()
}

// leaving collects members whose records have been removed, or are just being removed. It removes the members a batch
// at a time, so that their cache misses overlap.
type leaving struct {
	refs [32]memory.Ref
	n    int
}

func (l *leaving) add(h *handle, ref memory.Ref) {
	if l.n == len(l.refs) {
		l.release(h)
	}
	memory.PrefetchRef(ref)
	l.refs[l.n] = ref
	l.n++
}

func (l *leaving) release(h *handle) {
	var hashes [len(l.refs)]uint64
	refs := l.refs[:l.n]
	for i, ref := range refs {
		hashes[i] = table.Hash(table.ScoredKey(ref))
		h.members.Touch(hashes[i])
	}
	for i, ref := range refs {
		p := h.members.Locate(hashes[i], ref)
		h.members.Release(ref, h.members.Remove(&p))
	}
	l.n = 0
}

// rebuildWithout replaces the set by a new one that has the members outside s.
func rebuildWithout(e *value.Edit, s Span, all int) {
	b := NewBuilder(e.Store(), all-s.Len())
	var room [number.MaxIntLen]byte
	add := func(m listpack.Element, score float64) bool { return b.Add(m.Text(room[:]), score) }
	Each(e.Value(), 0, s.From, false, add)
	Each(e.Value(), s.To, all-s.To, false, add)
	e.SetRoot(value.SkipList, b.Root())
}
