package proxy

import (
	"bytes"
	"strings"

	"spindle/protocol"
)

// Redis's errors, word for word.
var (
	errNested         = &protocol.Error{Code: "ERR", Text: "MULTI calls can not be nested"}
	errWatchInMulti   = &protocol.Error{Code: "ERR", Text: "WATCH inside MULTI is not allowed"}
	errNoMulti        = &protocol.Error{Code: "ERR", Text: "EXEC without MULTI"}
	errNoDiscard      = &protocol.Error{Code: "ERR", Text: "DISCARD without MULTI"}
	errNoTransaction  = &protocol.Error{Code: "ERR", Text: "Command not allowed inside a transaction"}
	errExecAbort      = &protocol.Error{Code: "EXECABORT", Text: "Transaction discarded because of previous errors."}
	errCrossSlot      = &protocol.Error{Code: "CROSSSLOT", Text: "Keys in request don't hash to the same slot"}
	errNoSlot         = &protocol.Error{Code: "CLUSTERDOWN", Text: "Hash slot not served"}
	errCursor         = &protocol.Error{Code: "ERR", Text: "invalid cursor"}
	errSlot           = &protocol.Error{Code: "ERR", Text: "Invalid slot"}
	errNoCluster      = &protocol.Error{Code: "ERR", Text: "This instance has cluster support disabled"}
	errNoProto        = &protocol.Error{Code: "NOPROTO", Text: "unsupported protocol version"}
	errProtoNumber    = &protocol.Error{Code: "ERR", Text: "Protocol version is not an integer or out of range"}
	errClientID       = &protocol.Error{Code: "ERR", Text: "client-id should be greater than 0"}
	errNoClient       = &protocol.Error{Code: "ERR", Text: "No such client"}
	errRedirectTwice  = &protocol.Error{Code: "ERR", Text: "A client can only redirect to a single other client"}
	errClientNumber   = &protocol.Error{Code: "ERR", Text: "Invalid client ID"}
	errNoRedirect     = &protocol.Error{Code: "ERR", Text: "The client ID you want redirect to does not exist"}
	errTrackingMode   = &protocol.Error{Code: "ERR", Text: "OPTIN and OPTOUT are not compatible with BCAST"}
	errTrackingBoth   = &protocol.Error{Code: "ERR", Text: "You can't specify both OPTIN mode and OPTOUT mode"}
	errTrackingPrefix = &protocol.Error{Code: "ERR", Text: "PREFIX option requires BCAST mode to be enabled"}
	errNotTracking    = &protocol.Error{Code: "ERR",
		Text: "CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"}
	errNotOptIn = &protocol.Error{Code: "ERR",
		Text: "CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."}
	errNotOptOut = &protocol.Error{Code: "ERR",
		Text: "CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."}
	errTimeoutNumber   = &protocol.Error{Code: "ERR", Text: "timeout is not an integer or out of range"}
	errTimeoutNegative = &protocol.Error{Code: "ERR", Text: "timeout is negative"}
	errTimeoutRange    = &protocol.Error{Code: "ERR", Text: "timeout is out of range"}
	errSlowCount       = &protocol.Error{Code: "ERR", Text: "count should be greater than or equal to -1"}
	errPauseMode       = &protocol.Error{Code: "ERR", Text: "CLIENT PAUSE mode must be WRITE or ALL"}
	errUnblockReason   = &protocol.Error{Code: "ERR", Text: "CLIENT UNBLOCK reason should be TIMEOUT or ERROR"}
	errUnblocked       = &protocol.Error{Code: "UNBLOCKED", Text: "client unblocked via CLIENT UNBLOCK"}
	errMaxAge          = &protocol.Error{Code: "ERR", Text: "maxage is not an integer or out of range"}
	errMaxAgeZero      = &protocol.Error{Code: "ERR", Text: "maxage should be greater than 0"}
	errClientName      = &protocol.Error{Code: "ERR",
		Text: "Client names cannot contain spaces, newlines or special characters."}
)

// The proxy's own errors.
var (
	errNoShard    = &protocol.Error{Code: "CLUSTERDOWN", Text: "the proxy knows no shard"}
	errWideCursor = &protocol.Error{Code: "ERR", Text: "the shard's cursor does not fit into the proxy's"}
	errManyShards = &protocol.Error{Code: "ERR", Text: "the proxy cannot SCAN more than 1024 shards"}
	errCommandLog = &protocol.Error{Code: "ERR",
		Text: "COMMANDLOG is not served by the proxy: SLOWLOG has slow requests, and the shards know large ones"}
	errClosed      = &protocol.Error{Code: "ERR", Text: "the proxy has closed its connection to the shard"}
	errTracks      = &protocol.Error{Code: "ERR", Text: "tracking is on in another mode: switch it off first"}
	errTrackingOld = &protocol.Error{Code: "ERR",
		Text: "CLIENT TRACKING is served to clients of RESP3 only: say HELLO 3 first"}
	errSlotMoves = &protocol.Error{Code: "TRYAGAIN",
		Text: "the slot is moving to another shard; the transaction did not run"}
	errLongTransaction = protocol.Errorf("ERR", "a transaction of more than %d bytes is not served by the proxy",
		clientMost)
	errSlotHeld       = &protocol.Error{Code: "TRYAGAIN", Text: "the slot is moving to another group, and waits for it"}
	errBlockElsewhere = &protocol.Error{Code: "ERR",
		Text: "a blocking command on another slot than the watched key's is not served by the proxy"}
)

func errHelloOption(option []byte) *protocol.Error {
	return protocol.Errorf("ERR", "Syntax error in HELLO option '%s'", option)
}

func errListening(command string) *protocol.Error {
	return protocol.Errorf("ERR", "Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are "+
		"allowed in this context", command)
}

