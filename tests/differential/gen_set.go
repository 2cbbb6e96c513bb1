package differential

import "strconv"

var (
	setMember  = oneOf(short, short, integer, value)
	setMembers = times(1, 5, setMember)
	setKeys    = times(1, 4, key)
)

// everything is a count that no set reaches: SPOP of fewer would part the states.
const everything = "1000000"

var setTemplates = []template{
	{20, "sadd", []arg{key, setMembers}},
	{8, "sadd", []arg{key, times(1, 4, integer)}},
	{2, "sadd", []arg{key, times(60, 200, oneOf(integer, integer, short))}},
	{1, "sadd", []arg{key, times(100, 600, integer)}},
	{12, "srem", []arg{key, setMembers}},
	{2, "srem", []arg{key, times(30, 60, integer)}},
	{4, "scard", []arg{key}},
	{6, "sismember", []arg{key, setMember}},
	{4, "smismember", []arg{key, setMembers}},
	{8, "smembers", []arg{key}},
	{8, "smove", []arg{key, key, setMember}},
	{6, "spop", []arg{key, oneOf(exactly(everything), exactly("0"), exactly(everything), integer)}},
	{4, "srandmember", []arg{key, maybe(80, integer)}},
	{6, "sinter", []arg{setKeys}},
	{6, "sinterstore", []arg{key, setKeys}},
	{6, "sintercard", []arg{oneOf(exactly("1"), exactly("2"), exactly("3"), integer), times(1, 3, key), maybe(40, lit("LIMIT"), integer)}},
	{6, "sunion", []arg{setKeys}},
	{6, "sunionstore", []arg{key, setKeys}},
	{6, "sdiff", []arg{setKeys}},
	{6, "sdiffstore", []arg{key, setKeys}},
	{4, "sscan", []arg{key, oneOf(exactly("0"), integer), shuffled(seq(lit("MATCH"), pattern), seq(lit("COUNT"), integer), lit("NOVALUES"))}},
	{4, "sscan", []arg{key, exactly("0"), lit("COUNT"), exactly("100000")}},
	{2, "object|encoding", []arg{key}},
}

// tame makes a call that draws at random one that leaves the same behind on both servers, or that answers no more than they can carry.
func (g *generator) tame(name string) {
	if name == "spop" && len(g.args) == 2 {
		g.add(everything)
	}
	if len(g.args) != 3 {
		return
	}
	n, err := strconv.ParseInt(g.args[2], 10, 64)
	switch {
	case err != nil:
	case name == "spop" && n > 0:
		g.args[2] = everything
	case name == "srandmember" && n < -1000:
		g.args[2] = "-1000"
	}
}
