package engine

import (
	"strconv"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// A ReplayError reports a command that this server cannot run. It may have fewer databases than the server that wrote
// the log. Otherwise no server writes such a command: the log is damaged, or another program wrote it.
type ReplayError struct {
	Name     string
	Unknown  bool // there is no such command or subcommand; else it has too many or too few arguments
	Database int  // the database that it names and that this server lacks; 0: that is not the reason
}

func (e *ReplayError) Error() string {
	switch {
	case e.Unknown:
		return "unknown command " + strconv.Quote(e.Name)
	case e.Database > 0:
		return "command " + strconv.Quote(e.Name) + " names database " + strconv.Itoa(e.Database)
	}
	return "command " + strconv.Quote(e.Name) + " has a wrong number of arguments"
}

// NewReplayer returns a client for running the commands of a log. It has no connection and all rights, and its commands
// are obeyed like a primary's.
func NewReplayer() *client.Client {
	return &client.Client{
		Flags: client.Fake | client.DenyBlocking | client.Primary, Protocol: 2, Authenticated: true, Out: &protocol.Reply{},
	}
}

// Replay runs one command of a log as cl, which NewReplayer has made. No limit and no barrier applies to it, no sink
// gets its effects, and its reply is dropped. A command that failed when it was logged fails again. Turn only, while
// keys past their deadline count as valid.
//
// passed means that the command was skipped, because it changes neither data nor scripts (gateLog).
//
// Lifetime: args are lent until Replay returns.
// Errors: a *ReplayError. Then nothing was run.
func (c *Core) Replay(cl *client.Client, args [][]byte) (passed bool, err error) {
	spec, err := c.rowOfLog(args)
	if err != nil {
		return false, err
	}
	if db := c.missing(spec, args); db > 0 {
		return false, &ReplayError{Name: string(args[0]), Database: db}
	}
	if v, _ := c.admit(fromLog, cl, plainCall(spec, args)); v == skip {
		if spec.Has(command.ResetsDB) {
			cl.DB = 0
		}
		return true, nil
	}
	outer := c.replaying
	c.replaying, c.replayed = true, replayed{began: c.nanos}
	_, _ = c.invoke(cl, args, nil, spec, cl.Out.Mark())
	c.replaying = outer
	if c.replayed.gave {
		c.readClock()
		c.pause.release()
	}
	c.unitEnded()
	if cl.Out.Reset(); cap(cl.Out.B) > keptUnitBytes {
		cl.Out.B = nil
	}
	return false, nil
}

// missing returns a database that a call names and that this server lacks, or 0. After a SELECT that fails, keys would
// go to another database.
func (c *Core) missing(spec *command.Spec, args [][]byte) int {
	if spec.Databases == nil {
		return 0
	}
	for _, at := range spec.Databases(nil, args) {
		if n, err := command.Int32(args[at]); err == nil && n >= c.space.Len() {
			return n
		}
	}
	return 0
}

// CanReplay returns nil if Replay would run or skip a command. Turn only. Errors: a *ReplayError.
func (c *Core) CanReplay(args [][]byte) error {
	_, err := c.rowOfLog(args)
	return err
}

// Row returns the row of a command in the core's own effects. Turn only. Errors: a *ReplayError.
func (c *Core) Row(args [][]byte) (*command.Spec, error) { return c.rowOfLog(args) }

// rowOfLog returns the row of a command in a log. Errors: a *ReplayError.
func (c *Core) rowOfLog(args [][]byte) (*command.Spec, error) {
	c.assertHeld()
	spec, err := c.catalogue.Resolve(c.catalogue.Lookup(args[0]), args)
	if err != nil {
		return nil, &ReplayError{Name: string(args[0]), Unknown: spec == nil}
	}
	return spec, nil
}
