package geo

import (
	"unsafe"

	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/zset"
	"spindle/internal/number"
)

// each yields the members of v that are in q's shape, cell by cell in the order of cells, and there by score; of ANY no
// more than count. How far away they are is only right if q has a use for it.
func (q *query) each(v value.Value, yield func(member listpack.Element, score, meters float64)) {
	left := int64(-1)
	if q.any {
		left = q.count
	}
	all, exact := q.cover(), q.order != unsorted || q.withDist || q.storeDist
	last := 0
	for i, c := range all {
		// Around a map of few cells one is met from both sides.
		if c.step == 0 || last != 0 && c == all[last] {
			continue
		}
		if left == 0 {
			return
		}
		from, to := c.scores()
		s := (&zset.ScoreRange{Min: from, Max: to, MaxOut: true}).Span(v)
		zset.Each(v, s.From, s.Len(), false, func(member listpack.Element, score float64) bool {
			if meters, in := q.holds(pointOf(score), exact); in {
				yield(member, score, meters)
				left--
			}
			return left != 0
		})
		last = i
	}
}

// found is a member that a search has met. Its text lies in the database, which does not change while the command reads
// it, or in digits.
type found struct {
	text   string
	score  float64
	meters float64
}

// collect is what each yields, in g.found.
func (g *commands) collect(v value.Value, q *query) []found {
	q.each(v, func(member listpack.Element, score, meters float64) {
		g.found = append(g.found, found{g.textOf(member), score, meters})
	})
	return g.found
}

// textOf is a member's text where it stays as long as the command runs.
func (g *commands) textOf(e listpack.Element) string {
	b := e.Bytes()
	if e.IsInt {
		from := len(g.digits)
		g.digits = number.AppendInt(g.digits, e.Int) // texts that are there stay where they are if it grows
		b = g.digits[from:]
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// bytesOf are those of a text.
func bytesOf(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }

// done lets go of what a call has put into the shared room.
func (g *commands) done() {
	g.found, g.digits = release(g.found), release(g.digits)
}
