package zset

import (
	"slices"

	"spindle/engine/command"
	"spindle/engine/data/value/zset"
)

// union is ZUNION numkeys key [key …] [WEIGHTS weight …] [AGGREGATE SUM|MIN|MAX|COUNT] [WITHSCORES].
//
// Replies: an array like that of zrange. Errors: those of parse.
// Cost: one turn in proportion to the sets; about 0.3 s for a million members.
func (z *commands) union(c *command.Context) error { return z.answer(c, union) }

// inter is ZINTER; see union. Cost: each member of the smallest set is looked up in the other sets, until one lacks it.
func (z *commands) inter(c *command.Context) error { return z.answer(c, inter) }

// diff is ZDIFF numkeys key [key …] [WITHSCORES]: the members of the first set that no other set has; see union.
func (z *commands) diff(c *command.Context) error { return z.answer(c, diff) }

// unionStore is ZUNIONSTORE destination numkeys key [key …] [WEIGHTS weight …] [AGGREGATE SUM|MIN|MAX|COUNT].
//
// Replies: the size of the destination. If the result is empty, destination is deleted. Errors: those of parse.
// Propagates as written. COUNT exists only since Redis 8.8, so with it DEL and ZADD of the result are propagated.
func (z *commands) unionStore(c *command.Context) error { return z.storeAs(c, union, "zunionstore") }

// interStore is ZINTERSTORE; see unionStore.
func (z *commands) interStore(c *command.Context) error { return z.storeAs(c, inter, "zinterstore") }

// diffStore is ZDIFFSTORE destination numkeys key [key …]; see unionStore.
func (z *commands) diffStore(c *command.Context) error { return z.storeAs(c, diff, "zdiffstore") }

// interCard is ZINTERCARD numkeys key [key …] [LIMIT limit]. Replies: the number of members of ZINTER, at most limit
// unless limit is 0.
//
// Errors: those of parse.
func (z *commands) interCard(c *command.Context) error {
	defer z.done()
	m, err := z.parse(c, 1, interCard, false)
	if err != nil {
		return err
	}
	return m.answer(c, func(m *combination, r *command.Reading) {
		n := int64(0)
		m.intersect(r, func([]byte, float64) bool {
			n++
			return n != m.limit
		})
		r.Reply.Int(n)
	})
}

func (z *commands) answer(c *command.Context, op operation) error {
	defer z.done()
	m, err := z.parse(c, 1, op, false)
	if err != nil {
		return err
	}
	return m.answer(c, (*combination).reply)
}

// answer lets reply reply from the sources. If these have many members, reply runs outside the turn.
func (m *combination) answer(c *command.Context, reply func(*combination, *command.Reading)) error {
	if c.IsLong(m.reads()) {
		own := *m // the sources' room is every call's
		own.sources = slices.Clone(m.sources)
		return c.ReadBeside(func(r *command.Reading) error {
			reply(&own, r)
			return nil
		})
	}
	reply(m, c.Inline())
	return nil
}

// reads returns the number of members that the operation may read.
func (m *combination) reads() (n int) {
	for i := range m.sources {
		n += m.sources[i].n
	}
	if m.op == inter || m.op == interCard {
		n = m.sources[0].n * len(m.sources)
	}
	return n
}

// reply replies the result of m, sorted.
func (m *combination) reply(r *command.Reading) {
	g := m.gather(r)
	reply, withScores := r.Reply, m.withScores
	head(reply, g.Len(), withScores)
	g.Each(func(member []byte, score float64) {
		r.Step()
		if withScores && reply.RESP3 {
			reply.Array(2)
		}
		reply.Bulk(member)
		if withScores {
			reply.Double(score)
		}
	})
	g.Discard()
}

func (z *commands) storeAs(c *command.Context, op operation, event string) error {
	defer z.done()
	m, err := z.parse(c, 2, op, true)
	if err != nil {
		return err
	}
	key := c.Args[1]
	g := m.gather(c.Inline())
	n := g.Len()
	switch {
	case n == 0:
		g.Discard()
		storeNothing(c, key)
		if m.counts && c.Dirty > 0 {
			c.PropagateZSet(key)
		}
		return nil
	case limits(c).Holds(n, g.Longest()):
		z.packed = g.AppendPacked(z.packed[:0])
		g.Discard()
		z.storePacked(c, key)
	default:
		z.store(c, key, g.Root())
	}
	c.Changed(1)
	c.Notify(command.EventZSet, event, key)
	c.Reply.Int(int64(n))
	if m.counts {
		c.PropagateZSet(key)
	}
	return nil
}

// done releases the buffers after a call.
func (z *commands) done() { z.sources = command.Release(z.sources) }

// gather returns the result of m, sorted.
func (m *combination) gather(r *command.Reading) *zset.Gathering {
	g := zset.Gather(r.Store())
	switch m.op {
	case union:
		g.Expect(m.sources[len(m.sources)-1].n) // they are sorted: the last one is the largest
		for i := range m.sources {
			s, batch := &m.sources[i], g.Batch(m.aggregate)
			s.each(func(member []byte, score float64) bool {
				r.Step()
				batch.Put(member, zset.Whole(m.score(s, score)))
				if s.v.Packed() != nil { // a number's text is overwritten by the next one
					batch.Flush()
				}
				return true
			})
			batch.Flush()
		}
	case inter:
		m.intersect(r, func(member []byte, score float64) bool {
			g.Put(member, score, m.aggregate)
			return true
		})
	case diff:
		m.subtract(r, g)
	}
	g.Sort(r.Step)
	return g
}

// intersect yields the members that all sources have.
func (m *combination) intersect(r *command.Reading, yield func(member []byte, score float64) bool) {
	first, others := &m.sources[0], m.sources[1:]
	first.each(func(member []byte, score float64) bool {
		r.Steps(len(m.sources))
		x := zset.Whole(m.score(first, score))
		for i := range others {
			y, ok := others[i].find(member)
			if !ok {
				return true
			}
			x = m.aggregate.Of(x, m.score(&others[i], y))
		}
		return yield(member, x)
	})
}

// subtract adds to g the members of the first source that no other source has. It looks each of them up in all others.
// If the others are small, it removes their members from the result instead.
func (m *combination) subtract(r *command.Reading, g *zset.Gathering) {
	first, others := &m.sources[0], m.sources[1:]
	lookups, removals := first.n*len(others), first.n
	for i := range others {
		if others[i].n > 0 && others[i].v == first.v {
			return
		}
		removals += others[i].n
	}
	byRemoval := removals < lookups/2
	first.each(func(member []byte, score float64) bool {
		r.Step()
		for i := range others {
			if byRemoval {
				break
			}
			if _, ok := others[i].find(member); ok {
				return true
			}
		}
		g.Put(member, score, zset.Sum)
		return true
	})
	for i := 0; byRemoval && i < len(others) && g.Len() > 0; i++ {
		others[i].each(func(member []byte, _ float64) bool {
			r.Step()
			g.Remove(member)
			return true
		})
	}
}
