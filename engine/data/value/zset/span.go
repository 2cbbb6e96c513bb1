package zset

import (
	"bytes"

	"spindle/engine/data/listpack"
	"spindle/engine/data/memory"
	"spindle/engine/data/table"
	"spindle/engine/data/tree"
	"spindle/engine/data/value"
)

// A Span is the members with the ranks From to To-1. It is empty if To is not above From.
type Span struct{ From, To int }

func (s Span) Len() int { return max(s.To-s.From, 0) }

// A ScoreRange is the scores from Min to Max. MinOut and MaxOut exclude the bound itself.
type ScoreRange struct {
	Min, Max       float64
	MinOut, MaxOut bool
}

func (r *ScoreRange) reaches(score float64) bool {
	return score > r.Min || !r.MinOut && score == r.Min
}

func (r *ScoreRange) exceeds(score float64) bool {
	return score > r.Max || r.MaxOut && score == r.Max
}

// Span returns the members whose scores are in r. O(log Len).
func (r *ScoreRange) Span(v value.Value) (s Span) {
	if r.Min > r.Max {
		return Span{}
	}
	if lp := v.Packed(); lp != nil {
		end := listpack.End(lp)
		for at := listpack.HeaderLen; at < end; {
			p, next := pairAt(lp, at)
			if r.exceeds(p.score) {
				break
			}
			if s.To++; !r.reaches(p.score) {
				s.From++
			}
			at = next
		}
		return s
	}
	order := &rootAt(v.Root()).order
	return Span{rankOf(order, word(r.Min), r.MinOut), rankOf(order, word(r.Max), !r.MaxOut)}
}

// rankOf returns how many records have a lower word than w. With after, it also counts the records with the word w.
func rankOf(order *tree.State, w uint64, after bool) int {
	p := tree.Probe{Word0: w, Tie: before}
	if after {
		p.Tie = behind
	}
	var c tree.Cursor
	order.SeekGE(&c, p)
	return int(c.Rank())
}

func before(uint64) int { return -1 }
func behind(uint64) int { return 1 }

// A LexBound is the beginning or the end of a LexRange.
type LexBound struct {
	Text []byte
	Out  bool // Text itself is not in the range
	Edge int8 // -1: before all texts, 1: after all texts; then Text and Out are ignored
}

// compare compares the bound with text. It returns 0 if they are equal.
func (b *LexBound) compare(text []byte) int {
	if b.Edge != 0 {
		return int(b.Edge)
	}
	return bytes.Compare(b.Text, text)
}

// A LexRange is the members between two texts. It is meant for sets in which all scores are equal.
type LexRange struct{ Min, Max LexBound }

func (r *LexRange) empty() bool {
	if r.Min.Edge != 0 || r.Max.Edge != 0 {
		return r.Min.Edge > 0 || r.Max.Edge < 0
	}
	c := bytes.Compare(r.Min.Text, r.Max.Text)
	return c > 0 || c == 0 && (r.Min.Out || r.Max.Out)
}

func (r *LexRange) reaches(text []byte) bool {
	c := r.Min.compare(text)
	return c < 0 || c == 0 && !r.Min.Out
}

func (r *LexRange) exceeds(text []byte) bool {
	c := r.Max.compare(text)
	return c < 0 || c == 0 && r.Max.Out
}

// Span returns the members in r. O(log Len). If scores differ, members are not ordered by text. In a listpack the span
// is then the first run of members in r. The walk starts at the first member, or at the last if reverse.
func (r *LexRange) Span(v value.Value, reverse bool) (s Span) {
	if r.empty() {
		return Span{}
	}
	if lp := v.Packed(); lp != nil {
		return r.spanPacked(lp, reverse)
	}
	order := &rootAt(v.Root()).order
	var c tree.Cursor
	order.SeekGE(&c, tree.Probe{TieOnly: true, Tie: func(w uint64) int {
		if r.reaches(table.ScoredKey(memory.Ref(w))) {
			return -1
		}
		return 1
	}})
	s.From = int(c.Rank())
	order.SeekGE(&c, tree.Probe{TieOnly: true, Tie: func(w uint64) int {
		if r.exceeds(table.ScoredKey(memory.Ref(w))) {
			return -1
		}
		return 1
	}})
	s.To = int(c.Rank())
	return s
}

func (r *LexRange) spanPacked(lp []byte, reverse bool) (s Span) {
	n := listpack.Count(lp) / 2
	first, last := r.texts(lp, 0), r.texts(lp, 2*n-2)
	if !last.reached || first.exceeded {
		return Span{}
	}
	if reverse {
		s.To = n
		at := listpack.Seek(lp, 2*n-2)
		for at != 0 && r.at(lp, at).exceeded {
			s.To--
			at = back(lp, at)
		}
		for s.From = s.To; at != 0 && r.at(lp, at).reached; at = back(lp, at) {
			s.From--
		}
		return s
	}
	at := listpack.First(lp)
	for at != 0 && !r.at(lp, at).reached {
		s.From++
		at = listpack.Next(lp, listpack.Next(lp, at))
	}
	for s.To = s.From; at != 0 && !r.at(lp, at).exceeded; at = listpack.Next(lp, listpack.Next(lp, at)) {
		s.To++
	}
	return s
}

// back returns the offset of the pair before the one at at, or 0 at the beginning.
func back(lp []byte, at int) int {
	if at = listpack.Prev(lp, at); at == 0 {
		return 0
	}
	return listpack.Prev(lp, at)
}

type standing struct{ reached, exceeded bool }

func (r *LexRange) texts(lp []byte, index int) standing { return r.at(lp, listpack.Seek(lp, index)) }

// at compares the member at at with both limits of r.
func (r *LexRange) at(lp []byte, at int) standing {
	var room [24]byte
	t := listpack.Get(lp, at).Text(room[:])
	return standing{r.reaches(t), r.exceeds(t)}
}
