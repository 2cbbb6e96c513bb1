package engine

import (
	"fmt"
	"strings"

	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// A guest is a client without a connection, who asks by another door than a socket: the admin address's page and its
// console. It may only read.

// NewGuest is a client that asks as the user u. nil is the server itself, which may read everything.
func NewGuest(u *acl.User) *client.Client {
	cl := &client.Client{
		Flags: client.Fake | client.DenyBlocking | client.NoTouch, Protocol: 3, Authenticated: true,
		LastCommand: "NULL", Out: &protocol.Reply{RESP3: true},
	}
	if u != nil {
		cl.User = u
	}
	return cl
}

var errGuestWrites = &protocol.Error{Code: "ERR", Text: "Only commands that read are allowed here"}

// guestMost is how many elements a guest's command of inParts may read: about a millisecond's work.
const guestMost = 10_000

// inParts has the commands that read a key or a database as a whole. For each it names the command that reads in parts.
var inParts = map[string]string{
	"keys": "SCAN", "hgetall": "HSCAN", "hkeys": "HSCAN", "hvals": "HSCAN", "smembers": "SSCAN", "sinter": "SSCAN",
	"sintercard": "SSCAN", "sunion": "SSCAN", "sdiff": "SSCAN", "zinter": "ZSCAN", "zintercard": "ZSCAN",
	"zunion": "ZSCAN", "zdiff": "ZSCAN", "sort_ro": "SSCAN, ZSCAN or LRANGE",
}

// admitWhole refuses a command of inParts that would read more than guestMost elements. A guest's command cannot lend
// the turn, so all clients would wait for it. Ranges and counts (LRANGE, SCAN with COUNT) are not looked at.
func (c *Core) admitWhole(cl *client.Client, call Call) error {
	parts := inParts[call.Spec.Full]
	if parts == "" {
		return nil
	}
	db, n := c.space.DB(cl.DB), int64(0)
	if call.Spec.Name == "keys" {
		n = int64(db.Len())
	}
	keys, err := call.Spec.AppendKeys(nil, call.Args, 0)
	if err != nil {
		return nil // the handler says what is wrong
	}
	for _, k := range keys {
		n += db.Elements(call.Args[k.Index])
	}
	if n <= guestMost {
		return nil
	}
	return &protocol.Error{Code: "ERR", Text: fmt.Sprintf("%s would read %d elements while all clients wait, "+
		"and %d are allowed here: use %s", strings.ToUpper(call.Spec.Name), n, guestMost, parts)}
}

// forGuests says whether a guest may run commands with these flags: none that changes data, waits or listens.
func forGuests(flags command.Flags) bool {
	listens := flags&command.PubSub != 0 && flags&command.NoScript != 0
	waits := flags&command.Blocking != 0 && flags&command.ReadOnly == 0 // who reads and cannot wait gets what is there
	return flags&(command.Write|command.MayReplicate) == 0 && !listens && !waits
}

// Consult runs one command as the guest cl. What refuses a client refuses a guest, but a guest never waits: where a
// client would, it is told why. The command is counted as a client's is. Turn only.
//
// Lifetime: args are lent until Consult returns. cl.Out has the reply, and pieces of it may be lent: its owner reads
// them before the turn ends, and resets it.
// Errors: those of the catalogue and of admission. Then nothing was run. A command's own error is its reply.
func (c *Core) Consult(cl *client.Client, args [][]byte) error {
	c.assertHeld()
	spec, err := c.catalogue.Resolve(c.catalogue.Lookup(args[0]), args)
	if err == nil {
		err = c.admitGuest(cl, callOf(cl, spec, args))
	}
	if err != nil {
		c.meter.rejected(spec, err)
		return err
	}
	began := c.wall.Nanos()
	c.invokeGuest(cl, spec, args)
	if c.monitors.Len() != 0 {
		c.feedMonitors(cl, spec, args)
	}
	took := c.wall.Nanos() - began
	c.done(cl, spec, args, 1, took, took)
	return nil
}

// Observe is Consult for the server's own eyes: it is admitted whatever stands in the way of clients, and leaves no
// trace in what is counted and logged. args must not name a key: data may not be whole, or lent. Turn only.
//
// Lifetime and errors: as Consult's.
func (c *Core) Observe(cl *client.Client, args [][]byte) error {
	c.assertHeld()
	spec, err := c.catalogue.Resolve(c.catalogue.Lookup(args[0]), args)
	if err != nil {
		return err
	}
	if !forGuests(spec.Flags) {
		return errGuestWrites
	}
	c.invokeGuest(cl, spec, args)
	return nil
}

// invokeGuest runs an admitted command of a guest's, and tells of keys that it has found past their deadline.
func (c *Core) invokeGuest(cl *client.Client, spec *command.Spec, args [][]byte) {
	cl.LastCommand, cl.LastMs = spec.Full, c.nowMs
	_, _ = c.invoke(cl, args, nil, spec, cl.Out.Mark())
	if c.stack.unit.effects != 0 {
		c.flushUnit()
	}
	c.unitEnded()
}

// admitGuest is admit for a guest, which cannot wait. A pause and a latch hold back writers only, so no guest.
func (c *Core) admitGuest(cl *client.Client, call Call) error {
	if !forGuests(call.Flags) {
		return errGuestWrites
	}
	if call.Flags&command.Protected != 0 {
		if err := c.admitProtected(cl, call.Spec); err != nil {
			return err
		}
	}
	if r := rightsOf(cl); r != nil && !r.Full() {
		if err := c.admitRestricted(cl, call.Spec, call.Args); err != nil {
			return err
		}
	}
	if c.slots != nil {
		if err := c.admitSlots(cl, call.Spec, call.Args); err != nil {
			return err
		}
	}
	if err := c.obstacle(cl, call); err != nil {
		return err
	}
	if call.Flags&command.AllowBusy == 0 && c.lent != nil {
		return c.Busy()
	}
	return c.admitWhole(cl, call)
}
