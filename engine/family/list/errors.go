package list

import "spindle/protocol"

// Clients match these texts, so they are worded as in Redis.
var (
	errIndex       = &protocol.Error{Code: "ERR", Text: "index out of range"}
	errNotPositive = &protocol.Error{Code: "ERR", Text: "value is out of range, must be positive"}
	errNumKeys     = &protocol.Error{Code: "ERR", Text: "numkeys should be greater than 0"}
	errCount       = &protocol.Error{Code: "ERR", Text: "count should be greater than 0"}
	errRank        = &protocol.Error{Code: "ERR",
		Text: "RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start " +
			"from the end of the list"}
	errMany      = &protocol.Error{Code: "ERR", Text: "COUNT can't be negative"}
	errMaxLen    = &protocol.Error{Code: "ERR", Text: "MAXLEN can't be negative"}
	errSymmetric = &protocol.Error{Code: "ERR",
		Text: "value is out of range, value must between -9223372036854775807 and 9223372036854775807"}
)
