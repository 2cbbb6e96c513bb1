package route

import (
	"strings"

	"spindle/protocol"
)

// errCrossSlot is the error of Redis Cluster for keys in several slots.
var errCrossSlot = &protocol.Error{Code: "CROSSSLOT", Text: "Keys in request don't hash to the same slot"}

// notServed returns the error for a command of class Refused.
func notServed(name, reason string) *protocol.Error {
	return &protocol.Error{Code: "ERR", Text: strings.ReplaceAll(strings.ToUpper(name), "|", " ") +
		" is not served by the proxy: " + reason}
}

// sortPattern returns the error for BY or GET of SORT whose pattern may name keys in other slots.
func sortPattern(option []byte) *protocol.Error {
	return &protocol.Error{Code: "ERR", Text: strings.ToUpper(string(option)) +
		" of SORT is not served by the proxy: the keys of its pattern may be in other slots"}
}

// maxQuoted is the maximum number of bytes of a client's request that an error quotes.
const maxQuoted = 128

// unknownCommand returns Redis's error for an unknown command.
func unknownCommand(args [][]byte) *protocol.Error {
	text := append([]byte("unknown command '"), quotable(args[0], maxQuoted)...)
	text = append(text, "', with args beginning with: "...)
	begin := len(text)
	for _, a := range args[1:] {
		if len(text)-begin >= maxQuoted {
			break
		}
		text = append(text, '\'')
		text = append(text, quotable(a, maxQuoted-(len(text)-1-begin))...)
		text = append(text, "' "...)
	}
	return &protocol.Error{Code: "ERR", Text: string(text)}
}

// UnknownSubcommand returns Redis's error for an unknown subcommand of a container command.
func UnknownSubcommand(args [][]byte) *protocol.Error {
	name := strings.ToUpper(string(quotable(args[0], maxQuoted)))
	return &protocol.Error{Code: "ERR", Text: "unknown subcommand '" + string(quotable(args[1], maxQuoted)) + "'. Try " +
		name + " HELP."}
}

// WrongArity returns Redis's error for a call with too few or too many arguments.
func WrongArity(row *Row) *protocol.Error {
	return &protocol.Error{Code: "ERR", Text: "wrong number of arguments for '" + row.Name + "' command"}
}

// quotable returns at most n bytes of text, up to the first zero byte. Servers print the text as a C string.
func quotable(text []byte, n int) []byte {
	for i, c := range text {
		if c == 0 || i == n {
			return text[:i]
		}
	}
	return text
}
