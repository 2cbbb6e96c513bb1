package set

import (
	"math"
	"math/rand/v2"

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
	if !v.Exists() || wanted == 0 {
		c.Reply.Array(0)
		return nil
	}
	return s.answerRandom(c, v, int(wanted))
}

// answerRandom replies random members of v: up to wanted different ones, or -wanted that may repeat.
func (s *commands) answerRandom(c *command.Context, v value.Value, wanted int) error {
	if size := set.Read(v); c.IsLong(command.ReadsOfDraws(wanted, size.Len())) {
		rng := c.OwnRand()
		return c.ReadBeside(func(r *command.Reading) error {
			replyRandom(r, v, wanted, rng, &set.Sampler{})
			return nil
		})
	}
	replyRandom(c.Inline(), v, wanted, c.Space.Rand(), &s.sampler)
	return nil
}

func replyRandom(r *command.Reading, v value.Value, wanted int, rng *rand.PCG, sampler *set.Sampler) {
	s, reply := set.Read(v), r.Reply
	switch {
	case wanted < 0:
		reply.Array(-wanted)
		sampler.Draw(&s, rng, -wanted, func(e set.Element) bool {
			r.Step()
			answer(reply, e)
			return !reply.Full()
		})
	case wanted >= s.Len():
		reply.Array(s.Len())
		answerAll(r, &s)
	default:
		reply.Array(wanted)
		sampler.Sample(&s, rng, wanted, func(e set.Element) {
			r.Step()
			answer(reply, e)
		})
	}
}

func randomOne(c *command.Context, v value.Value) {
	if !v.Exists() {
		c.Reply.Null()
		return
	}
	r := set.Read(v)
	answer(c.Reply, r.Random(c.Space.Rand()))
}
