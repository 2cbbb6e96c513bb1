package diagnose

import "spindle/protocol"

// Clients match these texts, so they are worded as in Redis.
var (
	errCount  = &protocol.Error{Code: "ERR", Text: "COUNT should be greater than 0"}
	errNewest = &protocol.Error{Code: "ERR", Text: "count should be greater than or equal to -1"}
)

func errNoSamples(event string) error {
	return protocol.Errorf("ERR", "No samples available for event '%s'", event)
}
