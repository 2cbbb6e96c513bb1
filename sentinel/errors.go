package sentinel

import (
	"strings"

	"spindle/protocol"
)

// Errors of SENTINEL.
var (
	errOnlyHello    = protocol.Errorf("ERR", "Only HELLO messages are accepted by Sentinel instances.")
	errNoSuchMaster = protocol.Errorf("ERR", "No such master with that name")
	errInProgress   = protocol.Errorf("INPROG", "Failover already in progress")
	errNoGoodSlave  = protocol.Errorf("NOGOODSLAVE", "No suitable replica to promote")
	errBadQuorum    = protocol.Errorf("ERR", "Invalid quorum")
	errBadPort      = protocol.Errorf("ERR", "Invalid port")
	errBadHost      = protocol.Errorf("ERR", "Invalid IP address or hostname specified")
	errNotSaved     = protocol.Errorf("ERR", "Failed to save config file. Check server logs.")
	errBadFailure   = protocol.Errorf("ERR", "Unknown failure simulation specified")
	errConfigForm   = protocol.Errorf("ERR", "Only SENTINEL CONFIG GET <param> [<param> <param> ...] / "+
		"SET <param> <value> [<param> <value> ...] are supported.")
	errName          = protocol.Errorf("ERR", "A master's name can't be empty, nor have commas or control characters")
	errScriptsDenied = protocol.Errorf("ERR", "Reconfiguration of scripts path is denied for security reasons. Check the "+
		"deny-scripts-reconfig configuration directive in your Sentinel configuration")
	errNotify    = protocol.Errorf("ERR", "Notification script seems non existing or non executable")
	errReconfigs = protocol.Errorf("ERR", "Client reconfiguration script seems non existing or non executable")
)

// errInvalid marks a wrong value. The caller replaces it by an error that names the option and the value.
var errInvalid = protocol.Errorf("ERR", "invalid")

// errReply turns an error in the configuration into a reply.
func errReply(err error) error { return protocol.Errorf("ERR", "%s", err) }

func errNoQuorum(usable int64, lacks []string) error {
	return protocol.Errorf("NOQUORUM", "%d usable Sentinels. %s", usable, strings.Join(lacks, ". "))
}

func errDebugOption(name []byte) error {
	return protocol.Errorf("ERR", "Unknown option or number of arguments for SENTINEL DEBUG '%s'", name)
}

func errDebugValue(value, name []byte) error {
	return protocol.Errorf("ERR", "Invalid argument '%s' for SENTINEL DEBUG '%s'", value, name)
}

func errSetOption(name string) error {
	return protocol.Errorf("ERR", "Unknown option or number of arguments for SENTINEL SET '%s'", name)
}

func errSetValue(value, name string) error {
	return protocol.Errorf("ERR", "Invalid argument '%s' for SENTINEL SET '%s'", value, name)
}

func errConfigName(name string) error {
	return protocol.Errorf("ERR", "Invalid argument '%s' to SENTINEL CONFIG SET", name)
}

func errConfigTwice(name string) error {
	return protocol.Errorf("ERR", "Duplicate argument '%s' to SENTINEL CONFIG SET", name)
}

func errConfigMissing(name string) error {
	return protocol.Errorf("ERR", "Missing argument '%s' value", name)
}

func errConfigValue(value []byte, name string) error {
	return protocol.Errorf("ERR", "Invalid value '%s' to SENTINEL CONFIG SET '%s'", value, name)
}
