package state

import "spindle/protocol"

// Errors of an operator's orders.
var (
	errNotPrimary       = &protocol.Error{Code: "ERR", Text: "Target node is not a master"}
	errForgetSelf       = &protocol.Error{Code: "ERR", Text: "I tried hard but I can't forget myself..."}
	errForgetPrimary    = &protocol.Error{Code: "ERR", Text: "Can't forget my master!"}
	errReplicateSelf    = &protocol.Error{Code: "ERR", Text: "Can't replicate myself"}
	errReplicateReplica = &protocol.Error{Code: "ERR", Text: "I can only replicate a master, not a replica."}
	errHasData          = &protocol.Error{Code: "ERR",
		Text: "To set a master the node must be empty and without assigned slots."}
	errFailoverPrimary = &protocol.Error{Code: "ERR", Text: "You should send CLUSTER FAILOVER to a replica"}
	errPrimaryUnknown  = &protocol.Error{Code: "ERR", Text: "I'm a replica but my master is unknown to me"}
	errPrimaryDown     = &protocol.Error{Code: "ERR", Text: "Master is down or failed, please use CLUSTER FAILOVER FORCE"}
	errEpochKnown      = &protocol.Error{Code: "ERR",
		Text: "The user can assign a config epoch only when the node does not know any other node."}
	errLeaving = &protocol.Error{Code: "ERR",
		Text: "Keys of slots that have moved to other nodes are still being removed here. Try again later."}
	errEpochSet  = &protocol.Error{Code: "ERR", Text: "Node config epoch is already non-zero"}
	errResetKeys = &protocol.Error{Code: "ERR", Text: "CLUSTER RESET can't be called with master nodes containing keys"}
)

func errAddress(ip string, port int64) error {
	return protocol.Errorf("ERR", "Invalid node address specified: %s:%d", ip, port)
}

func errUnknown(id string) error { return protocol.Errorf("ERR", "Unknown node %s", id) }
func errTarget(id string) error  { return protocol.Errorf("ERR", "I don't know about node %s", id) }
func errNotOwner(slot int) error {
	return protocol.Errorf("ERR", "I'm not the owner of hash slot %d", slot)
}
func errOwner(slot int) error {
	return protocol.Errorf("ERR", "I'm already the owner of hash slot %d", slot)
}

func errKeys(slot int) error {
	return protocol.Errorf("ERR",
		"Can't assign hashslot %d to a different node while I still hold keys for this hash slot.", slot)
}

func errEpoch(epoch int64) error {
	return protocol.Errorf("ERR", "Invalid config epoch specified: %d", epoch)
}
