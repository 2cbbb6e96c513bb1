package differential

// typesTemplates put values of the other types under the keys that everybody uses, so that each command meets wrong
// types; the types' own families hold their commands against the reference.
var typesTemplates = []template{
	{3, "rpush", []arg{key, times(1, 4, value)}},
	{3, "sadd", []arg{key, times(1, 4, value)}},
	{2, "sadd", []arg{key, times(1, 4, integer)}},
	{3, "hset", []arg{key, times(1, 3, short, value)}},
	{3, "zadd", []arg{key, times(1, 3, integer, short)}},
	{2, "xadd", []arg{key, oneOf(exactly("1-1"), exactly("2-2"), exactly("3-0")), short, value}},
}
