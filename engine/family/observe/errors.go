package observe

import "spindle/protocol"

// Clients match these texts, so they are worded as in Redis.
var (
	errMonitorHere = &protocol.Error{Code: "ERR", Text: "MONITOR isn't allowed for DENY BLOCKING client"}
	errSlowCount   = &protocol.Error{Code: "ERR", Text: "count should be greater than or equal to -1"}
)

func errNoSamples(event string) error {
	return protocol.Errorf("ERR", "No samples available for event '%s'", event)
}
