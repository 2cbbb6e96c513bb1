package part

import (
	"spindle/engine/client"
	"spindle/engine/command"
)

// A Barrier refuses commands while it is up, for example during loading, with a full disk, or without a primary.
//
// Its owner raises and lowers it inside a turn (engine.Core.Raise).
type Barrier struct {
	Name string
	// Refuse returns the error of the refusal, or nil, which lets the command pass.
	Refuse func(cl *client.Client, call Call) error
	// Spares lets all commands of a script pass once the script has written, because half a script would be worse.
	Spares bool
	// Redirects means that the error names the server that serves the command. An EXEC then gets that error unchanged.
	Redirects bool
	Up        bool // only the core writes it
}

// A Call is what admission decides about: a client's request, or a command of a script.
//
// Lifetime: Args are lent.
type Call struct {
	Spec  *command.Spec
	Args  [][]byte
	Flags command.Flags // what the call may do: for EXEC its queue, for a script its declarations
}
