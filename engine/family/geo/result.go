package geo

import (
	"slices"

	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/zset"
	"spindle/protocol"
)

// answer replies the results. If it may have to read many members, it does so outside the turn.
func (g *commands) answer(c *command.Context, v value.Value, q *query) error {
	if c.IsLong(zset.Len(v)) && c.IsLong(q.reads(v)) {
		own := *q
		if q.polygon != nil {
			area := *q.polygon
			area.corners = slices.Clone(area.corners)
			own.polygon = &area
		}
		return c.ReadBeside(func(r *command.Reading) error {
			(&commands{}).reply(r, v, &own)
			return nil
		})
	}
	g.reply(c.Inline(), v, q)
	return nil
}

func (g *commands) reply(r *command.Reading, v value.Value, q *query) {
	if q.order == unsorted {
		answerUnsorted(r, v, q)
	} else {
		g.answerSorted(r, v, q)
	}
}

// answerUnsorted replies each result as it is found and keeps no list of results.
func answerUnsorted(at *command.Reading, v value.Value, q *query) {
	r := at.Reply
	mark, n := r.Mark(), 0
	q.each(at, v, func(member listpack.Element, score, meters float64) {
		n++
		q.head(r)
		if member.IsInt {
			r.BulkInt(member.Int)
		} else {
			r.Bulk(member.Bytes())
		}
		q.tail(r, score, meters)
	})
	r.ArrayAt(mark, n)
}

// answerSorted replies the results in order of distance.
func (g *commands) answerSorted(at *command.Reading, v value.Value, q *query) {
	defer g.done()
	r := at.Reply
	items := q.sort(g.collect(at, v, q))
	r.Array(len(items))
	for i := range items {
		at.Step()
		q.head(r)
		r.BulkString(items[i].text)
		q.tail(r, items[i].score, items[i].meters)
	}
}

// head begins the array of one result, if WITH… options add values to it.
func (q *query) head(r *protocol.Reply) {
	n := 1
	for _, with := range [...]bool{q.withDist, q.withHash, q.withCoord} {
		if with {
			n++
		}
	}
	if n > 1 {
		r.Array(n)
	}
}

// tail appends the values of the WITH… options, which follow the member.
func (q *query) tail(r *protocol.Reply, score, meters float64) {
	if q.withDist {
		answerDistance(r, meters/q.unit)
	}
	if q.withHash {
		r.Int(signed(score))
	}
	if q.withCoord {
		answerPoint(r, pointOf(score))
	}
}

// sort sorts items in q's order, if it has one, and returns the first count.
func (q *query) sort(items []found) []found {
	n := len(items)
	if q.count > 0 {
		n = int(min(int64(n), q.count))
	}
	compare := byDistance
	if q.order == farthest {
		compare = func(a, b float64) int { return -byDistance(a, b) }
	}
	switch {
	case q.order == unsorted:
	case n == len(items):
		slices.SortStableFunc(items, func(a, b found) int { return compare(a.meters, b.meters) })
	default:
		selectFirst(items, n, compare)
	}
	return items[:n]
}

func byDistance(a, b float64) int {
	switch {
	case a > b:
		return 1
	case a == b:
		return 0
	}
	return -1
}

// storeFound stores the results as a sorted set at q's destination and replaces any old value. Then it publishes event.
func (g *commands) storeFound(c *command.Context, v value.Value, q *query, event string) {
	defer g.done()
	items := q.sort(g.collect(c.Inline(), v, q))
	if len(items) == 0 {
		storeNothing(c, q.store)
		return
	}
	x := zset.Gather(c.Space.Store())
	for i := range items {
		score := items[i].score
		if q.storeDist {
			score = items[i].meters / q.unit
		}
		x.Put(bytesOf(items[i].text), score, zset.Sum)
	}
	x.Sort(func() {})
	c.Overwrites(q.store, value.ZSet)
	var created bool
	if limits(c).Holds(x.Len(), x.Longest()) {
		g.packed = x.AppendPacked(g.packed[:0])
		x.Discard()
		created = c.DB.PutPacked(q.store, value.ZSet, value.Listpack, g.packed, 0)
		g.packed = command.Release(g.packed)
	} else {
		created = c.DB.PutRoot(q.store, value.ZSet, value.SkipList, x.Root(), 0)
	}
	if created {
		c.Notify(command.EventNew, "new", q.store)
	}
	c.Changed(len(items))
	c.Notify(command.EventZSet, event, q.store)
	c.Reply.Int(int64(len(items)))
}

// storeNothing deletes the destination after a search without a result.
func storeNothing(c *command.Context, key []byte) {
	if c.DB.Delete(key) {
		c.Changed(1)
		c.Notify(command.EventGeneric, "del", key)
	}
	c.Reply.Int(0)
}
