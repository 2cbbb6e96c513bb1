package command

import (
	"errors"
	"strings"

	"spindle/protocol"
)

// These errors are used by several families. The texts are Redis's.
var (
	ErrCursor   = &protocol.Error{Code: "ERR", Text: "invalid cursor"}
	ErrNoValues = &protocol.Error{Code: "ERR", Text: "NOVALUES option can only be used in HSCAN"}
	// ErrInvalidKeyArguments is for a call whose keys cannot be found.
	ErrInvalidKeyArguments = &protocol.Error{Code: "ERR", Text: "Invalid arguments specified for command"}

	errOutOfInt = &protocol.Error{Code: "ERR",
		Text: "value is out of range, value must between -2147483648 and 2147483647"}
	errTimeoutFloat    = &protocol.Error{Code: "ERR", Text: "timeout is not a float or out of range"}
	errTimeoutNegative = &protocol.Error{Code: "ERR", Text: "timeout is negative"}
	errTimeoutRange    = &protocol.Error{Code: "ERR", Text: "timeout is out of range"}
)

// ErrArity returns the reply to a call with too few or too many arguments.
func ErrArity(s *Spec) *protocol.Error {
	return protocol.Errorf("ERR", "wrong number of arguments for '%s' command", s.Full)
}

// unknownCommand returns the reply to an unknown command: its name and the first 128 bytes of its arguments.
func unknownCommand(args [][]byte) *protocol.Error {
	var b strings.Builder
	for _, a := range args[1:] {
		if b.Len() >= 128 {
			break
		}
		b.WriteByte('\'')
		b.Write(cText(a, 128-b.Len()+1))
		b.WriteString("' ")
	}
	return protocol.Errorf("ERR", "unknown command '%s', with args beginning with: %s", cText(args[0], 128), b.String())
}

// errUnknownSubcommand returns the reply to a subcommand that a container does not have.
func errUnknownSubcommand(name, sub []byte) *protocol.Error {
	return protocol.Errorf("ERR", "unknown subcommand '%s'. Try %s HELP.", cText(sub, 128), strings.ToUpper(string(name)))
}

// ErrSubcommandSyntax returns the reply to a subcommand that exists, but not with these arguments.
func ErrSubcommandSyntax(name, sub []byte) *protocol.Error {
	return protocol.Errorf("ERR", "unknown subcommand or wrong number of arguments for '%s'. Try %s HELP.",
		cText(sub, 128), strings.ToUpper(string(name)))
}

// cText returns what C's %.*s prints of b: at most limit bytes, up to the first NUL.
func cText(b []byte, limit int) []byte {
	b = b[:min(len(b), max(limit, 0))]
	for i, c := range b {
		if c == 0 {
			return b[:i]
		}
	}
	return b
}

// Errors of a rename-command line.
var (
	errNotThere = errors.New("No such command in rename-command")
	errTaken    = errors.New("Target command name already exists")
)

// ErrHold is a barrier's refusal without a reply. The client waits until the pause in force ends, or it is about to be
// closed. Where no client can wait, for example in a script, the reply is READONLY.
var ErrHold error = &protocol.Error{Code: protocol.ErrReadOnly.Code, Text: protocol.ErrReadOnly.Text}
