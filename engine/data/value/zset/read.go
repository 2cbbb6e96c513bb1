package zset

import (
	"math/rand/v2"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// Score returns a member's score. It returns false if there is no such member.
func Score(v value.Value, member []byte) (score float64, ok bool) {
	if lp := v.Packed(); lp != nil {
		p := findPacked(lp, member)
		return p.score, p.at != 0
	}
	if ref := blockOf(v, member); ref != 0 {
		return table.Score(ref), true
	}
	return 0, false
}

// blockOf returns a member's block in a skiplist, or 0 if there is none.
func blockOf(v value.Value, member []byte) memory.Ref {
	return table.FindIn(rootAt(v.Root()).members.Root(), table.Scored, table.Hash(member), member)
}

// Rank returns how many members are before this one, and the member's score. It returns false if there is no such
// member. O(log Len).
func Rank(v value.Value, member []byte) (rank int, score float64, ok bool) {
	if lp := v.Packed(); lp != nil {
		p := findPacked(lp, member)
		if p.at == 0 {
			return 0, 0, false
		}
		return listpack.CountRange(lp, listpack.HeaderLen, p.at) / 2, p.score, true
	}
	ref := blockOf(v, member)
	if ref == 0 {
		return 0, 0, false
	}
	var c tree.Cursor
	findIn(&rootAt(v.Root()).order, &c, ref)
	return int(c.Rank()), table.Score(ref), true
}

// Random returns a random member, each equally likely.
func Random(v value.Value, rng *rand.PCG) (member listpack.Element, score float64) {
	if lp := v.Packed(); lp != nil {
		at := listpack.Seek(lp, 2*int(rng.Uint64()%uint64(listpack.Count(lp)/2)))
		p, _ := pairAt(lp, at)
		return listpack.Get(lp, at), p.score
	}
	t := table.Open(nil, table.Scored, &rootAt(v.Root()).members, false)
	ref := t.Random(rng)
	return text(ref), table.Score(ref)
}

// text returns the member in a block as a listpack element.
func text(ref memory.Ref) listpack.Element { return listpack.OfText(table.ScoredKey(ref)) }

// Scan yields about count members, starting at cursor, in no fixed order, and returns the next cursor. Cursor 0 begins
// a scan, and 0 returned ends it. It yields a listpack as a whole. A member present all the time is yielded at least
// once.
func Scan(v value.Value, cursor uint64, count int, yield func(member listpack.Element, score float64)) uint64 {
	if v.Packed() != nil {
		Each(v, 0, Len(v), false, func(m listpack.Element, score float64) bool {
			yield(m, score)
			return true
		})
		return 0
	}
	t := table.Open(nil, table.Scored, &rootAt(v.Root()).members, false)
	return t.Scan(cursor, count, func(ref memory.Ref) { yield(text(ref), table.Score(ref)) })
}
