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
// payload of a RESTORE. Skipping such a command would make the data differ for good.
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
