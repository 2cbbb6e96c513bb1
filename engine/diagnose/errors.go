package diagnose

import "spindle/protocol"

// Clients match the texts of Redis 7.4, so these errors have the same texts.
var (
	errCount        = &protocol.Error{Code: "ERR", Text: "COUNT should be greater than 0"}
	errSessionCount = &protocol.Error{Code: "ERR", Text: "COUNT must be between 1 and 64"}
	errDuration     = &protocol.Error{Code: "ERR", Text: "DURATION must not be negative"}
	errSample       = &protocol.Error{Code: "ERR", Text: "SAMPLE must be at least 1"}
	errMetrics      = &protocol.Error{Code: "ERR", Text: "METRICS takes the number of metrics, then CPU, NET or both"}
	errSlotsAlone   = &protocol.Error{Code: "ERR", Text: "SLOTS parameter cannot be used in non-cluster mode"}
	errSlot         = &protocol.Error{Code: "ERR", Text: "Invalid or out of range slot"}
	errActive       = &protocol.Error{Code: "ERR", Text: "a HOTKEYS session is active already"}
	errResetActive  = &protocol.Error{Code: "ERR", Text: "a HOTKEYS session is active: stop it first"}
	errNotSampling  = &protocol.Error{Code: "ERR", Text: "HOTKEYS START needs the setting hot-keys"}
	errLogType      = &protocol.Error{Code: "ERR",
		Text: "type should be one of the following: slow, large-request, large-reply"}
	errNewest = &protocol.Error{Code: "ERR", Text: "count should be greater than or equal to -1"}
)

func errNoSamples(event string) error {
	return protocol.Errorf("ERR", "No samples available for event '%s'", event)
}
