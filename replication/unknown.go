package replication

import (
	"errors"
	"strings"

	"spindle/bgsave/rdb"
	"spindle/engine/command"
	"spindle/protocol"
)

// isUnderstood reports whether err came from running a command, as WRONGTYPE does. This server does not understand a
// primary's command of a newer version, or of a module: its name, its number of arguments, its syntax or the payload of
// a RESTORE. Skipping it would make the data differ for good.
func isUnderstood(spec *command.Spec, err error) bool {
	var e *protocol.Error
	if spec == nil || !errors.As(err, &e) {
		return spec != nil
	}
	if e.Code != "ERR" {
		return true
	}
	if e.Text == rdb.ErrPayload.Error() || e.Text == rdb.ErrPayloadData.Error() {
		return false
	}
	return e.Text != protocol.ErrSyntax.Text && !strings.HasPrefix(e.Text, "wrong number of arguments")
}
