package engine

import (
	"strconv"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// A ReplayError is a command that no log of a server holds: the log is damaged, or another program wrote it.
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

// NewReplayer is a client that commands of a log are run as: without a connection, with every right, and obeyed as a
// primary is.
func NewReplayer() *client.Client {
	return &client.Client{
		Flags: client.Fake | client.DenyBlocking | client.Primary, Protocol: 2, Authenticated: true, Out: &protocol.Reply{},
	}
}

// Replay runs one command of a log as cl, which NewReplayer has made. No limit and no barrier holds for it, no sink
// hears of its effects, and its reply is dropped. A command that failed when it was logged fails again. Turn only,
// while keys past their deadline count as valid.
//
// passed says that the command was passed over, because it changes neither data nor scripts (gateLog).
//
// Lifetime: args are lent until Replay returns.
// Errors: a *ReplayError. After one nothing has run.
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

// CanReplay says whether Replay would run a command or pass over it. Turn only. Errors: a *ReplayError.
func (c *Core) CanReplay(args [][]byte) error {
	_, err := c.rowOfLog(args)
	return err
}

// Row finds the row of a command of the core's own effects. Turn only. Errors: a *ReplayError.
func (c *Core) Row(args [][]byte) (*command.Spec, error) { return c.rowOfLog(args) }

// rowOfLog finds the row of a command in a log. Errors: a *ReplayError.
func (c *Core) rowOfLog(args [][]byte) (*command.Spec, error) {
	c.assertHeld()
	spec, err := c.catalogue.Resolve(c.catalogue.Lookup(args[0]), args)
	if err != nil {
		return nil, &ReplayError{Name: string(args[0]), Unknown: spec == nil}
	}
	return spec, nil
}
