package differential

import (
	"strings"
)

var (
	element  = oneOf(short, short, integer, value)
	elements = times(1, 5, element)
	listEnd  = oneOf(anyOf("LEFT", "RIGHT"), anyOf("LEFT", "RIGHT"), anyOf("LEFT", "RIGHT"), anyOf("LEFT", "RIGHT"), short)
	listKeys = oneOf(seq(exactly("1"), key), seq(exactly("2"), key, key), seq(exactly("3"), key, key, key),
		seq(integer, times(1, 3, key)))
	moment = oneOf(exactly(aMoment), exactly(aMoment), exactly(aMoment), float)
)

// aMoment is the timeout of a blocking call. It is short because no client pushes meanwhile.
const aMoment = "0.001"

var listTemplates = []template{
	{20, "rpush", []arg{key, elements}},
	{20, "lpush", []arg{key, elements}},
	{3, "rpush", []arg{key, times(60, 300, oneOf(integer, integer, short))}},
	{2, "lpush", []arg{key, times(60, 300, oneOf(integer, short, value))}},
	{2, "rpush", []arg{key, times(5, 20, oneOf(exactly(strings.Repeat("m", 900)),
		exactly(strings.Repeat("n", 1700)), value))}},
	{2, "lpush", []arg{key, times(5, 20, oneOf(exactly(strings.Repeat("m", 900)),
		exactly(strings.Repeat("n", 1700)), value))}},
	{5, "rpushx", []arg{key, elements}},
	{5, "lpushx", []arg{key, elements}},
	{14, "lpop", []arg{key, maybe(40, oneOf(integer, index))}},
	{14, "rpop", []arg{key, maybe(40, oneOf(integer, index))}},
	{5, "llen", []arg{key}},
	{14, "lrange", []arg{key, index, index}},
	{3, "lrange", []arg{key, exactly("0"), exactly("-1")}},
	{12, "lindex", []arg{key, index}},
	{16, "lset", []arg{key, index, element}},
	{16, "linsert", []arg{key, oneOf(anyOf("BEFORE", "AFTER"), anyOf("BEFORE", "AFTER"), anyOf("BEFORE", "AFTER"), short),
		element, element}},
	{10, "lrem", []arg{key, integer, element}},
	{8, "ltrim", []arg{key, index, index}},
	{10, "lpos", []arg{key, element, shuffled(seq(lit("RANK"), integer), seq(lit("COUNT"), integer),
		seq(lit("MAXLEN"), integer))}},
	{12, "lmove", []arg{key, key, listEnd, listEnd}},
	{6, "rpoplpush", []arg{key, key}},
	{8, "lmpop", []arg{listKeys, listEnd, maybe(50, lit("COUNT"), integer)}},
	{2, "blpop", []arg{times(1, 3, key), moment}},
	{2, "brpop", []arg{times(1, 3, key), moment}},
	{2, "blmove", []arg{key, key, listEnd, listEnd, moment}},
	{2, "brpoplpush", []arg{key, key, moment}},
	{2, "blmpop", []arg{moment, listKeys, listEnd, maybe(50, lit("COUNT"), integer)}},
	{6, "object|encoding", []arg{key}},
	{3, "copy", []arg{key, key, maybe(70, lit("REPLACE"))}},
	{2, "rename", []arg{key, key}},
	{3, "del", []arg{key}},
	{1, "config|set", []arg{lit("list-compress-depth"), anyOf("0", "1", "2", "3")}},
	{1, "config|set", []arg{lit("list-max-listpack-size"), anyOf("-2", "-1", "1", "4", "30")}},
}
