package differential

var txTemplates = []template{
	{10, "multi", nil},
	{24, "exec", nil},
	{3, "discard", nil},
	{6, "watch", []arg{times(1, 3, key)}},
	{3, "unwatch", nil},
}
