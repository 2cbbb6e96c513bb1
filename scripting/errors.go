package scripting

import (
	"strings"

	"spindle/protocol"
)

// Clients match these texts, so they are worded as in Redis.
var (
	errNotShown      = &protocol.Error{Code: "NOSCRIPT", Text: "No matching script."}
	errNoLibraryName = &protocol.Error{Code: "ERR", Text: "library name argument was not given"}
	errNoFunction    = &protocol.Error{Code: "ERR", Text: "Function not found"}
	errNoLibrary     = &protocol.Error{Code: "ERR", Text: "Library not found"}
	errScriptFlush   = &protocol.Error{Code: "ERR", Text: "SCRIPT FLUSH only support SYNC|ASYNC option"}
	errFunctionFlush = &protocol.Error{Code: "ERR", Text: "FUNCTION FLUSH only supports SYNC|ASYNC option"}
	errNoDebugger    = &protocol.Error{Code: "ERR", Text: "SCRIPT DEBUG is not supported: this server has no Lua debugger"}
	errDebugMode     = &protocol.Error{Code: "ERR", Text: "Use SCRIPT DEBUG YES/SYNC/NO"}
	errPolicy        = &protocol.Error{Code: "ERR",
		Text: "Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."}
	errPayload      = &protocol.Error{Code: "ERR", Text: "DUMP payload version or checksum are wrong"}
	errNoCode       = &protocol.Error{Code: "ERR", Text: "Function code is missing"}
	errManyKeys     = &protocol.Error{Code: "ERR", Text: "Number of keys can't be greater than number of args"}
	errNegativeKeys = &protocol.Error{Code: "ERR", Text: "Number of keys can't be negative"}
	errBadKeys      = &protocol.Error{Code: "ERR", Text: "Bad number of keys provided"}
	errNoMetadata   = &protocol.Error{Code: "ERR", Text: "Missing library metadata"}
	errMetadata     = &protocol.Error{Code: "ERR", Text: "Invalid library metadata"}
	errNameTwice    = &protocol.Error{Code: "ERR",
		Text: "Invalid metadata value, name argument was given multiple times"}
	errNoName          = &protocol.Error{Code: "ERR", Text: "Library name was not given"}
	errWrongName       = &protocol.Error{Code: "ERR", Text: wrongName}
	errNoFunctions     = &protocol.Error{Code: "ERR", Text: "No functions registered"}
	errStackLimit      = &protocol.Error{Code: "ERR", Text: "reached lua stack limit"}
	errScriptInCluster = &protocol.Error{Code: "ERR", Text: "Can not run script on cluster, 'no-cluster' flag is set."}
	errScriptStale     = &protocol.Error{Code: "MASTERDOWN",
		Text: "Link with MASTER is down, replica-serve-stale-data is set to 'no' " +
			"and 'allow-stale' flag is not set on the script."}
	errScriptReplica = &protocol.Error{Code: "READONLY", Text: "Can not run script with write flag on readonly replica"}
	errScriptSave    = &protocol.Error{Code: "MISCONF",
		Text: "Redis is configured to save RDB snapshots, but it's currently unable to " +
			"persist to disk. Writable scripts are blocked. Use 'no-writes' flag for read only scripts."}
	errScriptReadOnly = &protocol.Error{Code: "ERR", Text: "Can not execute a script with write flag using *_ro command."}
	errScriptMemory   = &protocol.Error{Code: "OOM", Text: "allow-oom flag is not set on the script, " +
		"can not run it when used memory > 'maxmemory'"}
	errNotBusy = &protocol.Error{Code: "NOTBUSY", Text: "No scripts in execution right now."}
	errObeyed  = &protocol.Error{Code: "UNKILLABLE",
		Text: "The busy script was sent by a master instance in the context of replication " +
			"and cannot be killed."}
	errHasWritten = &protocol.Error{Code: "UNKILLABLE",
		Text: "Sorry the script already executed write commands against the dataset. You can " +
			"either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."}
	errShebang       = &protocol.Error{Code: "ERR", Text: "Invalid script shebang"}
	errShebangEngine = &protocol.Error{Code: "ERR", Text: "Invalid engine in script shebang"}
)

func errOption(word []byte) error { return protocol.Errorf("ERR", "Unknown option given: %s", word) }

func errArgument(word []byte) error { return protocol.Errorf("ERR", "Unknown argument %s", word) }

func errBadPayload(err error) error { return &protocol.Error{Code: "ERR", Text: err.Error()} }

func errCompileScript(text string) error {
	return protocol.Errorf("ERR", "Error compiling script (new function): %s", text)
}

func errLibrary(name string) error { return protocol.Errorf("ERR", "Library %s already exists", name) }

func errFunction(name string) error {
	return protocol.Errorf("ERR", "Function %s already exists", name)
}

func errMetadataValue(word []byte) error {
	return protocol.Errorf("ERR", "Invalid metadata value given: %s", word)
}

func errEngine(name string) error { return protocol.Errorf("ERR", "Engine '%s' not found", name) }

func errLibraryExists(name string) error {
	return protocol.Errorf("ERR", "Library '%s' already exists", name)
}

func errCompileFunction(text string) error {
	return protocol.Errorf("ERR", "Error compiling function: %s", text)
}

func errRegister(text string) error {
	return protocol.Errorf("ERR", "Error registering functions: %s", text)
}

func errRunning(name, text string) error {
	return protocol.Errorf("ERR", "Error running script %s, %.100s", name, text)
}

func errEngineOf(name []byte) error {
	return protocol.Errorf("ERR", "Unexpected engine in script shebang: %s", name)
}

func errShebangOption(word []byte) error {
	return protocol.Errorf("ERR", "Unknown lua shebang option: %s", word)
}

func errShebangFlag(name []byte) error {
	return protocol.Errorf("ERR", "Unexpected flag in script shebang: %s", name)
}

// replyError returns the error reply with exactly this line. A script may choose any code.
func replyError(line string) *protocol.Error {
	line = oneLine(strings.TrimRight(line, "\r\n"))
	code, text, blank := strings.Cut(line, " ")
	if blank && text == "" {
		code += " " // kept, although no text follows
	}
	return &protocol.Error{Code: code, Text: text}
}

func errScriptLog(why string) error {
	return protocol.Errorf("MISCONF",
		"Redis is configured to persist data to AOF, but it's currently unable to persist to disk. "+
			"Writable scripts are blocked. Use 'no-writes' flag for read only scripts. AOF error: %s", why)
}
