package command

import "strings"

// Help replies to a container's HELP: a head line, the lines, and two lines about HELP itself. Lines of explanation are
// indented.
func Help(c *Context, lines ...string) {
	name := c.Args[0]
	c.Reply.Array(len(lines) + 3)
	c.Reply.Simple(strings.ToUpper(string(name)) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for _, l := range lines {
		c.Reply.Simple(l)
	}
	c.Reply.Simple("HELP")
	c.Reply.Simple("    Print this help.")
}
