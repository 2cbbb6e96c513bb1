package engine

import (
	"strconv"

	"spindle/engine/command"
	"spindle/internal/slots"
	"spindle/protocol"
)

// These are the core's own errors. Where Redis has the same error, the text is Redis's.
var (
	errNotInMulti   = &protocol.Error{Code: "ERR", Text: "Command not allowed inside a transaction"}
	errFedStream    = &protocol.Error{Code: "ERR", Text: "Replica can't interact with the keyspace"}
	errOnItsWay     = &protocol.Error{Code: "TRYAGAIN", Text: "A key of this command is on its way to another server"}
	errNotImporting = &protocol.Error{Code: "ERR", Text: "A key is in a slot that does not move here"}
	errUnblocked    = &protocol.Error{Code: "UNBLOCKED", Text: "client unblocked via CLIENT UNBLOCK"}
	errTooDeep      = protocol.Errorf("ERR", "commands call commands more than %d deep", maxDepth)
)

// These errors go to scripts.
var (
	errUnknownInScript = &protocol.Error{Code: "ERR", Text: "Unknown Redis command called from script"}
	errArityInScript   = &protocol.Error{Code: "ERR", Text: "Wrong number of args calling Redis command from script"}
	errNotInScript     = &protocol.Error{Code: "ERR", Text: "This Redis command is not allowed from script"}
	errReadOnlyScript  = &protocol.Error{Code: "ERR", Text: "Write commands are not allowed from read-only scripts."}
)

// This error goes to guests.
var errGuestWrites = &protocol.Error{Code: "ERR", Text: "Only commands that read are allowed here"}

func errGuestReadsMuch(name string, elements, most int64, use string) error {
	return protocol.Errorf("ERR", "%s may read %d elements while all clients wait, and %d are allowed here: use %s",
		name, elements, most, use)
}

// These errors occur in cluster mode.
var (
	errCrossSlot    = &protocol.Error{Code: "CROSSSLOT", Text: "Keys in request don't hash to the same slot"}
	errUnstable     = &protocol.Error{Code: "TRYAGAIN", Text: "Multiple keys request during rehashing of slot"}
	errDown         = &protocol.Error{Code: "CLUSTERDOWN", Text: "The cluster is down"}
	errDownReadOnly = &protocol.Error{Code: "CLUSTERDOWN", Text: "The cluster is down and only accepts read commands"}
	errUnbound      = &protocol.Error{Code: "CLUSTERDOWN", Text: "Hash slot not served"}

	errScriptDownReadOnly = &protocol.Error{Code: "ERR",
		Text: "Script attempted to execute a write command while the cluster is down and readonly"}
	errScriptDown = &protocol.Error{Code: "ERR",
		Text: "Script attempted to execute a command while the cluster is down"}
	errScriptUnbound   = &protocol.Error{Code: "ERR", Text: "Script attempted to access a slot not served"}
	errScriptElsewhere = &protocol.Error{Code: "ERR",
		Text: "Script attempted to access a non local key in a cluster node"}
	errScriptOtherSlot = &protocol.Error{Code: "ERR",
		Text: "Script attempted to access keys that do not hash to the same slot"}
)

// errElsewhere returns MOVED or ASK. The node to serves the slot for the client's kind of connection.
func errElsewhere(code string, slot int, m *slots.Map, to *slots.Node, secure bool) error {
	return &protocol.Error{Code: code,
		Text: strconv.Itoa(slot) + " " + m.Host(to) + ":" + strconv.Itoa(to.ClientPort(secure))}
}

func errScriptCrossSlot(spec *command.Spec) error {
	return protocol.Errorf("ERR", "Command '%s' in script attempted to access keys that don't hash to the same slot",
		spec.Full)
}

func errScriptUnstable(spec *command.Spec) error {
	return protocol.Errorf("ERR", "Unable to execute command '%s' in script because undeclared keys were accessed during "+
		"rehashing of the slot", spec.Full)
}

func errProtected(name, option string) error {
	return protocol.Errorf("ERR",
		"%s command not allowed. If the %s option is set to \"local\", you can run it from a local connection, "+
			"otherwise you need to set this option in the configuration file, and then restart the server.", name, option)
}

func errSubscribed(spec *command.Spec) error {
	return protocol.Errorf("ERR",
		"Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
		spec.Full)
}
