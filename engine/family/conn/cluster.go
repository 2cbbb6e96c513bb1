package conn

import (
	"spindle/engine/client"
	"spindle/engine/command"
)

// The flags that a client of a cluster node sets on its connection.

// asking is ASKING. The next command or transaction may use a slot that this node imports.
func asking(c *command.Context) error { return mark(c, client.Asking, true) }

// readOnly is READONLY. A replica then serves this connection's reads of its primary's slots.
func readOnly(c *command.Context) error { return mark(c, client.ReadOnly, true) }

// readWrite is READWRITE. It undoes READONLY.
func readWrite(c *command.Context) error { return mark(c, client.ReadOnly, false) }

// mark sets or clears a flag that the router reads. Errors: errNoCluster outside cluster mode.
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
