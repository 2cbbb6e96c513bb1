package sight

import "spindle/protocol"

// Clients match these texts, so they are worded as in Redis.
var (
	errCount      = &protocol.Error{Code: "ERR", Text: "COUNT should be greater than 0"}
	errStallCount = &protocol.Error{Code: "ERR", Text: "count should be greater than or equal to -1"}
)
