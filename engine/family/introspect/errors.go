package introspect

import (
	"time"

	"spindle/protocol"
)

// Clients match these texts, so they are worded as in Redis.
var (
	errMonitorHere = &protocol.Error{Code: "ERR", Text: "MONITOR isn't allowed for DENY BLOCKING client"}
	errNoCommand   = &protocol.Error{Code: "ERR", Text: "Invalid command specified"}
	errNoKeys      = &protocol.Error{Code: "ERR", Text: "The command has no key arguments"}
	errKeysArity   = &protocol.Error{Code: "ERR", Text: "Invalid number of arguments specified for command"}
	errRestart     = &protocol.Error{Code: "ERR", Text: "failed to restart the server. Check server logs."}
	errLoadAOF     = &protocol.Error{Code: "ERR", Text: "Error trying to load the AOF files, check server logs."}
	errPositive    = &protocol.Error{Code: "ERR", Text: "value is out of range, must be positive"}
	errReload      = &protocol.Error{Code: "ERR",
		Text: "DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options."}
	errProtocolType = &protocol.Error{Code: "ERR",
		Text: "Wrong protocol type name. Please use one of the following: " +
			"string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false"}
	errNeedsRESP3 = &protocol.Error{Code: "ERR", Text: "RESP2 is not supported by this command"}
	errDatabase   = &protocol.Error{Code: "ERR", Text: "Out of range database"}
	errNotTable   = &protocol.Error{Code: "ERR",
		Text: "The value stored at the specified key is not represented using an hash table"}
	errNotListpack  = &protocol.Error{Code: "ERR", Text: "Not a listpack encoded object."}
	errNotQuicklist = &protocol.Error{Code: "ERR", Text: "Not a quicklist encoded object."}
	errNotText      = &protocol.Error{Code: "ERR", Text: "Not an sds encoded string."}
	errThreshold    = &protocol.Error{Code: "ERR",
		Text: "argument must be a memory value bigger than 1 and smaller than 4gb"}
	errNoEviction = &protocol.Error{Code: "ERR", Text: "maxmemory-clients is disabled."}
	errNotHere    = &protocol.Error{Code: "ERR", Text: "This server has nothing for that DEBUG subcommand"}
	errNoCluster  = &protocol.Error{Code: "ERR", Text: "Debug option only available for cluster mode enabled setup!"}
)

func errRewrite(err error) error {
	return protocol.Errorf("ERR", "CONFIG-REWRITE-FORCE-ALL failed: %v", err)
}

func errSlowMatch(took time.Duration) error {
	return protocol.Errorf("ERR", "the matcher took %v", took)
}
