package engine

import (
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/protocol"
)

// A guest is a client without a connection: the live page of the admin address, and its console. It may only read.

// NewGuest returns a guest with the rights of the user u. If u is nil, the guest is the server itself, which may read
// everything.
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

// Consult runs one command as the guest cl. It refuses a guest where it would refuse a client. A guest never waits:
// where a client would wait, the guest gets an error. The command is counted like a client's. Turn only.
//
// Lifetime: args are lent until Consult returns. cl.Out has the reply, and pieces of it may be lent. The owner of cl
// reads the reply before the turn ends, and resets cl.Out.
// Errors: those of the catalogue and of admission. Then nothing was run. A command's own error is its reply.
func (c *Core) Consult(cl *client.Client, args [][]byte) error {
	c.assertHeld()
	spec, err := c.catalogue.Resolve(c.catalogue.Lookup(args[0]), args)
	if err == nil {
		_, err = c.admit(byGuest, cl, callOf(cl, spec, args))
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
	c.done(cl, spec, args, ran{calls: 1, took: took, last: took, held: took})
	return nil
}

// Observe is Consult for the server itself. The command is always admitted, and neither counted nor logged. args must
// not name a key, because the data may be incomplete, or a command may have lent the turn. Turn only.
//
// Lifetime and errors: those of Consult.
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

// invokeGuest runs an admitted command of a guest. It sends the effects of keys that the command found past their
// deadline.
func (c *Core) invokeGuest(cl *client.Client, spec *command.Spec, args [][]byte) {
	cl.LastCommand, cl.LastMs = spec.Full, c.nowMs
	_, _ = c.invoke(cl, args, nil, spec, cl.Out.Mark())
	if c.stack.unit.effects != 0 {
		c.flushUnit()
	}
	c.unitEnded()
}
