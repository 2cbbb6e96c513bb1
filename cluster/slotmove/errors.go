package slotmove

import (
	"errors"

	"spindle/protocol"
)

// Errors of CLUSTER. Clients of Valkey know the texts of those that it has, too.
var (
	errDisabled  = &protocol.Error{Code: "ERR", Text: "This instance has cluster support disabled"}
	errSlot      = &protocol.Error{Code: "ERR", Text: "Invalid or out of range slot"}
	errNoEnd     = &protocol.Error{Code: "ERR", Text: "No end slot for final slot range"}
	errSpans     = &protocol.Error{Code: "ERR", Text: "Requested slots span multiple shards"}
	errNoRanges  = &protocol.Error{Code: "ERR", Text: "No slot ranges specified"}
	errReplica   = &protocol.Error{Code: "ERR", Text: "Slot migration can only be used on primary nodes."}
	errImporting = &protocol.Error{Code: "ERR", Text: "Slots are being manually imported"}
	errMigrating = &protocol.Error{Code: "ERR", Text: "Slots are being manually migrated"}
	errNotServed = &protocol.Error{Code: "ERR", Text: "Slots are not served by this node."}
	errTogether  = &protocol.Error{Code: "ERR", Text: "Slot ranges in migrations overlap"}
	errToMyself  = &protocol.Error{Code: "ERR", Text: "Target node can not be this node."}
	errNoMoves   = &protocol.Error{Code: "ERR", Text: "No migrations ongoing"}
	errNoJob     = &protocol.Error{Code: "ERR", Text: "No such slot migration job"}
	errNoSource  = &protocol.Error{Code: "ERR", Text: "Target node does not know the source node"}
	errFromMe    = &protocol.Error{Code: "ERR", Text: "Source node is target node itself"}
	errComing    = &protocol.Error{Code: "ERR",
		Text: "Slot is already being imported on the target by a different migration"}
	errOwnership = &protocol.Error{Code: "ERR", Text: "Target node does not agree about current slot ownership"}
	errCancelled = &protocol.Error{Code: "ERR", Text: "This move was cancelled before it began"}
	errMine      = &protocol.Error{Code: "ERR", Text: "This node already serves the slots"}
)

func errOrder(first, last uint16) error {
	return protocol.Errorf("ERR", "Start slot number %d is greater than end slot number %d.", first, last)
}

func errUnserved(slot int) error { return protocol.Errorf("ERR", "Slot %d has no node served.", slot) }

func errOverlap(a, b span) error {
	return protocol.Errorf("ERR", "Slot range %d-%d overlaps with previous range %d-%d.", a.first, a.last, b.first, b.last)
}

func errMoving(slot uint16) error {
	return protocol.Errorf("ERR", "I am already migrating slot %d.", slot)
}

func errNodeName(name []byte) error    { return protocol.Errorf("ERR", "Invalid node name: %s", name) }
func errNodeUnknown(name []byte) error { return protocol.Errorf("ERR", "Unknown node name: %s", name) }

// errNoBase refuses a move to a node whose log waits for its first base.
func errNoBase(why string) *protocol.Error {
	return protocol.Errorf("ERR", "The append-only file of the target cannot be written: %s", why)
}

// errNotOfMoves refuses a message of the protocol to a client that belongs to no move.
func errNotOfMoves(message string) error {
	return protocol.Errorf("ERR", "CLUSTER SYNCSLOTS %s should only be used by slot migration clients", message)
}

// errPartner is the answer when the node that owns the slots cannot give them away as a whole.
func errPartner(why string) error {
	return protocol.Errorf("ERR", "The node that owns the slots cannot move them as a whole (%s). "+
		"Use redis-cli --cluster reshard, which moves them key by key", why)
}

// errOfPartner is what the node that owns the slots has answered.
func errOfPartner(code, text string) error { return &protocol.Error{Code: code, Text: text} }

// isOOM reports whether an error is for want of memory.
func isOOM(err error) bool {
	var e *protocol.Error
	return errors.As(err, &e) && e.Code == "OOM" || errors.Is(err, protocol.ErrNoMemory)
}
