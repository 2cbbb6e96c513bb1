package conn

import (
	"strings"

	"spindle/protocol"
)

// Clients match these texts, so they are worded as in Redis.
var (
	errWrongPass  = &protocol.Error{Code: "WRONGPASS", Text: "invalid username-password pair or user is disabled."}
	errNoPassword = &protocol.Error{Code: "ERR",
		Text: "AUTH <password> called without any password configured for the default user. Are you sure your " +
			"configuration is correct?"}
	errNoProto   = &protocol.Error{Code: "NOPROTO", Text: "unsupported protocol version"}
	errBadProto  = &protocol.Error{Code: "ERR", Text: "Protocol version is not an integer or out of range"}
	errHelloAuth = &protocol.Error{Code: "NOAUTH", Text: "HELLO must be called with the client already authenticated, " +
		"otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP " +
		"protocol version at the same time"}
	errResetLink       = &protocol.Error{Code: "ERR", Text: "can only reset normal client connections"}
	errSelectInCluster = &protocol.Error{Code: "ERR", Text: "SELECT is not allowed in cluster mode"}
	errNoCluster       = &protocol.Error{Code: "ERR", Text: "This instance has cluster support disabled"}
	errClientName      = &protocol.Error{Code: "ERR",
		Text: "Client names cannot contain spaces, newlines or special characters."}
	errPauseMode     = &protocol.Error{Code: "ERR", Text: "CLIENT PAUSE mode must be WRITE or ALL"}
	errTimeout       = &protocol.Error{Code: "ERR", Text: "timeout is not an integer or out of range"}
	errTimeoutSign   = &protocol.Error{Code: "ERR", Text: "timeout is negative"}
	errTimeoutRange  = &protocol.Error{Code: "ERR", Text: "timeout is out of range"}
	errUnblockReason = &protocol.Error{Code: "ERR", Text: "CLIENT UNBLOCK reason should be TIMEOUT or ERROR"}
	errNoSuchClient  = &protocol.Error{Code: "ERR", Text: "No such client"}
	errKillID        = &protocol.Error{Code: "ERR", Text: "client-id should be greater than 0"}
	errNoAcks        = &protocol.Error{Code: "ERR", Text: "No reply waits for replicas here"}
	errAcks          = protocol.Errorf("ERR", "CLIENT ACK takes a number of replicas from 0 to %d, or DEFAULT",
		protocol.AckLevels)
	errClientID = &protocol.Error{Code: "ERR", Text: "Invalid client ID"}
)

func errHelloOption(option []byte) error {
	return protocol.Errorf("ERR", "Syntax error in HELLO option '%s'", option)
}

func errOption(option []byte) error {
	return protocol.Errorf("ERR", "Unrecognized option '%s'", option)
}

func errPrintable(option []byte) error {
	return protocol.Errorf("ERR", "%s cannot contain spaces, newlines or special characters.", option)
}

func errNoUser(name []byte) error { return protocol.Errorf("ERR", "No such user '%s'", name) }

// errSeconds and errSecondsZero are the errors of MAXAGE and IDLE.
func errSeconds(option string) error {
	return protocol.Errorf("ERR", "%s is not an integer or out of range", strings.ToLower(option))
}

func errSecondsZero(option string) error {
	return protocol.Errorf("ERR", "%s should be greater than 0", strings.ToLower(option))
}

// errLetters is the error of FLAGS and CAPA, and of NOT-FLAGS and NOT-CAPA.
func errLetters(word, option, letters string) error {
	filter := "provided"
	if word != option {
		filter = option
	}
	return protocol.Errorf("ERR", "Unknown %s found in the %s filter: %s", strings.ToLower(word), filter, letters)
}

func errDBNumber(option string) error {
	return protocol.Errorf("ERR", "%s is not an integer or out of range", option)
}

func errDBRange(option string, last int) error {
	return protocol.Errorf("ERR", "%s number should be between 0 and %d", option, last)
}

func errClientType(name []byte) error {
	return protocol.Errorf("ERR", "Unknown client type '%s'", name)
}
