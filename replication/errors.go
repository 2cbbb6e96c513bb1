package replication

import "spindle/protocol"

func refusal(text string) *protocol.Error { return &protocol.Error{Code: "ERR", Text: text} }

// Errors of SYNC, PSYNC and REPLCONF.
var (
	// The bytes before an RDB stream must not be the reply to another command.
	errPending     = refusal("SYNC and PSYNC are invalid with pending output")
	errNoLink      = &protocol.Error{Code: "NOMASTERLINK", Text: "Can't SYNC while not connected with my master"}
	errWithheld    = &protocol.Error{Code: "NOMASTERLINK", Text: "Can't SYNC while this master may have older data"}
	errFiltered    = refusal("Filtered replica requires EOF capability")
	errNoFilter    = refusal("Missing rdb-filter-only values")
	errFailover    = refusal("PSYNC FAILOVER can't be sent to a master.")
	errFailoverID  = refusal("PSYNC FAILOVER replid must match my replid.")
	errReplicaHost = refusal("REPLCONF ip-address provided by replica instance is invalid")
	errNotBit      = refusal("value is out of range, value must between 0 and 1")
	errHolder      = refusal("REPLCONF holder is too long")
	errHolders     = refusal("REPLCONF hold-acks has too many holders")
	errHeld        = refusal("PSYNC FAILOVER is refused while a Sentinel chooses a new primary")
	errHold        = refusal("REPLCONF hold-acks takes 0 to 86400000 ms, and is not for nodes of a cluster")
)

// ErrRedirect returns the error that names the primary to which a client must send its command.
func ErrRedirect(primary Address) *protocol.Error {
	return protocol.Errorf("REDIRECT", "%s:%d", primary.Host, primary.Port)
}

func errLongHost(length int) *protocol.Error {
	return protocol.Errorf("ERR", "REPLCONF ip-address provided by replica instance is too long: %d bytes", length)
}

func errReplconf(option []byte) *protocol.Error {
	return protocol.Errorf("ERR", "Unrecognized REPLCONF option: %s", option)
}

func errVersion(text []byte) *protocol.Error {
	return protocol.Errorf("ERR", "Unrecognized version format: %s", text)
}

func errFilter(word string) *protocol.Error {
	return protocol.Errorf("ERR", "Unsupported rdb-filter-only option: %s", word)
}

// Errors of WAIT and WAITAOF.
var (
	errNegative    = refusal("timeout is negative")
	errTimeout     = refusal("timeout is not an integer or out of range")
	errTooLong     = refusal("timeout is out of range")
	errNotPositive = refusal("value is out of range, must be positive")
	errNoAOF       = refusal("WAITAOF cannot be used when numlocal is set but appendonly is disabled.")
	errWait        = refusal("WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a " +
		"replica is configured to be writable (which is not the default) writes to replicas are just local and are not " +
		"propagated.")
	errWaitAOF = refusal("WAITAOF cannot be used with replica instances. Please also note that writes to replicas are " +
		"just local and are not propagated.")
)

// Errors of REPLICAOF and FAILOVER.
var (
	errUnblocked = &protocol.Error{Code: "UNBLOCKED",
		Text: "force unblock from blocking operation, instance state changed (master -> replica?)"}
	errPort               = refusal("Invalid master port")
	errHost               = refusal("Invalid master host")
	errOfReplica          = refusal("Command is not valid when client is a replica.")
	errFailingOver        = refusal("REPLICAOF not allowed while failing over.")
	errReplicaOfInCluster = refusal("REPLICAOF not allowed in cluster mode.")
	errFailoverInCluster  = refusal("FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.")
	errNoFailover         = refusal("No failover in progress.")
	errInProgress         = refusal("FAILOVER already in progress.")
	errReplicaOver        = refusal("FAILOVER is not valid when server is a replica.")
	errNoTargets          = refusal("FAILOVER requires connected replicas.")
	errForce              = refusal("FAILOVER with force option requires both a timeout and target HOST and IP.")
	errNotOurs            = refusal("FAILOVER target HOST and PORT is not a replica.")
	errNotOnline          = refusal("FAILOVER target replica is not online.")
	errFailoverDelay      = refusal("FAILOVER timeout must be greater than 0")
)
