package protocol

import (
	"bytes"
	"fmt"
)

// An Error is an error reply: a code for programs and a text for people.
type Error struct{ Code, Text string }

// Error returns the reply's line without the leading '-': "ERR no such key".
func (e *Error) Error() string { return e.Code + " " + e.Text }

// AppendTo appends the whole error reply to dst. The text must have no CR and no LF.
func (e *Error) AppendTo(dst []byte) []byte {
	return append(append(append(append(append(dst, '-'), e.Code...), ' '), e.Text...), "\r\n"...)
}

// Errorf returns an error reply with a formatted text. CR and LF in the text become spaces when it is written.
//
// Shape: a client's bytes in args count up to their first zero byte, because they are C strings in Redis.
func Errorf(code, format string, args ...any) *Error {
	for i, a := range args {
		if b, ok := a.([]byte); ok {
			b, _, _ = bytes.Cut(b, []byte{0})
			args[i] = b
		}
	}
	return &Error{code, fmt.Sprintf(format, args...)}
}

// Errors named after their condition, with the exact texts that clients match.
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

// Errors that any command may get before it runs.
var (
	ErrLoading     = &Error{"LOADING", "Redis is loading the dataset in memory"}
	ErrOutOfMemory = &Error{"OOM", "command not allowed when used memory > 'maxmemory'."}
	ErrNoMemory    = &Error{"OOM", "the system gives no more memory for this."}
	ErrDBIndex     = &Error{"ERR", "DB index is out of range"}
	ErrReadOnly    = &Error{"READONLY", "You can't write against a read only replica."}
	ErrNoReplicas  = &Error{"NOREPLICAS", "Not enough good replicas to write."}
	ErrUnconfirmed = &Error{"UNCONFIRMED",
		"Too few replicas have confirmed it in time. What it wrote, or shows, may be lost or not."}
	ErrPrimaryDown  = &Error{"MASTERDOWN", "Link with MASTER is down and replica-serve-stale-data is set to 'no'."}
	ErrBusyScript   = &Error{"BUSY", "Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."}
	ErrBusyFunction = &Error{"BUSY", "Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."}
	ErrNoScript     = &Error{"NOSCRIPT", "No matching script. Please use EVAL."}
	ErrBusyKey      = &Error{"BUSYKEY", "Target key name already exists."}
)

// The parser's protocol errors. The connection is closed after one.
var (
	ErrTooBigMultibulkCount     = &Error{"ERR", "Protocol error: too big mbulk count string"}
	ErrMultibulkLength          = &Error{"ERR", "Protocol error: invalid multibulk length"}
	ErrUnauthenticatedMultibulk = &Error{"ERR", "Protocol error: unauthenticated multibulk length"}
	ErrTooBigBulkCount          = &Error{"ERR", "Protocol error: too big bulk count string"}
	ErrBulkLength               = &Error{"ERR", "Protocol error: invalid bulk length"}
	ErrUnauthenticatedBulk      = &Error{"ERR", "Protocol error: unauthenticated bulk length"}
	ErrTooBigInline             = &Error{"ERR", "Protocol error: too big inline request"}
	ErrUnbalancedQuotes         = &Error{"ERR", "Protocol error: unbalanced quotes in request"}
)
