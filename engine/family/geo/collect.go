package geo

import (
	"unsafe"

	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/zset"
	"spindle/internal/number"
)

// each yields the members of v in q's shape, cell by cell, and by score within a cell. With ANY it stops after count
// members. meters is only right if q sorts, returns or stores distances.
func (q *query) each(r *command.Reading, v value.Value, yield func(member listpack.Element, score, meters float64)) {
	left := int64(-1)
	if q.any {
		left = q.count
	}
	all, exact := q.cover(), q.order != unsorted || q.withDist || q.storeDist
	last := 0
	for i, c := range all {
		// On a map of few cells, two directions can lead to the same cell.
		if c.step == 0 || last != 0 && c == all[last] {
			continue
		}
		if left == 0 {
			return
		}
		from, to := c.scores()
		s := (&zset.ScoreRange{Min: from, Max: to, MaxOut: true}).Span(v)
		zset.Each(v, s.From, s.Len(), false, func(member listpack.Element, score float64) bool {
			r.Step()
			if meters, in := q.holds(pointOf(score), exact); in {
				yield(member, score, meters)
				left--
			}
			return left != 0
		})
		last = i
	}
}

// reads returns about how many members each reads: those in its cells. With ANY it takes each of them for a result.
func (q *query) reads(v value.Value) (n int) {
	for _, c := range q.cover() {
		if c.step != 0 {
			from, to := c.scores()
			s := (&zset.ScoreRange{Min: from, Max: to, MaxOut: true}).Span(v)
			n += s.Len()
		}
	}
	if q.any {
		n = int(min(int64(n), q.count))
	}
	return n
}

// found is a search result. Its text is in the database or in commands.digits, which both stay unchanged during the
// command.
type found struct {
	text   string
	score  float64
	meters float64
}

// collect stores the results of each in g.found, and returns them.
func (g *commands) collect(r *command.Reading, v value.Value, q *query) []found {
	q.each(r, v, func(member listpack.Element, score, meters float64) {
		g.found = command.Collect(r, g.found, found{g.textOf(member), score, meters})
	})
	return g.found
}

// textOf returns a member's text, valid until the command ends.
func (g *commands) textOf(e listpack.Element) string {
	b := e.Bytes()
	if e.IsInt {
		from := len(g.digits)
		g.digits = number.AppendInt(g.digits, e.Int) // earlier texts keep the old array if it grows
		b = g.digits[from:]
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
}

func bytesOf(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }

// done releases the buffers after a call.
func (g *commands) done() {
	g.found, g.digits = command.Release(g.found), command.Release(g.digits)
}
