package differential

// expiry adds an option for a deadline, valid or not.
var expiry = oneOf(seq(lit("EX"), ttlSeconds), seq(lit("PX"), ttlMs), seq(lit("EXAT"), atSeconds),
	seq(lit("PXAT"), atMs))

var stringTemplates = []template{
	{30, "set", []arg{key, value}},
	{30, "set", []arg{key, value, shuffled(expiry, expiry, lit("NX"), lit("XX"), lit("GET"), lit("KEEPTTL"))}},
	{25, "get", []arg{key}},
	{8, "getdel", []arg{key}},
	{12, "getex", []arg{key, shuffled(expiry, lit("PERSIST"))}},
	{10, "getset", []arg{key, value}},
	{8, "setnx", []arg{key, value}},
	{6, "setex", []arg{key, ttlSeconds, value}},
	{6, "psetex", []arg{key, ttlMs, value}},
	{12, "append", []arg{key, value}},
	{8, "strlen", []arg{key}},
	{12, "setrange", []arg{key, index, value}},
	{12, "getrange", []arg{key, index, index}},
	{4, "substr", []arg{key, index, index}},
	{10, "incr", []arg{key}},
	{8, "decr", []arg{key}},
	{10, "incrby", []arg{key, integer}},
	{8, "decrby", []arg{key, integer}},
	{20, "incrbyfloat", []arg{key, float}},
	{8, "set", []arg{key, float}}, // so that INCRBYFLOAT finds numbers
	{8, "set", []arg{key, integer}},
	{8, "mget", []arg{times(1, 5, key)}},
	{6, "mset", []arg{times(1, 4, key, value)}},
	{10, "set", []arg{key, value, only("valkey", shuffled(seq(lit("IFEQ"), value), expiry, lit("GET"), lit("KEEPTTL")))}},
	{6, "delifeq", []arg{key, value}},
	{6, "msetex", []arg{
		oneOf(seq(exactly("1"), key, value), seq(exactly("2"), times(2, 2, key, value)), seq(integer, key, value)),
		shuffled(expiry, lit("NX"), lit("XX"), lit("KEEPTTL")),
	}},
	{5, "msetnx", []arg{times(1, 3, key, value)}},
	{8, "lcs", []arg{key, key, shuffled(lit("LEN"), lit("IDX"), lit("WITHMATCHLEN"), seq(lit("MINMATCHLEN"), integer))}},
	{3, "lcs", []arg{key, key, lit("IDX"), maybe(50, lit("MINMATCHLEN"), integer), maybe(50, lit("WITHMATCHLEN"))}},
}
