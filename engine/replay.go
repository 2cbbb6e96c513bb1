package engine

import (
	"strconv"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// A ReplayError reports a command that no server writes to a log. The log is damaged, or another program wrote it.
type ReplayError struct {
	Name    string
	Unknown bool // there is no such command or subcommand; else it has too many or too few arguments
}

func (e *ReplayError) Error() string {
	if e.Unknown {
		return "unknown command " + strconv.Quote(e.Name)
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
