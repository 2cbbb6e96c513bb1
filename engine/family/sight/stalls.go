package sight

import (
	"spindle/engine/command"
	"spindle/internal/number"
)

// stallsGet is STALLS GET [count]. Replies: the newest stalls first, 10 by default, all for -1. Each is a map: id, time
// of the end in Unix ms, usec, cpu-usec (an upper bound), kind, what, key, addr, name.
func (f *family) stallsGet(c *command.Context) error {
	count := int64(10)
	if len(c.Args) > 3 {
		return command.ErrSubcommandSyntax(c.Args[0], c.Args[1])
	}
	if len(c.Args) == 3 {
		n, ok := number.ParseInt(c.Args[2])
		if !ok || n < -1 {
			return errStallCount
		}
		count = min(n, 1<<30)
	}
	r := c.Reply
	list := f.Stalls().List(int(count))
	r.Array(len(list))
	for i := range list {
		e := &list[i]
		r.Map(9)
		whole := func(name string, v int64) { r.BulkString(name); r.Int(v) }
		text := func(name, v string) { r.BulkString(name); r.BulkString(v) }
		whole("id", e.ID)
		whole("time", e.AtMs)
		whole("usec", e.Took.Microseconds())
		whole("cpu-usec", e.CPU.Microseconds())
		text("kind", e.Kind.String())
		text("what", e.What)
		text("key", e.Key)
		text("addr", e.Addr)
		text("name", e.Name)
	}
	return nil
}

func (f *family) stallsLen(c *command.Context) error {
	c.Reply.Int(int64(f.Stalls().Len()))
	return nil
}

func (f *family) stallsReset(c *command.Context) error {
	f.Stalls().Reset()
	c.Reply.OK()
	return nil
}

func stallsHelp(c *command.Context) error {
	command.Help(c,
		"GET [<count>]",
		"    The newest <count> times (default: 10, -1 for all) that everybody waited for",
		"    longer than stall-threshold. <kind> is what for: a command, a script, a duty,",
		"    the machine, which gave the process no processor, or another part of the server.",
		"LEN",
		"    The number of entries.",
		"RESET",
		"    Forget the entries.",
	)
	return nil
}
