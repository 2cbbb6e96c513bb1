package acl

import (
	"spindle/engine/command"
	"spindle/protocol"
)

// Clients match these texts, so they are worded as in Redis.
var (
	errUserName = &protocol.Error{Code: "ERR", Text: "Usernames can't contain spaces or null characters"}

	// These two are only for statistics.
	errWrongPass = &protocol.Error{Code: "WRONGPASS"}
	errNoPerm    = &protocol.Error{Code: "NOPERM"}
)

func errParenthesis(rule []byte) error {
	return protocol.Errorf("ERR", "Unmatched parenthesis in acl selector starting at '%s'.", rule)
}

func errModifier(rule []byte, err error) error {
	return protocol.Errorf("ERR", "Error in ACL SETUSER modifier '%s': %s", rule, err)
}

// Error returns the reply to a refused call. It does not name the key or channel.
func (d Decision) Error(r *Rights, row *command.Spec) *protocol.Error {
	return &protocol.Error{Code: "NOPERM", Text: d.text(r, row)}
}

// ScriptError returns the error that a script's refused call raises.
func (d Decision) ScriptError(r *Rights, row *command.Spec) *protocol.Error {
	return &protocol.Error{Code: "ERR", Text: "ACL failure in script: " + d.text(r, row)}
}

func (d Decision) text(r *Rights, row *command.Spec) string {
	switch d.Reason {
	case DeniedDatabase:
		return "No permissions to access database"
	case DeniedKey:
		return "No permissions to access a key"
	case DeniedChannel:
		return "No permissions to access a channel"
	}
	return "User " + r.name + " has no permissions to run the '" + row.Full + "' command"
}

// ExecError returns the reply in EXEC's array to a queued command that may no longer run.
func (d Decision) ExecError() *protocol.Error {
	why := "no permission to execute the command or subcommand"
	switch d.Reason {
	case DeniedDatabase:
		why = "no permission"
	case DeniedKey:
		why = "no permission to touch the specified keys"
	case DeniedChannel:
		why = "no permission to access one of the channels used as arguments"
	}
	return &protocol.Error{Code: "NOPERM", Text: "ACLs rules changed between the moment the transaction " +
		"was accumulated and the EXEC call. " +
		"This command is no longer allowed for the following reason: " + why}
}
