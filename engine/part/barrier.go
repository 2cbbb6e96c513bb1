package part

import (
	"spindle/engine/client"
	"spindle/engine/command"
)

// A Barrier refuses commands while it is up: loading, a full disk, a primary that is missing.
//
// Its owner raises and lowers it inside a turn (engine.Core.Raise).
type Barrier struct {
	Name string
	// Refuse gives the refusal, or nil, which lets the command pass.
	Refuse func(cl *client.Client, call Call) error
	// Spares says that it lets every command of a script pass that has written: half of it would be worse.
	Spares bool
	// Redirects says that it answers where a command is served instead. EXEC then answers that alone.
	Redirects bool
	Up        bool // only the core writes it
}

// A Call is what admission decides about: a request of a client's, or a command of a script.
//
// Lifetime: Args are lent.
type Call struct {
	Spec  *command.Spec
	Args  [][]byte
	Flags command.Flags // what the call may do: for EXEC what it is about to run, for a script what it says of itself
}
