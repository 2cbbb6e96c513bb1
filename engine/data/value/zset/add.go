package zset

import (
	"math"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// Flags are the conditions under which Add adds or changes a member, and how it uses score.
type Flags uint8

const (
	OnlyNew     Flags = 1 << iota // NX: existing members stay unchanged
	OnlyOld                       // XX: no member is added
	OnlyGreater                   // GT: the score of an existing member only grows
	OnlyLess                      // LT: the score of an existing member only shrinks
	Increment                     // the score is added to that of the member, or to 0 if there is no such member
)

// An Outcome is what Add did.
type Outcome uint8

const (
	Kept       Outcome = iota // the member has this score already
	Added                     // the member is new
	Updated                   // the member has another score now
	Refused                   // the flags forbade it
	NotANumber                // the sum of both infinities: nothing was done
)

// resolve returns what happens to a member with the score old. If the outcome is Kept or Updated, the score returned is
// the member's new one.
func (f Flags) resolve(old, score float64) (float64, Outcome) {
	if f&OnlyNew != 0 {
		return old, Refused
	}
	if f&Increment != 0 {
		if score += old; math.IsNaN(score) {
			return old, NotANumber
		}
	}
	if f&OnlyLess != 0 && score >= old || f&OnlyGreater != 0 && score <= old {
		return old, Refused
	}
	if score == old {
		return score, Kept
	}
	return score, Updated
}

// Add gives member a score, and adds it if it is not in the set. now is the member's score afterwards, unless out is
// Refused or NotANumber. score must not be NaN. member must not lie in the value.
//
// Cost: O(log Len), without allocation on the Go heap. While a view is open, a segment, a leaf and the nodes above are
// copied once.
func Add(e *value.Edit, score float64, member []byte, f Flags, l Limits) (out Outcome, now float64) {
	if lp := e.Packed(); lp != nil {
		if p := findPacked(lp, member); p.at != 0 {
			if now, out = f.resolve(p.score, score); out == Updated {
				rescore(e, p, now, member)
			}
			return out, now
		}
		if f&OnlyOld != 0 {
			return Refused, score
		}
		if listpack.Count(lp)/2+1 <= l.Entries && len(member) <= l.Value &&
			len(lp)+len(member)+2*listpack.MaxOverhead+scoreMax < listpack.MaxBytes {
			insertPacked(e, score, member)
			return Added, score
		}
		Convert(e)
	}
	h := open(e)
	hash := table.Hash(member)
	p, ref := h.members.Find(hash, member)
	if ref == 0 {
		if f&OnlyOld != 0 {
			return Refused, score
		}
		h.insert(hash, member, score)
		h.save()
		return Added, score
	}
	if now, out = f.resolve(table.Score(ref), score); out == Updated {
		h.rescore(&p, ref, now)
		h.save()
	}
	return out, now
}

// rescore changes the score of the member in the block at ref, whose place is p.
func (h *handle) rescore(p *table.Place, ref memory.Ref, score float64) {
	var c tree.Cursor
	h.find(&c, ref)
	next, shared := ref, false
	if !h.members.Edit(p) {
		next = table.NewScored(h.heap, table.ScoredKey(ref), score)
		shared = h.members.Replace(p, next, table.Never)
	}
	record := [2]uint64{word(score), uint64(next)}
	if between(&c, record[0]) {
		h.order.Replace(&c, record[:])
	} else {
		h.order.Delete(&c)
		member := table.ScoredKey(next)
		h.order.Insert(record[:], func(w uint64) int { return compare(member, w) })
	}
	if next == ref {
		table.SetScore(ref, score)
	} else {
		h.members.Release(ref, shared) // zset.Z3
	}
}

// between reports whether a record with word w may replace the record at c in the same place of the order.
func between(c *tree.Cursor, w uint64) bool {
	side := *c
	if side.Next() && side.Record()[0] <= w {
		return false
	}
	side = *c
	return !side.Prev() || side.Record()[0] < w
}

// Convert turns a listpack into a skiplist (zset.Z4).
func Convert(e *value.Edit) {
	lp := e.Packed()
	if lp == nil {
		return
	}
	b := NewBuilder(e.Store(), listpack.Count(lp)/2)
	b.AddPacked(lp)
	e.SetRoot(value.SkipList, b.Root())
}
