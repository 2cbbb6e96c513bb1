package differential

var hllTemplates = []template{
	{10, "pfadd", []arg{key, times(0, 6, value)}},
	{6, "pfadd", []arg{key, times(1, 40, integer)}},
	{8, "pfcount", []arg{times(1, 4, key)}},
	{5, "pfmerge", []arg{key, times(0, 4, key)}},
}
