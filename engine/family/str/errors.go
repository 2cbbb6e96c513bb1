package str

import (
	"spindle/engine/command"
	"spindle/protocol"
)

// Clients match these texts, so they are worded as in Redis.
var (
	errDecrement = &protocol.Error{Code: "ERR", Text: "decrement would overflow"}
	errNaN       = &protocol.Error{Code: "ERR", Text: "increment would produce NaN or Infinity"}
	errDigest    = &protocol.Error{Code: "ERR", Text: "digest must be exactly 16 hexadecimal characters"}
	errNumKeys   = &protocol.Error{Code: "ERR", Text: "invalid numkeys value or out of range"}
	errENX       = &protocol.Error{Code: "ERR", Text: "ENX flag requires an expiration"}
	errBounds    = &protocol.Error{Code: "ERR", Text: "LBOUND is greater than UBOUND"}
	errOffset    = &protocol.Error{Code: "ERR", Text: "offset is out of range"}
	errLCSTypes  = &protocol.Error{Code: "ERR", Text: "The specified keys must contain string values"}
	errLCSBoth   = &protocol.Error{Code: "ERR", Text: "If you want both the length and indexes, please just use IDX."}
	errLCSLong   = &protocol.Error{Code: "ERR", Text: "String too long for LCS"}
	errLCSMemory = &protocol.Error{Code: "ERR",
		Text: "Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"}
)

func errExpireTime(command string) error {
	return protocol.Errorf("ERR", "invalid expire time in '%s' command", command)
}

func errPairs(c *command.Context) error {
	return protocol.Errorf("ERR", "wrong number of arguments for '%s' command", c.Spec.Full)
}
