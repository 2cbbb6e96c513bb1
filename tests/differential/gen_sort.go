package differential

// sortTemplates makes values to sort. They have few kinds of elements, so that some are equal and the keys of patterns
// often exist.
var sortTemplates = []template{
	{3, "rpush", []arg{key, times(1, 12, sortable)}},
	{3, "sadd", []arg{key, times(1, 12, sortable)}},
	{3, "zadd", []arg{key, times(1, 12, integer, sortable)}},
	{2, "set", []arg{key, sortable}},
	{2, "hset", []arg{key, exactly("f"), sortable}},
	{8, "sort", []arg{key, sortOptions}},
	{4, "sort", []arg{key, sortOptions, lit("STORE"), key}},
	{4, "sort_ro", []arg{key, sortOptions}},
}

// sortable adds an element: mostly a small number, from which "k*" makes a key.
func sortable(g *generator) {
	switch n := g.rng.IntN(20); {
	case n < 13:
		g.add(g.between(0, 12))
	case n < 16:
		g.add(pick(g, []string{"-1", "1.5", "0x10", "1e1", "007", "+3", "-0", ".5", "inf", "-inf", "9223372036854775807",
			"9223372036854775808"}))
	case n < 18:
		short(g)
	default:
		value(g)
	}
}

var sortOptions = shuffled(
	lit("ALPHA"), lit("ALPHA"), lit("ASC"), lit("DESC"), lit("DESC"), seq(lit("LIMIT"), index, index),
	seq(lit("BY"), anyOf("nosort", "k*", "k*", "k*->f", "*")),
	seq(lit("GET"), anyOf("#", "k*", "k*->f", "nostar", "k*->")),
)
