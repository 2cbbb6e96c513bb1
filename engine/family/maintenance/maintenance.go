// Package maintenance tells clients about planned work on the server: CLIENT MAINT_NOTIFICATIONS and its pushes.
//
// Owner: the core; everything runs in a turn.
// Never: changes a role or closes a connection. Its callers do that, and report it here.
// Start here. The pushes have the form that go-redis and redis-py parse; no open source server sends them.
//
//	FAILING_OVER seq seconds          the role is about to move to another server
//	FAILED_OVER  seq                  it has moved, or stays here
//	MOVING       seq seconds address  connect to the address within that time; null: to the same name again
//	SMIGRATING   seq slots            slots are about to move to another node
//	SMIGRATED    seq [[from to slots]]
package maintenance

import (
	"net"
	"strconv"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// windowSeconds is the time that a change may take, as clients are told.
const windowSeconds = 15

// Notices holds the clients that asked for notifications, and the last role change that they were told. The zero
// Notices has no clients. A nil Notices tells no client.
type Notices struct {
	Push func(cl *client.Client, p []byte)

	asked map[*client.Client]endpoint
	seq   int64
	moved string // the new server of the role, "host:port"; "" while this server keeps it
	hands bool   // the role is being handed over: between HandingOver and Moved or FailedOver
}

// endpoint is the form in which a client wants the address in MOVING.
type endpoint uint8

const (
	byIP endpoint = iota
	byName
	same // no address: the client connects to the name it knows
)

// endpoints are the words after MOVING-ENDPOINT-TYPE. This server has one address, which is internal and external.
var endpoints = []struct {
	word string
	kind endpoint
}{{"INTERNAL-IP", byIP}, {"EXTERNAL-IP", byIP}, {"INTERNAL-FQDN", byName}, {"EXTERNAL-FQDN", byName}, {"NONE", same}}

// Rows returns the CLIENT subcommands.
func (n *Notices) Rows() []command.Spec {
	return []command.Spec{{Name: "maint_notifications", Arity: -3,
		Flags: command.Loading | command.Stale | command.NoScript, Run: n.notify}}
}

// notify is CLIENT MAINT_NOTIFICATIONS ON [MOVING-ENDPOINT-TYPE type] or OFF. Replies: OK. A RESP2 client gets no
// pushes until it has changed to RESP3.
func (n *Notices) notify(c *command.Context) error {
	switch {
	case command.Is(c.Args[2], "OFF") && len(c.Args) == 3:
		n.Forget(c.Client)
		c.Reply.OK()
		return nil
	case !command.Is(c.Args[2], "ON"):
		return errSwitch
	}
	kind := same
	switch {
	case len(c.Args) == 5 && command.Is(c.Args[3], "MOVING-ENDPOINT-TYPE"):
		at := 0
		for at < len(endpoints) && !command.Is(c.Args[4], endpoints[at].word) {
			at++
		}
		if at == len(endpoints) {
			return errEndpoint
		}
		kind = endpoints[at].kind
	case len(c.Args) != 3:
		return protocol.ErrSyntax
	}
	if n.asked == nil {
		n.asked = map[*client.Client]endpoint{}
	}
	n.asked[c.Client] = kind
	c.Reply.OK()
	return nil
}

// Forget removes a client that leaves, or that wants no more notifications.
func (n *Notices) Forget(cl *client.Client) { delete(n.asked, cl) }

// Clients returns the number of clients that asked for notifications.
func (n *Notices) Clients() int { return len(n.asked) }

// FailingOver tells clients that the role is about to move.
func (n *Notices) FailingOver() {
	n.push("FAILING_OVER", func(r *protocol.Reply, _ endpoint) int { r.Int(windowSeconds); return 1 })
}

// HandingOver records that this server follows the other server, which does not have the role yet.
func (n *Notices) HandingOver() {
	if n != nil {
		n.hands = true
	}
}

// FailedOver tells clients that this server is the primary, after a failover was abandoned or after a promotion.
func (n *Notices) FailedOver() {
	if n == nil {
		return
	}
	n.moved, n.hands = "", false
	n.push("FAILED_OVER", nil)
}

// Moved tells clients that the server at host:port has the role now. After that, Stranded returns true for them.
func (n *Notices) Moved(host string, port int) {
	if n == nil {
		return
	}
	n.push("FAILED_OVER", nil)
	n.hands = false
	n.moved = net.JoinHostPort(host, strconv.Itoa(port))
	isIP := net.ParseIP(host) != nil
	n.push("MOVING", func(r *protocol.Reply, kind endpoint) int {
		r.Int(windowSeconds)
		if kind == same || kind == byIP && !isIP {
			r.Null()
		} else {
			r.BulkString(n.moved)
		}
		return 2
	})
}

// Leaving tells clients that this server is about to stop.
func (n *Notices) Leaving() {
	n.push("MOVING", func(r *protocol.Reply, _ endpoint) int {
		r.Int(windowSeconds)
		r.Null()
		return 2
	})
}

// Waits reports whether a write of cl waits for the end of the hand-over. Otherwise it gets an error.
func (n *Notices) Waits(cl *client.Client) bool {
	return n != nil && n.hands && n.hears(cl)
}

// hears reports whether cl gets the pushes.
func (n *Notices) hears(cl *client.Client) bool {
	_, asked := n.asked[cl]
	return asked && cl.Protocol == 3
}

// Stranded reports whether cl was told to move, and now sends a write to this server nevertheless. Its connection is
// then closed instead of an error, because its library will send the write again to the new primary.
func (n *Notices) Stranded(cl *client.Client) bool {
	return n != nil && n.moved != "" && n.hears(cl)
}

// SlotMigrating tells clients that a slot is about to move to another node.
func (n *Notices) SlotMigrating(slot int) {
	n.push("SMIGRATING", func(r *protocol.Reply, _ endpoint) int { r.BulkString(strconv.Itoa(slot)); return 1 })
}

// SlotMigrated tells clients that a slot has moved. from and to are "host:port".
func (n *Notices) SlotMigrated(from, to string, slot int) {
	n.push("SMIGRATED", func(r *protocol.Reply, _ endpoint) int {
		r.Array(1)
		r.Array(3)
		r.BulkString(from)
		r.BulkString(to)
		r.BulkString(strconv.Itoa(slot))
		return 1
	})
}

// push pushes a notification to every client that asked for notifications and uses RESP3. more writes the elements
// after the notification's sequence number, and returns how many it wrote. more may be nil.
func (n *Notices) push(name string, more func(r *protocol.Reply, kind endpoint) int) {
	if n == nil || len(n.asked) == 0 {
		return
	}
	n.seq++
	made := map[endpoint][]byte{}
	for cl, kind := range n.asked {
		if cl.Protocol != 3 {
			continue
		}
		if made[kind] == nil {
			made[kind] = n.message(name, kind, more)
		}
		n.Push(cl, made[kind])
	}
}

func (n *Notices) message(name string, kind endpoint, more func(r *protocol.Reply, kind endpoint) int) []byte {
	rest, extra := protocol.Reply{RESP3: true}, 0
	if more != nil {
		extra = more(&rest, kind)
	}
	r := protocol.Reply{RESP3: true}
	r.Push(2 + extra)
	r.BulkString(name)
	r.Int(n.seq)
	r.Raw(rest.B)
	return r.B
}
