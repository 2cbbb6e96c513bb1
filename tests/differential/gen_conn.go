package differential

// connTemplates has calls that leave the connection usable.
var connTemplates = []template{
	{6, "ping", []arg{maybe(50, value)}},
	{4, "echo", []arg{value}},
	{12, "select", []arg{database}},
	{2, "hello", []arg{anyOf("2", "3")}},
	{1, "hello", []arg{oneOf(integer, exactly("1"), exactly("4")), maybe(30, lit("SETNAME"), short)}},
	{1, "time", nil},
	{1, "lastsave", nil},
	{1, "nosuch", []arg{times(0, 3, value)}},
	{1, "client|getname", nil},
	{1, "client|setname", []arg{oneOf(exactly("me"), exactly(""), exactly("a b"), exactly("n\n"))}},
	{1, "client|nosuch", []arg{maybe(50, short)}},
	{1, "command|getkeys", []arg{anyOf("get", "mset", "set", "del", "nosuch", "ping", "object"), times(0, 4, short)}},
}
