package differential

var (
	setMember  = oneOf(short, short, integer, value)
	setMembers = times(1, 5, setMember)
	setKeys    = times(1, 4, key)
)

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
	{6, "spop", []arg{key, maybe(60, oneOf(integer, integer, exactly("1000000")))}},
	{4, "srandmember", []arg{key, maybe(80, integer)}},
	{6, "sinter", []arg{setKeys}},
	{6, "sinterstore", []arg{key, setKeys}},
	{6, "sintercard", []arg{oneOf(exactly("1"), exactly("2"), exactly("3"), integer), times(1, 3, key),
		maybe(40, lit("LIMIT"), integer)}},
	{6, "sunion", []arg{setKeys}},
	{6, "sunionstore", []arg{key, setKeys}},
	{6, "sdiff", []arg{setKeys}},
	{6, "sdiffstore", []arg{key, setKeys}},
	{4, "sscan", []arg{key, oneOf(exactly("0"), integer),
		shuffled(seq(lit("MATCH"), pattern), seq(lit("COUNT"), integer), lit("NOVALUES"))}},
	{4, "sscan", []arg{key, exactly("0"), lit("COUNT"), exactly("100000")}},
	{2, "object|encoding", []arg{key}},
}
