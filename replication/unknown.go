package replication

import (
	"errors"
	"strings"

	"spindle/bgsave/rdb"
	"spindle/engine/command"
	"spindle/protocol"
)

// isUnderstood reports whether err came from running a command, as WRONGTYPE does. Otherwise this server may not
// understand a command of a newer primary, or of a module. That may be the command's name, its arguments, or the
// payload of a RESTORE. Or this server has fewer databases than the primary, or no memory for the command. Skipping
// such a command would make the data differ for good. After a skipped SELECT, keys would go to the wrong database.
// EXECABORT means that none of a transaction has run, perhaps because there was no memory for it. LOADING would mean
// that the command has not run. The stream does not begin before a load ends, so this never happens.
func isUnderstood(spec *command.Spec, err error) bool {
	var e *protocol.Error
	if spec == nil || !errors.As(err, &e) {
		return spec != nil
	}
	if e.Code != "ERR" {
		return e.Code != protocol.ErrNoMemory.Code && e.Code != protocol.ErrLoading.Code && e.Code != "EXECABORT"
	}
	switch e.Text {
	case rdb.ErrPayload.Error(), rdb.ErrPayloadData.Error(), protocol.ErrSyntax.Text, protocol.ErrDBIndex.Text:
		return false
	}
	return !strings.HasPrefix(e.Text, "wrong number of arguments")
}
