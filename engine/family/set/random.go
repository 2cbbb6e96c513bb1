package set

import (
	"math"

	"spindle/engine/command"
	"spindle/engine/data/value"
	"spindle/engine/data/value/set"
	"spindle/internal/number"
	"spindle/protocol"
)

var wordSRem = []byte("SREM")

// pop is SPOP key [count]. It removes random members.
//
// Replies: a member, or null for a missing key; with count, a set. Errors: ErrSyntax, errNegative, ErrWrongType.
// Propagates SREM of the removed members, in batches. If all were removed, it propagates DEL or UNLINK.
func (s *commands) pop(c *command.Context) error {
	switch {
	case len(c.Args) == 3:
		return s.popMany(c)
	case len(c.Args) > 3:
		return protocol.ErrSyntax
	}
	key := c.Args[1]
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	if e == nil {
		c.Reply.Null()
		return nil
	}
	s.text = set.Pop(e, s.text[:0])
	c.Changed(1)
	c.Notify(command.EventSet, "spop", key)
	c.Propagate(wordSRem, key, c.Effects.Keep(s.text))
	c.Reply.Bulk(s.text)
	s.text = command.Release(s.text)
	afterRemoval(c, key, e)
	return nil
}

// batchOfSRem is the largest number of members in one propagated SREM.
const batchOfSRem = 1024

func (s *commands) popMany(c *command.Context) error {
	key := c.Args[1]
	wanted, err := command.Int(c.Args[2])
	if err != nil || wanted < 0 {
		return errNegative
	}
	e, err := edit(c, key)
	if err != nil {
		return err
	}
	if e == nil || wanted == 0 {
		c.Reply.Set(0)
		return nil
	}
	size := set.Len(e)
	n := int(min(wanted, int64(size)))
	c.Changed(n)
	c.Notify(command.EventSet, "spop", key)
	c.Reply.Set(n)
	if n == size {
		r := set.Read(e.Value())
		answerAll(c.Inline(), &r)
		c.DB.Remove(e)
		c.Notify(command.EventGeneric, "del", key)
		c.Propagate(c.Displacement(), key)
		return nil
	}
	reply := c.Reply
	batch := append(s.batch[:0], wordSRem, key)
	heard := !c.Effects.Unheard
	set.PopMany(e, n, c.Settings.Sets.Limits(), &s.building, func(el set.Element) {
		answer(reply, el)
		if !heard {
			return
		}
		var room [number.MaxIntLen]byte
		if batch = append(batch, c.Effects.Keep(el.Text(room[:]))); len(batch) == 2+batchOfSRem {
			c.Propagate(batch...)
			batch = batch[:2]
		}
	})
	if len(batch) > 2 || !heard {
		c.Propagate(batch...)
	}
	s.batch = command.Release(batch)
	c.DB.Touched(key)
	return nil
}

// randMember is SRANDMEMBER key [count].
// Replies: a random member. For a positive count it replies up to count different members. For a negative count it
// replies exactly -count members, which may repeat. For a missing key it replies null, or an empty array.
// Errors: ErrSyntax, ErrNotInteger, errCount, ErrWrongType.
func (s *commands) randMember(c *command.Context) error {
	if len(c.Args) > 3 {
		return protocol.ErrSyntax
	}
	wanted := int64(1)
	if len(c.Args) == 3 {
		var err error
		if wanted, err = command.Int(c.Args[2]); err != nil {
			return err
		}
		if wanted == math.MinInt64 {
			return errCount
		}
	}
	v, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	if len(c.Args) == 2 {
		randomOne(c, v)
		return nil
	}
	reply := c.Reply
	if !v.Exists() || wanted == 0 {
		reply.Array(0)
		return nil
	}
	r := set.Read(v)
	rng := c.Space.Rand()
	switch {
	case wanted < 0:
		reply.Array(int(-wanted))
		s.sampler.Draw(&r, rng, int(-wanted), func(e set.Element) bool {
			answer(reply, e)
			return !reply.Full()
		})
	case wanted >= int64(r.Len()):
		reply.Array(r.Len())
		answerAll(c.Inline(), &r)
	default:
		reply.Array(int(wanted))
		s.sampler.Sample(&r, rng, int(wanted), func(e set.Element) { answer(reply, e) })
	}
	return nil
}

func randomOne(c *command.Context, v value.Value) {
	if !v.Exists() {
		c.Reply.Null()
		return
	}
	r := set.Read(v)
	answer(c.Reply, r.Random(c.Space.Rand()))
}