func errClientType(word []byte) *protocol.Error {
	return protocol.Errorf("ERR", "Unknown client type '%s'", word)
}

func errLibOption(option []byte) *protocol.Error {
	return protocol.Errorf("ERR", "Unrecognized option '%s'", option)
}

func errLibValue(option []byte) *protocol.Error {
	return protocol.Errorf("ERR", "%s cannot contain spaces, newlines or special characters.", option)
}

// errSubcommandSyntax is Redis's error for a subcommand with too many arguments.
func errSubcommandSyntax(args [][]byte) *protocol.Error {
	return protocol.Errorf("ERR", "unknown subcommand or wrong number of arguments for '%.128s'. Try %s HELP.", args[1],
		strings.ToUpper(string(args[0])))
}

// errNoSamples is Redis's error for an event without samples.
func errNoSamples(event string) *protocol.Error {
	return protocol.Errorf("ERR", "No samples available for event '%s'", event)
}

func errUnknownNode(id []byte) *protocol.Error { return protocol.Errorf("ERR", "Unknown node %s", id) }

func errNoTarget(name string) *protocol.Error {
	return protocol.Errorf("ERR", "a rule sends the key to '%s', and the proxy knows no such group, shard or address", name)
}

func errOwnTarget(name string) *protocol.Error {
	return protocol.Errorf("ERR", "a rule sends the key to '%s', and that is this proxy", name)
}

func errDenied(rule string) *protocol.Error {
	return protocol.Errorf("ERR", "the rule '%s' refuses this request", rule)
}

func errTooMany(rule string, rate int64) *protocol.Error {
	return protocol.Errorf("ERR", "the rule '%s' allows %d requests a second", rule, rate)
}

func errPubSub(word string) *protocol.Error {
	return protocol.Errorf("ERR", "unknown subcommand or wrong number of arguments for '%s'. Try PUBSUB HELP.", word)
}

func errConfig(err error) *protocol.Error { return &protocol.Error{Code: "ERR", Text: err.Error()} }

func errNotServed(command string) *protocol.Error {
	command = strings.ReplaceAll(strings.ToUpper(command), "|", " ")
	return protocol.Errorf("ERR", "%s is not served by the proxy", command)
}

func errInMulti(command string) *protocol.Error {
	return protocol.Errorf("ERR", "'%s' inside MULTI is not served by the proxy", strings.ToLower(command))
}

func errWhileBound(command string) *protocol.Error {
	return protocol.Errorf("ERR",
		"'%s' while keys are watched or tracked, or channels are subscribed to, is not served by the proxy",
		strings.ToLower(command))
}

// Errors of shards.

func errNoPrimary(id string) *protocol.Error {
	return protocol.Errorf("CLUSTERDOWN", "the shard %s has no primary", id)
}

func errBroken(at string, ms int64) *protocol.Error {
	return protocol.Errorf("ERR", "the shard %s does not answer; the proxy tries again in %d ms", at, ms)
}

func errTimeout(at string, ms int64) *protocol.Error {
	return protocol.Errorf("ERR", "the shard %s did not answer within %d ms", at, ms)
}

func errUnheard(ms int64) *protocol.Error {
	return protocol.Errorf("ERR", "no shard has confirmed the subscription within %d ms", ms)
}

func errUnreachable(at string, err error) *protocol.Error {
	return protocol.Errorf("ERR", "the shard %s cannot be reached: %v", at, err)
}

func errBroke(at string, err error) *protocol.Error {
	return protocol.Errorf("ERR", "the connection to the shard %s broke: %v", at, err)
}

// errMayHaveRun is err for a call of which the server may have got a part.
func errMayHaveRun(err *protocol.Error) *protocol.Error {
	return &protocol.Error{Code: err.Code, Text: err.Text + "; the command may have run"}
}

func errNoReply(at string, err error) *protocol.Error {
	return protocol.Errorf("ERR", "the shard %s sent what is no reply: %v", at, err)
}

func errUnasked(at string) *protocol.Error {
	return protocol.Errorf("ERR", "the shard %s sent what no client asked for", at)
}

func errNoCount(at string) *protocol.Error {
	return protocol.Errorf("ERR", "the shard %s sent what is no reply to WAIT", at)
}

func errUntracked(at string) *protocol.Error {
	return protocol.Errorf("ERR", "the shard %s does not track keys for the client any more", at)
}

func errTrackingShard(at string) *protocol.Error {
	return protocol.Errorf("ERR", "the shard %s speaks RESP2 only, and CLIENT TRACKING needs RESP3", at)
}

func errTooLong(at string) *protocol.Error {
	return protocol.Errorf("ERR", "the shard %s sent a reply of more than %d bytes", at, replyMost)
}

func errNoForm(at, command string) *protocol.Error {
	return protocol.Errorf("ERR", "the shard %s speaks RESP2 only, and the proxy does not know what its reply to "+
		"'%s' is in RESP3; the command has run", at, strings.ReplaceAll(command, "|", " "))
}

func errNoScan(at string) *protocol.Error {
	return protocol.Errorf("ERR", "the shard %s sent what is no reply to SCAN", at)
}

func errUnlike(at string, err error) *protocol.Error {
	return protocol.Errorf("ERR", "the shard %s: %v", at, err)
}

func errNotMoved(err *protocol.Error) *protocol.Error {
	return protocol.Errorf("ERR", "the key could not be moved to its new group: %s", err.Error())
}

// errorOf reads an error reply.
func errorOf(p []byte) *protocol.Error {
	line := string(bytes.TrimRight(p[1:], "\r\n"))
	code, text, _ := strings.Cut(line, " ")
	return &protocol.Error{Code: code, Text: text}
}
