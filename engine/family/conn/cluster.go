package conn

import (
	"spindle/engine/client"
	"spindle/engine/command"
)

// These commands set flags of a connection. Clients of a cluster node, or of a replica that redirects, send them.

// asking is ASKING. The next command or transaction may use a slot that this node imports.
func asking(c *command.Context) error { return mark(c, client.Asking, true) }

// readOnly is READONLY. A replica then serves this connection's reads. In a cluster it serves reads of its primary's
// slots. Outside a cluster only a client that has sent CLIENT CAPA redirect needs READONLY.
func readOnly(c *command.Context) error { return mark(c, client.ReadOnly, true) }

// readWrite is READWRITE. It undoes READONLY.
func readWrite(c *command.Context) error { return mark(c, client.ReadOnly, false) }

// mark sets or clears a flag that the router reads. Errors: errNoCluster outside cluster mode. The exception is
// ReadOnly for a client that has sent CLIENT CAPA redirect.
func mark(c *command.Context, f client.Flags, on bool) error {
	if !c.Space.BySlot() && (f != client.ReadOnly || !c.Client.Is(client.Redirects)) {
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
