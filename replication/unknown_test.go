package replication

import (
	"testing"

	"spindle/engine/command"
	"spindle/protocol"
)

// TestIsUnderstood: which errors of a primary's commands mean that this server does not understand the command.
func TestIsUnderstood(t *testing.T) {
	set, restore := &command.Spec{Name: "set"}, &command.Spec{Name: "restore"}
	for _, c := range []struct {
		spec *command.Spec
		err  *protocol.Error
		want bool
	}{
		{nil, &protocol.Error{Code: "ERR", Text: "unknown command 'x'"}, false},
		{set, protocol.ErrSyntax, false},
		{set, &protocol.Error{Code: "ERR", Text: "wrong number of arguments for 'set' command"}, false},
		{set, protocol.ErrWrongType, true},
		{set, protocol.ErrNotInteger, true},
		{restore, &protocol.Error{Code: "ERR", Text: "Bad data format"}, false},
		{restore, &protocol.Error{Code: "ERR", Text: "DUMP payload version or checksum are wrong"}, false},
		{set, protocol.ErrNoMemory, false},
		{set, protocol.ErrLoading, false},
		{&command.Spec{Name: "select"}, &protocol.Error{Code: "ERR", Text: "DB index is out of range"}, false},
		{restore, &protocol.Error{Code: "BUSYKEY", Text: "Target key name already exists."}, true},
	} {
		if got := isUnderstood(c.spec, c.err); got != c.want {
			t.Errorf("%v: %v is understood: %t", c.spec, c.err, got)
		}
	}
}
