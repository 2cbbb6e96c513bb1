package introspect

import (
	"spindle/engine/command"
	"spindle/internal/glob"
	"spindle/protocol"
)

var (
	errKeysInvalid = command.ErrInvalidKeyArguments
)

// all is COMMAND. Replies: every row, in the form of COMMAND INFO.
func (f *family) all(c *command.Context) error {
	k := f.Catalogue()
	c.Reply.Array(k.Len())
	for row := range k.Rows {
		command.AppendCommandInfo(c.Reply, row)
	}
	return nil
}

func (f *family) count(c *command.Context) error {
	c.Reply.Int(int64(f.Catalogue().Len()))
	return nil
}

// info is COMMAND INFO [name …]. Replies: an array of rows, null for an unknown name. "client|list" names a subcommand.
func (f *family) info(c *command.Context) error {
	if len(c.Args) == 2 {
		return f.all(c)
	}
	c.Reply.Array(len(c.Args) - 2)
	for _, name := range c.Args[2:] {
		if row := f.Catalogue().ByFullName(name); row != nil {
			command.AppendCommandInfo(c.Reply, row)
		} else {
			c.Reply.Null()
		}
	}
	return nil
}

// list is COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]. Replies: names, including
// subcommands.
func (f *family) list(c *command.Context) error {
	keep := func(*command.Spec) bool { return true }
	switch args := c.Args[2:]; {
	case len(args) == 0:
	case len(args) != 3 || !command.Is(args[0], "FILTERBY"):
		return protocol.ErrSyntax
	case command.Is(args[1], "MODULE"):
		keep = func(s *command.Spec) bool { return s.Flags&command.Module != 0 && s.Family == string(args[2]) }
	case command.Is(args[1], "ACLCAT"):
		category, _ := command.Category(args[2])
		keep = func(s *command.Spec) bool { return s.ACL&category != 0 }
	case command.Is(args[1], "PATTERN"):
		keep = func(s *command.Spec) bool { return glob.MatchFold(args[2], []byte(s.Full)) }
	default:
		return protocol.ErrSyntax
	}
	mark, n := c.Reply.Mark(), 0
	add := func(s *command.Spec) {
		if keep(s) {
			c.Reply.BulkString(s.Full)
			n++
		}
	}
	for row := range f.Catalogue().Rows {
		add(row)
		for i := range row.Subs {
			add(&row.Subs[i])
		}
	}
	c.Reply.ArrayAt(mark, n)
	return nil
}

// keysOf returns the keys of the call in args. A call without keys is an error, unless the command allows it.
func (f *family) keysOf(args [][]byte) ([]command.KeyPosition, error) {
	row := f.Catalogue().Find(args)
	switch {
	case row == nil:
		return nil, errNoCommand
	case !row.HasKeys(0):
		return nil, errNoKeys
	case !row.AcceptsArity(len(args)):
		return nil, errKeysArity
	}
	keys, err := row.AppendKeys(nil, args, 0)
	switch {
	case err == nil && len(keys) > 0:
		return keys, nil
	case row.Flags&command.NoMandatoryKeys != 0:
		return nil, nil
	}
	return nil, errKeysInvalid
}

func (f *family) getKeys(c *command.Context) error {
	keys, err := f.keysOf(c.Args[2:])
	if err != nil {
		return err
	}
	c.Reply.Array(len(keys))
	for _, k := range keys {
		c.Reply.Bulk(c.Args[2+k.Index])
	}
	return nil
}

func (f *family) getKeysAndFlags(c *command.Context) error {
	keys, err := f.keysOf(c.Args[2:])
	if err != nil {
		return err
	}
	c.Reply.Array(len(keys))
	for _, k := range keys {
		c.Reply.Array(2)
		c.Reply.Bulk(c.Args[2+k.Index])
		command.AppendKeyFlags(c.Reply, k.Flags)
	}
	return nil
}

func commandHelp(c *command.Context) error {
	command.Help(c,
		"(no subcommand)",
		"    The rows of all commands.",
		"COUNT",
		"    The number of commands.",
		"DOCS [<command-name> ...]",
		"    What these commands, or all, do, and which arguments they take.",
		"GETKEYS <full-command>",
		"    The keys among the arguments of a call.",
		"GETKEYSANDFLAGS <full-command>",
		"    The same, and what the call does with each key.",
		"INFO [<command-name> ...]",
		"    The rows of these commands, or of all.",
		"LIST [FILTERBY (MODULE <module-name>|ACLCAT <category>|PATTERN <pattern>)]",
		"    The names of all commands, or of those the filter leaves.",
	)
	return nil
}
