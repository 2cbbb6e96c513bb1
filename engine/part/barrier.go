package part

import (
	"spindle/engine/client"
	"spindle/engine/command"
)

// A Barrier refuses commands while it is up, for example during loading, with a full disk, or without a primary.
//
// Its owner raises and lowers it inside a turn, but not while a unit is open (engine.Core.Raise).
type Barrier struct {
	Name string
	// Refuse returns the error of the refusal, or nil, which lets the command pass. Within a unit its answer does not
	// change (engine.Core.Idle): otherwise a part of a transaction could be refused after another part has run.
	Refuse func(cl *client.Client, call Call) error
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
