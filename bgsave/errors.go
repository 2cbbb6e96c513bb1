package bgsave

import (
	"spindle/bgsave/codec"
	"spindle/bgsave/rdb"
	"spindle/protocol"
)

// Errors of saving.
var (
	errNoSave     = &protocol.Error{Code: "ERR", Text: "Background saving is currently not in progress or scheduled"}
	ErrInProgress = &protocol.Error{Code: "ERR", Text: "Background save already in progress"}
	ErrBusy       = &protocol.Error{Code: "ERR", Text: "Another child process is active (AOF?): can't BGSAVE right now. " +
		"Use BGSAVE SCHEDULE in order to schedule a BGSAVE whenever possible."}
	ErrHeld = &protocol.Error{Code: "ERR", Text: "The data here are not whole: a copy of the primary's is being loaded, " +
		"or could not be. What is on disk stays until a copy has been loaded"}
	ErrSaveFailed = &protocol.Error{Code: "ERR", Text: ""}
	ErrStopWrites = &protocol.Error{Code: "MISCONF",
		Text: "Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. " +
			"Commands that may modify the data set are disabled, because this instance is configured to report errors during " +
			"writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). " +
			"Please check the Redis logs for details about the RDB error."}
)

// Errors of DUMP and RESTORE.
var (
	errDumpLong     = &protocol.Error{Code: "ERR", Text: "the payload would be longer than proto-max-bulk-len"}
	errBusyKey      = &protocol.Error{Code: "BUSYKEY", Text: "Target key name already exists."}
	errRestoreTTL   = &protocol.Error{Code: "ERR", Text: "Invalid TTL value, must be >= 0"}
	errRestoreIdle  = &protocol.Error{Code: "ERR", Text: "Invalid IDLETIME value, must be >= 0"}
	errRestoreFreq  = &protocol.Error{Code: "ERR", Text: "Invalid FREQ value, must be >= 0 and <= 255"}
	errFilterSize   = &protocol.Error{Code: "ERR", Text: codec.ErrFilterSize.Error()}
	errPayload      = &protocol.Error{Code: "ERR", Text: rdb.ErrPayload.Error()}
	errPayloadValue = &protocol.Error{Code: "ERR", Text: rdb.ErrPayloadData.Error()}
)
