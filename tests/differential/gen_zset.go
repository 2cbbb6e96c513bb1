package differential

import (
	"strconv"
	"strings"
)

var (
	zsetMember = oneOf(short, short, short, integer, value)
	// zsetScore adds a score, mostly one that other members also have.
	zsetScore = oneOf(smallScore, smallScore, smallScore, float,
		oneOf(exactly("inf"), exactly("-inf"), exactly("0.5"), exactly("1e20")))
	scoredMember = seq(zsetScore, zsetMember)
	addFlags     = maybe(50, shuffled(maybe(50, lit("CH")),
		oneOf(lit("NX"), lit("XX"), lit("GT"), lit("LT"), seq(lit("XX"), lit("GT")), seq(lit("NX"), lit("XX")),
			seq(lit("GT"), lit("LT")), lit("ZZ"))))

	scoreBound = oneOf(smallScore, smallScore, openAt(smallScore), exactly("-inf"), exactly("+inf"), exactly("(inf"),
		exactly("(-inf"), float, openAt(float), short)
	lexBound = oneOf(exactly("-"), exactly("+"), closedAt(short), openAt(short), closedAt(integer), openAt(value),
		exactly("["), exactly("("), short)
	zsetLimit  = maybe(35, lit("LIMIT"), index, index)
	withScores = maybe(50, oneOf(lit("WITHSCORES"), lit("WITHSCORES"), lit("WITHSCORES"), lit("WITHSCORE")))

	// rangeBy adds a range of ZRANGE and ZRANGESTORE with its options. A few options do not fit the bounds.
	rangeBy = oneOf(
		seq(index, index, maybe(40, lit("REV"))),
		seq(scoreBound, scoreBound, lit("BYSCORE"), maybe(40, lit("REV")), zsetLimit),
		seq(oneOf(index, scoreBound, lexBound), oneOf(index, scoreBound, lexBound),
			shuffled(lit("BYSCORE"), lit("BYLEX"), lit("REV"), seq(lit("LIMIT"), integer, integer))),
	)
	byLex = seq(lexBound, lexBound, lit("BYLEX"), maybe(40, lit("REV")), zsetLimit)
	// combined adds a count, keys, and how scores are combined.
	combined = seq(oneOf(seq(exactly("1"), key), seq(exactly("2"), key, key), seq(exactly("2"), key, key),
		seq(exactly("3"), key, key, key), seq(integer, times(1, 3, key))),
		maybe(30, oneOf(seq(lit("WEIGHTS"), smallScore, smallScore), seq(lit("WEIGHTS"), times(1, 3, zsetScore)))),
		maybe(40, lit("AGGREGATE"), oneOf(lit("SUM"), lit("MIN"), lit("MAX"), lit("MAX"), short)))
	severalKeys = oneOf(seq(exactly("1"), key), seq(exactly("2"), key, key), seq(exactly("3"), key, key, key),
		seq(integer, times(1, 3, key)))
	lowOrHigh = oneOf(lit("MIN"), lit("MAX"), lit("MIN"), lit("MAX"), lit("MIN"), short)
)

func smallScore(g *generator) { g.add(strconv.FormatFloat(float64(g.rng.IntN(25)-8)/2, 'g', -1, 64)) }

// openAt adds a bound that is outside its range, and closedAt adds one that is inside.
func openAt(a arg) arg   { return marked("(", a) }
func closedAt(a arg) arg { return marked("[", a) }

func marked(mark string, a arg) arg {
	return func(g *generator) {
		a(g)
		g.args[len(g.args)-1] = mark + g.args[len(g.args)-1]
	}
}

// lexKey adds a sorted set whose scores are all 0. In other sets, a range by text depends on the random levels of
// Redis's skip list.
func lexKey(g *generator) { g.add(pick(g, []string{"lex0", "lex1", "lex2"})) }

// tameLex keeps ranges by text apart from calls that make scores differ.
func (g *generator) tameLex(name string) {
	byText := strings.HasSuffix(name, "lex") || name == "zlexcount" || containsFold(g.args, "BYLEX")
	lex := func(s string) bool { return strings.HasPrefix(s, "lex") }
	switch {
	case byText:
		for i := 1; i < len(g.args) && (i == 1 || name == "zrangestore" && i == 2); i++ {
			if !lex(g.args[i]) {
				lexKey(g)
				g.args[i], g.args = g.args[len(g.args)-1], g.args[:len(g.args)-1]
			}
		}
	case len(g.args) > 1 && lex(g.args[1]) && name == "zadd":
		for i := 2; i+1 < len(g.args); i += 2 {
			g.args[i] = "0"
		}
	case len(g.args) > 1 && lex(g.args[1]) && name != "zrem" && name != "zpopmax" && name != "del":
		g.args[1] = "k0"
	}
}

