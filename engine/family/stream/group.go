package stream

import (
	"spindle/engine/command"
	"spindle/engine/data/value"
	streams "spindle/engine/data/value/stream"
)

// groupOptions reads the options after the ID of XGROUP CREATE and SETID.
func groupOptions(c *command.Context, creating bool) (mkStream bool, read int64, err error) {
	read = streams.ReadUnknown
	for i := 5; i < len(c.Args); i++ {
		switch {
		case creating && command.Is(c.Args[i], "MKSTREAM"):
			mkStream = true
		case i+1 < len(c.Args) && command.Is(c.Args[i], "ENTRIESREAD"):
			i++
			if read, err = command.Int(c.Args[i]); err != nil {
				return mkStream, read, err
			}
			if read < 0 && read != streams.ReadUnknown {
				return mkStream, read, errEntriesRead
			}
		default:
			return mkStream, read, command.ErrSubcommandSyntax(c.Args[0], c.Args[1])
		}
	}
	return mkStream, read, nil
}

// mustEdit is edit for a key that must exist.
//
// Errors: errMustExist, ErrWrongType.
func mustEdit(c *command.Context) (*value.Edit, error) {
	e, err := edit(c, c.Args[2])
	if err == nil && e == nil {
		err = errMustExist
	}
	return e, err
}

// editGroup finds the stream and the group that a subcommand names.
//
// Errors: those of mustEdit; NOGROUP.
func editGroup(c *command.Context) (w streams.Writer, g *streams.Group, err error) {
	e, err := mustEdit(c)
	if err != nil {
		return w, nil, err
	}
	w = streams.Edit(e)
	if g = w.Group(c.Args[3]); g == nil {
		return w, nil, errNoSuchGroup(c.Args[3], c.Args[2])
	}
	return w, g, nil
}

// groupCreate is XGROUP CREATE key group id|$ [MKSTREAM] [ENTRIESREAD count].
//
// Replies: OK. Errors: those of the options, errMustExist, ErrWrongType, errID, errBusyGroup. Propagates as written.
func groupCreate(c *command.Context) error {
	mkStream, read, err := groupOptions(c, true)
	if err != nil {
		return err
	}
	key := c.Args[2]
	e, err := edit(c, key)
	switch {
	case err != nil:
		return err
	case e == nil && !mkStream:
		return errMustExist
	case len(c.Args) > 8:
		return command.ErrSubcommandSyntax(c.Args[0], c.Args[1])
	}
	var id streams.ID
	if !is(c.Args[4], "$") {
		if id, err = parseID(c.Args[4], 0); err != nil {
			return err
		}
	} else if e != nil {
		id = streams.Of(e.Value()).LastID()
	}
	if e == nil {
		e = create(c, key)
		c.DB.Touched(key)
	}
	w := streams.Edit(e)
	if w.CreateGroup(c.Args[3], id, read) == nil {
		return errBusyGroup
	}
	c.Reply.OK()
	c.Changed(1)
	c.Notify(command.EventStream, "xgroup-create", key)
	return nil
}

// groupSetID is XGROUP SETID key group id|$ [ENTRIESREAD count].
//
// Replies: OK. Errors: those of the options, errMustExist, ErrWrongType, NOGROUP, errID. Propagates as written.
func groupSetID(c *command.Context) error {
	_, read, err := groupOptions(c, false)
	if err != nil {
		return err
	}
	w, g, err := editGroup(c)
	switch {
	case err != nil:
		return err
	case len(c.Args) != 5 && len(c.Args) != 7:
		return command.ErrSubcommandSyntax(c.Args[0], c.Args[1])
	}
	id := w.LastID()
	if !is(c.Args[4], "$") {
		if id, err = parseEdge(c.Args[4], 0); err != nil {
			return err
		}
	}
	w.SetGroup(g, id, read)
	c.Reply.OK()
	c.Changed(1)
	c.Notify(command.EventStream, "xgroup-setid", c.Args[2])
	return nil
}

// groupDestroy is XGROUP DESTROY key group. Replies: 1, or 0 for a missing group. Errors: errMustExist, ErrWrongType.
// Propagates as written.
func groupDestroy(c *command.Context) error {
	e, err := mustEdit(c)
	if err != nil {
		return err
	}
	w := streams.Edit(e)
	if !w.DestroyGroup(c.Args[3]) {
		c.Reply.Int(0)
		return nil
	}
	c.Reply.Int(1)
	c.Changed(1)
	c.Notify(command.EventStream, "xgroup-destroy", c.Args[2])
	c.DB.Signal(c.Args[2]) // so that clients that wait for the group get an error
	return nil
}

// groupCreateConsumer is XGROUP CREATECONSUMER key group consumer. Replies: 1, or 0 if the consumer exists.
// Errors: errMustExist, ErrWrongType, NOGROUP. Propagates as written.
func groupCreateConsumer(c *command.Context) error {
	w, g, err := editGroup(c)
	if err != nil {
		return err
	}
	if g.Consumer(c.Args[4]) != nil {
		c.Reply.Int(0)
		return nil
	}
	w.CreateConsumer(g, c.Args[4], c.Now)
	c.Changed(1)
	c.Notify(command.EventStream, "xgroup-createconsumer", c.Args[2])
	c.Reply.Int(1)
	return nil
}

// groupDelConsumer is XGROUP DELCONSUMER key group consumer. Replies: the number of its pending entries.
// Errors: errMustExist, ErrWrongType, NOGROUP. Propagates as written.
func groupDelConsumer(c *command.Context) error {
	w, g, err := editGroup(c)
	if err != nil {
		return err
	}
	n, ok := w.DeleteConsumer(g, c.Args[4])
	if ok {
		c.Changed(1)
		c.Notify(command.EventStream, "xgroup-delconsumer", c.Args[2])
	}
	c.Reply.Int(int64(n))
	return nil
}

func groupHelp(c *command.Context) error {
	command.Help(c,
		"CREATE <key> <groupname> <id|$> [option]",
		"    Create a new consumer group. Options are:",
		"    * MKSTREAM",
		"      Create the empty stream if it does not exist.",
		"    * ENTRIESREAD entries_read",
		"      Set the group's entries_read counter (internal use).",
		"CREATECONSUMER <key> <groupname> <consumer>",
		"    Create a new consumer in the specified group.",
		"DELCONSUMER <key> <groupname> <consumer>",
		"    Remove the specified consumer.",
		"DESTROY <key> <groupname>",
		"    Remove the specified group.",
		"SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
		"    Set the current group ID and entries_read counter.",
	)
	return nil
}
