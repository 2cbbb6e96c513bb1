package set

import "spindle/protocol"

// Clients match these texts, so they are worded as in Redis.
var (
	errNumKeys   = &protocol.Error{Code: "ERR", Text: "numkeys should be greater than 0"}
	errTooMany   = &protocol.Error{Code: "ERR", Text: "Number of keys can't be greater than number of args"}
	errLimitSign = &protocol.Error{Code: "ERR", Text: "LIMIT can't be negative"}
	errNegative  = &protocol.Error{Code: "ERR", Text: "value is out of range, must be positive"}
	errCount     = &protocol.Error{Code: "ERR",
		Text: "value is out of range, value must between -9223372036854775807 and 9223372036854775807"}
)