var zsetTemplates = []template{
	{24, "zadd", []arg{key, addFlags, times(1, 4, scoredMember)}},
	{8, "zadd", []arg{key, times(1, 8, exactly("0"), short)}},
	{2, "zadd", []arg{key, times(50, 150, smallScore, integer)}},
	{1, "zadd", []arg{key, times(100, 400, exactly("0"), integer)}},
	{5, "zadd", []arg{key, addFlags, lit("INCR"), scoredMember}},
	{12, "zincrby", []arg{key, zsetScore, zsetMember}},
	{12, "zrem", []arg{key, times(1, 4, zsetMember)}},
	{2, "zrem", []arg{key, times(20, 60, integer)}},
	{3, "zcard", []arg{key}},
	{5, "zcount", []arg{key, scoreBound, scoreBound}},
	{8, "zadd", []arg{lexKey, times(1, 6, exactly("0"), zsetMember)}},
	{1, "zadd", []arg{lexKey, times(30, 150, exactly("0"), integer)}},
	{4, "zrem", []arg{lexKey, times(1, 4, zsetMember)}},
	{2, "zpopmax", []arg{lexKey, maybe(40, integer)}},
	{6, "zlexcount", []arg{lexKey, lexBound, lexBound}},
	{10, "zrange", []arg{lexKey, byLex, withScores}},
	{5, "zrangestore", []arg{lexKey, lexKey, byLex}},
	{2, "del", []arg{lexKey}},
	{5, "zscore", []arg{key, zsetMember}},
	{4, "zmscore", []arg{key, times(1, 4, zsetMember)}},
	{6, "zrank", []arg{key, zsetMember, maybe(30, lit("WITHSCORE"))}},
	{6, "zrevrank", []arg{key, zsetMember, maybe(30, lit("WITHSCORE"))}},
	{16, "zrange", []arg{key, rangeBy, withScores}},
	{4, "zrange", []arg{key, exactly("0"), exactly("-1"), lit("WITHSCORES")}},
	{5, "zrevrange", []arg{key, index, index, withScores}},
	{6, "zrangebyscore", []arg{key, scoreBound, scoreBound, shuffled(withScores, zsetLimit)}},
	{6, "zrevrangebyscore", []arg{key, scoreBound, scoreBound, shuffled(withScores, zsetLimit)}},
	{6, "zrangebylex", []arg{lexKey, lexBound, lexBound, zsetLimit}},
	{6, "zrevrangebylex", []arg{lexKey, lexBound, lexBound, zsetLimit}},
	{8, "zrangestore", []arg{key, key, rangeBy}},
	{4, "zremrangebyrank", []arg{key, index, index}},
	{4, "zremrangebyscore", []arg{key, scoreBound, scoreBound}},
	{4, "zremrangebylex", []arg{lexKey, lexBound, lexBound}},
	{8, "zpopmin", []arg{key, maybe(40, integer)}},
	{8, "zpopmax", []arg{key, maybe(40, integer)}},
	{6, "zmpop", []arg{severalKeys, lowOrHigh, maybe(50, lit("COUNT"), integer)}},
	{2, "bzpopmin", []arg{times(1, 3, key), moment}},
	{2, "bzpopmax", []arg{times(1, 3, key), moment}},
	{2, "bzmpop", []arg{moment, severalKeys, lowOrHigh, maybe(50, lit("COUNT"), integer)}},
	{5, "zunion", []arg{combined, withScores}},
	{5, "zinter", []arg{combined, withScores}},
	{5, "zdiff", []arg{severalKeys, withScores}},
	{6, "zunionstore", []arg{key, combined}},
	{6, "zinterstore", []arg{key, combined}},
	{6, "zdiffstore", []arg{key, severalKeys}},
	{4, "zintercard", []arg{severalKeys, maybe(40, lit("LIMIT"), integer)}},
	{4, "zrandmember", []arg{key, maybe(80, integer, maybe(50, lit("WITHSCORES")))}},
	{4, "zscan", []arg{key, oneOf(exactly("0"), integer),
		shuffled(seq(lit("MATCH"), pattern), seq(lit("COUNT"), integer), lit("NOVALUES"))}},
	{3, "zscan", []arg{key, exactly("0"), lit("COUNT"), exactly("100000")}},
	{3, "sadd", []arg{key, times(1, 6, oneOf(short, integer))}},
	{6, "object|encoding", []arg{key}},
	{3, "copy", []arg{key, key, maybe(70, lit("REPLACE"))}},
	{2, "rename", []arg{key, key}},
	{5, "del", []arg{key}},
}
