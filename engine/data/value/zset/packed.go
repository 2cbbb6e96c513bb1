package zset

import (
	"math"

	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/internal/number"
)

// scoreMax is the largest length of a score's entry in a listpack.
const scoreMax = 40

// scoreElement returns a score in the form in which a listpack stores it. A whole number is an integer, anything else
// is the text that clients see. The text is written to room.
func scoreElement(score float64, room []byte) listpack.Element {
	if score >= -math.MaxInt64/2 && score <= math.MaxInt64/2 {
		if n := int64(score); float64(n) == score {
			return listpack.OfInt(n)
		}
	}
	return listpack.Of(number.AppendDouble(room[:0], score))
}

// scoreOf returns the score that e stores. A text that is no number counts as 0; only an unchecked listpack may hold
// one.
func scoreOf(e listpack.Element) float64 {
	if e.IsInt {
		return float64(e.Int)
	}
	f, _ := number.ParseDouble(e.Bytes())
	return f
}

// A pair is a member of a packed sorted set: its offset, its score, and the offset of the score.
type pair struct {
	at, scoreAt int
	score       float64
}

// pairAt returns the pair at at, and the offset of the next pair, or End after the last one.
func pairAt(lp []byte, at int) (p pair, next int) {
	p.at, p.scoreAt = at, listpack.Next(lp, at)
	e, next := listpack.GetNext(lp, p.scoreAt)
	p.score = scoreOf(e)
	if next == 0 {
		next = listpack.End(lp)
	}
	return p, next
}

// findPacked searches for a member. p.at is 0 if the listpack does not have it.
func findPacked(lp, member []byte) (p pair) {
	if at := listpack.Find(lp, listpack.First(lp), member, 1); at != 0 {
		p, _ = pairAt(lp, at)
	}
	return p
}

// insertOffset returns the offset at which a pair belongs by order (zset.Z1). That is the offset of the first pair
// after it, or End if there is none.
func insertOffset(lp []byte, score float64, member []byte) int {
	end := listpack.End(lp)
	for at := listpack.HeaderLen; at < end; {
		p, next := pairAt(lp, at)
		if p.score > score || p.score == score && listpack.Get(lp, at).Compare(member) > 0 {
			return at
		}
		at = next
	}
	return end
}

// insertPacked adds a member that the set does not have.
func insertPacked(e *value.Edit, score float64, member []byte) {
	lp := e.Packed()
	insertAt(e, insertOffset(lp, score, member), score, member)
}

func insertAt(e *value.Edit, at int, score float64, member []byte) {
	var room [32]byte
	m, x := listpack.Of(member), scoreElement(score, room[:])
	s := listpack.InsertBefore(at, m.EncodedLen()+x.EncodedLen(), 2)
	lp := e.Splice(s.Off, s.Del, s.Ins)
	s.Finish(lp)
	gap := s.Gap(lp)
	x.Put(gap[m.Put(gap):])
}

// deletePacked removes n pairs, beginning with the one at at.
func deletePacked(e *value.Edit, at, n int) {
	s := listpack.Delete(e.Packed(), at, 2*n)
	s.Finish(e.Splice(s.Off, s.Del, s.Ins))
}

// rescore gives the member of pair p another score, and moves the pair to its new place.
func rescore(e *value.Edit, p pair, score float64, member []byte) {
	lp := e.Packed()
	to := insertOffset(lp, score, member)
	_, next := pairAt(lp, p.at)
	if to == p.at || to == next {
		var room [32]byte
		x := scoreElement(score, room[:])
		s := listpack.Replace(lp, p.scoreAt, x.EncodedLen())
		lp = e.Splice(s.Off, s.Del, s.Ins)
		s.Finish(lp)
		x.Put(s.Gap(lp))
		return
	}
	deletePacked(e, p.at, 1)
	if to > p.at {
		to -= next - p.at
	}
	insertAt(e, to, score, member)
}
