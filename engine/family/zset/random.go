package zset

import (
	"math"
	"math/rand/v2"

	"spindle/engine/command"
	"spindle/engine/data/listpack"
	"spindle/engine/data/value"
	"spindle/engine/data/value/zset"
	"spindle/protocol"
)

// randMember is ZRANDMEMBER key [count [WITHSCORES]].
//
// Replies: a random member. For a positive count it replies up to count different members. For a negative count it
// replies exactly -count members, which may repeat. For a missing key it replies null, or an empty array. Scores are
// replied as by zrange.
// Errors: ErrNotInteger, errRandomCount, ErrSyntax, errRandomScores, ErrWrongType.
func (z *commands) randMember(c *command.Context) error {
	wanted, withScores := int64(1), false
	if len(c.Args) > 2 {
		var err error
		if wanted, err = command.Int(c.Args[2]); err != nil {
			return err
		}
		switch {
		case wanted == math.MinInt64:
			return errRandomCount
		case len(c.Args) > 4 || len(c.Args) == 4 && !command.Is(c.Args[3], "WITHSCORES"):
			return protocol.ErrSyntax
		case len(c.Args) == 4:
			if withScores = true; wanted < -math.MaxInt64/2 || wanted > math.MaxInt64/2 {
				return errRandomScores
			}
		}
	}
	v, err := lookup(c, c.Args[1])
	if err != nil {
		return err
	}
	switch {
	case len(c.Args) == 2 && !v.Exists():
		c.Reply.Null()
		return nil
	case len(c.Args) == 2:
		member, _ := zset.Random(v, c.Space.Rand())
		answer(c.Reply, member)
		return nil
	case !v.Exists() || wanted == 0:
		c.Reply.Array(0)
		return nil
	}
	return answerRandom(c, v, int(wanted), withScores)
}

// answerRandom replies random members of v: up to n different ones, or -n that may repeat.
func answerRandom(c *command.Context, v value.Value, n int, withScores bool) error {
	if c.IsLong(command.ReadsOfDraws(n, zset.Len(v))) {
		rng := c.OwnRand()
		return c.ReadBeside(func(r *command.Reading) error {
			replyRandom(r, v, n, rng, withScores)
			return nil
		})
	}
	replyRandom(c.Inline(), v, n, c.Space.Rand(), withScores)
	return nil
}

func replyRandom(r *command.Reading, v value.Value, n int, rng *rand.PCG, withScores bool) {
	size := zset.Len(v)
	switch {
	case n < 0:
		head(r.Reply, -n, withScores)
		for ; n < 0 && !r.Reply.Full(); n++ {
			r.Step()
			member, x := zset.Random(v, rng)
			answerPair(r.Reply, member, x, withScores)
		}
	case n > size/manyToOne:
		n = min(n, size)
		head(r.Reply, n, withScores)
		answerSome(r, v, n, rng, withScores)
	default:
		head(r.Reply, n, withScores)
		answerFew(r, v, n, rng, withScores)
	}
}

// manyToOne is the ratio of all members to wanted members above which drawing ranks costs less than a walk.
const manyToOne = 16

// answerSome walks the set and replies n random members. Each choice of n members has the same probability.
func answerSome(r *command.Reading, v value.Value, n int, rng *rand.PCG, withScores bool) {
	left := zset.Len(v)
	zset.Each(v, 0, left, false, func(member listpack.Element, x float64) bool {
		r.Step()
		if below(rng, left) < n {
			answerPair(r.Reply, member, x, withScores)
			n--
		}
		left--
		return n > 0
	})
}

// answerFew draws n different ranks and replies their members.
func answerFew(r *command.Reading, v value.Value, n int, rng *rand.PCG, withScores bool) {
	size := zset.Len(v)
	drawn := make(map[int]struct{}, n)
	for len(drawn) < n {
		at := below(rng, size)
		if _, again := drawn[at]; again {
			continue
		}
		drawn[at] = struct{}{}
		r.Step()
		var i zset.Iter
		i.At(v, at)
		answerPair(r.Reply, i.Member(), i.Score(), withScores)
	}
}

// below returns a random number in [0, n).
func below(rng *rand.PCG, n int) int { return int(rng.Uint64() % uint64(n)) }
