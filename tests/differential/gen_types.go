package differential

// typesTemplates write values of other types to common keys, so that each command meets wrong types. The families of
// these types compare their commands.
var typesTemplates = []template{
	{3, "rpush", []arg{key, times(1, 4, value)}},
	{3, "sadd", []arg{key, times(1, 4, value)}},
	{2, "sadd", []arg{key, times(1, 4, integer)}},
	{3, "hset", []arg{key, times(1, 3, short, value)}},
	{3, "zadd", []arg{key, times(1, 3, integer, short)}},
	{2, "xadd", []arg{key, oneOf(exactly("1-1"), exactly("2-2"), exactly("3-0")), short, value}},
}
