package conn

import (
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// What a connection to a node of a cluster may say of itself.

var errNoCluster = &protocol.Error{Code: "ERR", Text: "This instance has cluster support disabled"}

// asking is ASKING: the next command, or transaction, may use a slot that this node imports. Replies: OK.
func asking(c *command.Context) error { return mark(c, client.Asking, true) }

// readOnly is READONLY: this connection's reads of its primary's slots are served by a replica. Replies: OK.
func readOnly(c *command.Context) error { return mark(c, client.ReadOnly, true) }

// readWrite is READWRITE: it undoes READONLY. Replies: OK.
func readWrite(c *command.Context) error { return mark(c, client.ReadOnly, false) }

// mark sets what the router goes by. Errors: errNoCluster outside cluster mode.
func mark(c *command.Context, f client.Flags, on bool) error {
	if !c.Space.BySlot() {
		return errNoCluster
	}
	if on {
		c.Client.Flags |= f
	} else {
		c.Client.Flags &^= f
	}
	c.Reply.OK()
	return nil
}
