package migrate

import "spindle/protocol"

// Errors of MIGRATE.
var (
	errKeyAndKeys = &protocol.Error{Code: "ERR",
		Text: "When using MIGRATE KEYS option, the key argument must be set to the empty string"}
	errConnect = &protocol.Error{Code: "IOERR", Text: "error or timeout connecting to the client"}
	errWrite   = &protocol.Error{Code: "IOERR", Text: "error or timeout writing to target instance"}
	errRead    = &protocol.Error{Code: "IOERR", Text: "error or timeout reading to target instance"}
)

// targetError makes a reply of the target's error line, which begins with "-".
func targetError(line []byte) error {
	return protocol.Errorf("ERR", "Target instance replied with error: %s", line[1:])
}
