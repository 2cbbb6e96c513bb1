package cluster

import "spindle/protocol"

// Errors of CLUSTER.
var (
	errDisabled = &protocol.Error{Code: "ERR", Text: "This instance has cluster support disabled"}
	errSlot     = &protocol.Error{Code: "ERR", Text: "Invalid or out of range slot"}
	errKeySlot  = &protocol.Error{Code: "ERR", Text: "Invalid slot"}
	errKeySlots = &protocol.Error{Code: "ERR", Text: "Invalid slot or number of keys"}
	errNotEmpty = &protocol.Error{Code: "ERR", Text: "DB must be empty to perform CLUSTER FLUSHSLOTS."}
	errMetric   = &protocol.Error{Code: "ERR", Text: "Unrecognized sort metric for ORDERBY."}
	errLimit    = &protocol.Error{Code: "ERR",
		Text: "Limit has to lie in between 1 and 16384 (maximum number of slots)."}
	errFilters = &protocol.Error{Code: "ERR", Text: "Multiple filters of the same type are disallowed."}
	errSetSlot = &protocol.Error{Code: "ERR",
		Text: "Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP"}
	errOnPrimary = &protocol.Error{Code: "ERR", Text: "Please use SETSLOT only with masters."}
	errOnReplica = &protocol.Error{Code: "ERR", Text: "The specified node is not a master"}
)

func errUnassigned(slot int) error {
	return protocol.Errorf("ERR", "Slot %d is already unassigned", slot)
}
func errBusy(slot int) error { return protocol.Errorf("ERR", "Slot %d is already busy", slot) }
func errTwice(slot int) error {
	return protocol.Errorf("ERR", "Slot %d specified multiple times", slot)
}
func errPort(arg []byte) error { return protocol.Errorf("ERR", "Invalid base port specified: %s", arg) }
func errBusPort(arg []byte) error {
	return protocol.Errorf("ERR", "Invalid bus port specified: %s", arg)
}
func errUnknown(id []byte) error    { return protocol.Errorf("ERR", "Unknown node %s", id) }
func errDirection(arg []byte) error { return protocol.Errorf("ERR", "Unknown direction %s", arg) }

func errStatRange(first, last int) error {
	return protocol.Errorf("ERR", "Start slot number %d is greater than end slot number %d", first, last)
}

func errRange(first, last int) error {
	return protocol.Errorf("ERR", "start slot number %d is greater than end slot number %d", first, last)
}
