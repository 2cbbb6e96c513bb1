package protocol

import "fmt"

// An Error is an error reply: a code that clients match on and a text for people.
type Error struct{ Code, Text string }

// Error gives the reply's line without the leading '-': "ERR no such key".
func (e *Error) Error() string { return e.Code + " " + e.Text }

// Errorf is an error reply with a text made for the occasion; CR and LF in it become spaces when it is written.
func Errorf(code, format string, args ...any) *Error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// Named for the condition, worded exactly as clients already match it.
var (
	ErrSyntax       = &Error{"ERR", "syntax error"}
	ErrWrongType    = &Error{"WRONGTYPE", "Operation against a key holding the wrong kind of value"}
	ErrNotInteger   = &Error{"ERR", "value is not an integer or out of range"}
	ErrNotFloat     = &Error{"ERR", "value is not a valid float"}
	ErrNoSuchKey    = &Error{"ERR", "no such key"}
	ErrOutOfRange   = &Error{"ERR", "index out of range"}
	ErrNoAuth       = &Error{"NOAUTH", "Authentication required."}
	ErrOverflow     = &Error{"ERR", "increment or decrement would overflow"}
	ErrStringTooBig = &Error{"ERR", "string exceeds maximum allowed size (proto-max-bulk-len)"}
)
