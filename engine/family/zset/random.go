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
	rng := c.Space.Rand()
	switch {
	case len(c.Args) == 2 && !v.Exists():
		c.Reply.Null()
		return nil
	case len(c.Args) == 2:
		member, _ := zset.Random(v, rng)
		answer(c.Reply, member)
		return nil
	case !v.Exists() || wanted == 0:
		c.Reply.Array(0)
		return nil
	}
	size := zset.Len(v)
	switch n := int(wanted); {
	case n < 0:
		head(c.Reply, -n, withScores)
		for ; n < 0 && !c.Reply.Full(); n++ {
			member, x := zset.Random(v, rng)
			answerPair(c.Reply, member, x, withScores)
		}
	case n > size/manyToOne:
		n = min(n, size)
		head(c.Reply, n, withScores)
		answerSome(c, v, n, rng, withScores)
	default:
		head(c.Reply, n, withScores)
		answerFew(c, v, n, rng, withScores)
	}
	return nil
}

// manyToOne is the ratio of all members to wanted members above which drawing ranks costs less than a walk.
const manyToOne = 16

// answerSome walks the set and replies n random members. Each choice of n members has the same probability.
func answerSome(c *command.Context, v value.Value, n int, rng *rand.PCG, withScores bool) {
	left := zset.Len(v)
	zset.Each(v, 0, left, false, func(member listpack.Element, x float64) bool {
		if below(rng, left) < n {
			answerPair(c.Reply, member, x, withScores)
			n--
		}
		left--
		return n > 0
	})
}

// answerFew draws n different ranks and replies their members.
func answerFew(c *command.Context, v value.Value, n int, rng *rand.PCG, withScores bool) {
	size := zset.Len(v)
	drawn := make(map[int]struct{}, n)
	for len(drawn) < n {
		at := below(rng, size)
		if _, again := drawn[at]; again {
			continue
		}
		drawn[at] = struct{}{}
		var i zset.Iter
		i.At(v, at)
		answerPair(c.Reply, i.Member(), i.Score(), withScores)
	}
}

// below returns a random number in [0, n).
func below(rng *rand.PCG, n int) int { return int(rng.Uint64() % uint64(n)) }
