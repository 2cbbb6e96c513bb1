package engine

import (
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/part"
)

// Access: which user a client is, and what the user's rights allow. engine/acl decides; the code here calls it.
//
// engine.U1. A client in the registry has the flag Restricted exactly while its user's rights are not full. So a client
// with full rights takes the short path through admission. A change of rights visits its clients once.
// engine.U2. Only a client's own commands write Authenticated, because its loop reads the field outside the turn.

// SetUser makes u the user of cl (engine.U1). It does not change cl.Authenticated: the caller sets that.
func (c *Core) SetUser(cl *client.Client, u *acl.User) {
	c.assertHeld()
	cl.User = u
	if u.Rights().Full() {
		cl.Flags &^= client.Restricted
	} else {
		cl.Flags |= client.Restricted
	}
	if c.clients.Get(cl.ID) == cl {
		c.setLevel(cl)
		c.levelsChanged()
	}
}

// rightsChanged keeps engine.U1 after a user's rights have become full, or have stopped being full.
func (c *Core) rightsChanged(u *acl.User) {
	for cl := range c.clients.All {
		if cl.User == client.User(u) {
			c.SetUser(cl, u)
		}
	}
}

// rightsOf returns the rights of cl's user. It returns nil for a Fake that may do everything.
func rightsOf(cl *client.Client) *acl.Rights {
	if cl.User == nil {
		return nil
	}
	return cl.User.(*acl.User).Rights()
}

// nextDB returns the database of cl's next command. Between MULTI and EXEC, SELECTs in the queue count. They do not
// count if EXEC can only abort, as in Valkey 9.1.
func nextDB(cl *client.Client) int {
	if cl.Queue != nil && !cl.Is(client.DirtyExec) {
		return cl.Queue.DB
	}
	return cl.DB
}

// checkRights reports whether cl's user may make the call in database db.
func (c *Core) checkRights(cl *client.Client, db int, call part.Call) (d acl.Decision) {
	if cl.Conn != nil && !cl.Is(client.Restricted) { // engine.U1
		return d
	}
	if r := rightsOf(cl); r != nil && !r.Full() {
		d = c.users.Check(r, call.Spec, call.Args, acl.Place{DB: db, Of: c.space.Len()})
	}
	return d
}

// deny records a refused call. For a script's client, the record shows the client that called the script.
func (c *Core) deny(cl *client.Client, d acl.Decision, from acl.Origin, call part.Call) {
	c.logDenied(cl, acl.Entry{Reason: d.Reason, Origin: from, Object: d.Object(call.Spec, call.Args), User: cl.UserName()})
}

// DenyAuth records a wrong name or password. command is the name of the command that sent it.
func (c *Core) DenyAuth(cl *client.Client, command, user []byte) {
	c.assertHeld()
	c.logDenied(cl, acl.Entry{Reason: acl.DeniedAuth, Origin: originOf(cl), Object: string(command), User: string(user)})
}

// CountErrors counts n replies with err that were sent outside the turn. Turn only.
func (c *Core) CountErrors(err error, n int64) {
	c.assertHeld()
	c.meter.countErrors(err, uint64(n))
}

func (c *Core) logDenied(cl *client.Client, e acl.Entry) {
	if cl.Is(client.Fake) && c.stack.depth > 0 {
		cl = c.stack.frames[0].Client
	}
	if c.hooks.Denied != nil {
		c.hooks.Denied(cl, e)
	}
}

func originOf(cl *client.Client) acl.Origin {
	if cl.Is(client.Multi) {
		return acl.InMulti
	}
	return acl.TopLevel
}

// ReadsAnyKey implements command.Core.
func (c *Core) ReadsAnyKey(ctx *command.Context) bool {
	c.assertHeld()
	r := rightsOf(ctx.Client)
	at := acl.Place{DB: ctx.DB.Index(), Of: c.space.Len()}
	return r == nil || c.users.CheckWithAnyKey(r, ctx.Spec, ctx.Args, at, command.KeyAccess)
}
