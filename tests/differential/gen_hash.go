package differential

import (
	"slices"
	"strconv"

	"spindle/protocol/respclient"
)

var (
	hashField  = oneOf(short, short, short, integer, value)
	hashFields = times(1, 4, hashField)
	// fieldsOf is FIELDS with the count and the fields. The count is mostly right.
	fieldsOf = oneOf(
		seq(lit("FIELDS"), exactly("1"), hashField), seq(lit("FIELDS"), exactly("2"), hashField, hashField),
		seq(lit("FIELDS"), exactly("3"), times(3, 3, hashField)),
		seq(lit("FIELDS"), exactly("3"), times(3, 3, short)), seq(lit("FIELDS"), integer, hashFields), hashFields,
	)
	fieldExpiry = oneOf(
		seq(lit("EX"), ttlSeconds), seq(lit("PX"), ttlMs), seq(lit("EXAT"), atSeconds), seq(lit("PXAT"), atMs),
	)
	fieldPairs = oneOf(
		seq(lit("FIELDS"), exactly("1"), hashField, value), seq(lit("FIELDS"), exactly("2"), times(2, 2, hashField, value)),
		seq(lit("FIELDS"), integer, times(1, 3, hashField, value)),
	)
	fieldCondition = maybe(40, oneOf(lit("NX"), lit("XX"), lit("GT"), lit("LT"), lit("ZZ")))
)

var hashTemplates = []template{
	{20, "hset", []arg{key, times(1, 4, hashField, value)}},
	{6, "hset", []arg{key, times(1, 30, integer, short)}},
	{1, "hset", []arg{key, times(200, 600, integer, integer)}},
	{4, "hmset", []arg{key, times(1, 3, hashField, value)}},
	{6, "hsetnx", []arg{key, hashField, value}},
	{6, "hget", []arg{key, hashField}},
	{4, "hmget", []arg{key, hashFields}},
	{4, "hgetall", []arg{key}},
	{3, "hkeys", []arg{key}},
	{3, "hvals", []arg{key}},
	{3, "hlen", []arg{key}},
	{3, "hstrlen", []arg{key, hashField}},
	{3, "hexists", []arg{key, hashField}},
	{10, "hdel", []arg{key, hashFields}},
	{1, "hdel", []arg{key, times(20, 60, integer)}},
	{8, "hincrby", []arg{key, hashField, integer}},
	{8, "hincrbyfloat", []arg{key, hashField, float}},
	{4, "hrandfield", []arg{key, maybe(80, integer, maybe(50, lit("WITHVALUES")))}},
	{4, "hscan", []arg{key, oneOf(exactly("0"), integer),
		shuffled(seq(lit("MATCH"), pattern), seq(lit("COUNT"), integer), lit("NOVALUES"))}},
	{3, "hscan", []arg{key, exactly("0"), lit("COUNT"), exactly("100000")}},
	{6, "hexpire", []arg{key, ttlSeconds, fieldCondition, fieldsOf}},
	{6, "hpexpire", []arg{key, ttlMs, fieldCondition, fieldsOf}},
	{6, "hexpireat", []arg{key, atSeconds, fieldCondition, fieldsOf}},
	{6, "hpexpireat", []arg{key, atMs, fieldCondition, fieldsOf}},
	{4, "httl", []arg{key, fieldsOf}},
	{3, "hpttl", []arg{key, fieldsOf}},
	{3, "hexpiretime", []arg{key, fieldsOf}},
	{3, "hpexpiretime", []arg{key, fieldsOf}},
	{4, "hpersist", []arg{key, fieldsOf}},
	{2, "object|encoding", []arg{key}},
	{4, "hgetdel", []arg{only("8 valkey", key, fieldsOf)}},
	{6, "hgetex", []arg{only("8 valkey", key, maybe(70, oneOf(fieldExpiry, lit("PERSIST"))), fieldsOf)}},
	{8, "hsetex", []arg{
		only("8", key, shuffled(fieldExpiry, lit("KEEPTTL"), lit("FNX"), lit("FXX")), fieldPairs),
		only("valkey", key, maybe(25, anyOf("NX", "XX")), maybe(40, anyOf("FNX", "FXX")),
			maybe(60, oneOf(fieldExpiry, fieldExpiry, lit("KEEPTTL"))), fieldPairs),
	}},
}

// tameDraw limits the size of the replies of HRANDFIELD and similar commands.
func (g *generator) tameDraw() {
	if len(g.args) > 2 {
		if n, err := strconv.ParseInt(g.args[2], 10, 64); err == nil && n < -1000 {
			g.args[2] = "-1000"
		}
	}
}

// timesWithin is within for arrays.
func timesWithin(most int64) func([]string, respclient.Value, respclient.Value) bool {
	return func(args []string, want, got respclient.Value) bool {
		return slices.EqualFunc(want.Elems, got.Elems, func(a, b respclient.Value) bool {
			return a.Kind == b.Kind && (equal(a, b) || within(most)(args, a, b))
		})
	}
}
