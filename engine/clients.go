package engine

import (
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/memory"
	"spindle/protocol"
)

// deniedText is the reply to remote clients in protected mode, while the default user needs no password.
const deniedText = "-DENIED Redis is running in protected mode because protected mode is enabled and no password is " +
	"set for the default user. " +
	"In this mode connections are only accepted from the loopback interface. " +
	"If you want to connect from external computers to Redis you may adopt one of the following solutions: " +
	"1) Just disable protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface by " +
	"connecting to Redis from the same host the server is running, " +
	"however MAKE SURE Redis is not publicly accessible from internet if you do so. Use CONFIG REWRITE to make this " +
	"change permanent. " +
	"2) Alternatively you can just disable the protected mode by editing the Redis configuration file, and setting the " +
	"protected mode option to 'no', and then restarting the server. " +
	"3) If you started the server manually just for testing, restart it with the '--protected-mode no' option. " +
	"4) Set up an authentication password for the default user. " +
	"NOTE: You only need to do one of the above things in order for the server to start accepting connections from the " +
	"outside.\r\n"

// enter adds a new client, as the default user. Turn only.
func (c *Core) enter(cl *client.Client) {
	c.assertHeld()
	cl.ID, cl.CreatedMs = c.clients.NextID(), c.nowMs
	cl.Authenticated = c.users.DefaultIsOpen()
	c.SetUser(cl, c.users.Default())
	cl.LastMs = c.nowMs
	c.clients.Add(cl)
	c.countLevel(cl)
	c.meter.connections++
}

// certify makes cl the first enabled user in names. If none is enabled, the last name goes into ACL LOG. Turn only.
func (c *Core) certify(cl *client.Client, names []string) {
	for _, name := range names {
		if user := c.users.Find([]byte(name)); user != nil && user.Rights().Enabled() {
			cl.Authenticated = true
			c.SetUser(cl, user)
			return
		}
	}
	if n := len(names); n > 0 {
		c.logDenied(cl, acl.Entry{Reason: acl.DeniedCertificate, Origin: acl.TopLevel, User: names[n-1]})
	}
}

// NewClient returns a client that has not entered, or the text that refuses its connection. Any goroutine.
func (c *Core) NewClient(conn protocol.Conn) (cl *client.Client, refusal []byte) {
	user := c.users.Default()
	if user.Rights().NoPass() && c.settings.ProtectedMode.Get() && !protocol.IsLocal(conn) {
		return nil, []byte(deniedText)
	}
	cl = &client.Client{Conn: conn, Protocol: 2, LastCommand: "NULL", MaxBulk: c.common.MaxBulk}
	if conn.Unix() {
		cl.Flags |= client.Unix
	}
	return cl, nil
}

// forget removes cl from everything that refers to it.
func (c *Core) forget(cl *client.Client) {
	c.assertHeld()
	c.unpark(cl)
	c.pause.forget(cl)
	c.throttle.forget(cl)
	c.StopMonitor(cl)
	if c.hooks.Gone != nil {
		c.hooks.Gone(cl)
	}
	c.forgetLevel(cl)
	c.clients.Remove(cl)
}

// recordsFrom is the size from which an argument's memory is prepared for the turn that splits it into chunks. Without
// that, this turn took 3 ms for 512 MB. Smaller arguments take it as much time as a few page faults.
const recordsFrom = 32 << 20

// Reserve implements protocol.Handler. It provides memory for a large argument, in which the keyspace can keep the
// argument as a value's chunks. It is called on a loop, outside the turn.
//
// The memory counts as the client's at once (Reserved), so no turn counts it as data. The loop reports its cost when it
// is filled.
func (c *Core) Reserve(session any, n int) (*protocol.Bulk, *protocol.Error) {
	cl := session.(*client.Client)
	b := &protocol.Bulk{}
	c.take()
	ref, err := c.space.Heap().TryAlloc(n, memory.Values)
	if err == nil {
		cl.Reserve(n)
	}
	c.release()
	if err != nil {
		return nil, protocol.ErrNoMemory
	}
	if n >= recordsFrom {
		go memory.TouchRecords(ref, n)
	}
	b.Ref, b.Data = uint64(ref), memory.Bytes(ref, n)
	b.Release = func(b *protocol.Bulk) { c.releaseBulk(cl, b) }
	return b, nil
}

// releaseBulk frees the memory that no command has kept.
func (c *Core) releaseBulk(cl *client.Client, b *protocol.Bulk) {
	if b.Ref == 0 {
		return
	}
	c.take()
	c.space.Heap().Free(memory.Ref(b.Ref), memory.Values)
	cl.Reserve(-len(b.Data))
	c.release()
	b.Ref, b.Data = 0, nil
}

// Kill closes cl at once. If cl's command is running (isCaller), it closes cl when the reply has been sent.
func (c *Core) Kill(cl *client.Client, isCaller bool) {
	c.assertHeld()
	if isCaller {
		cl.Flags |= client.CloseAfter
		switch {
		case c.lent != nil && c.lent.p.cl == cl: // its reply does not exist yet: over closes it
		case c.lent == nil && c.stack.depth > 1 && c.stack.frames[0].Client == cl: // a later command of its EXEC may lend
			c.Between(func() { cl.Conn.Close(true) })
		default:
			cl.Conn.Close(true)
		}
		return
	}
	c.unpark(cl) // the next client in line may be served
	cl.Flags |= client.CloseASAP
	cl.Conn.Close(false)
}

// Expel is Kill for a client that another client's command closes, or that costs too much. The core forgets the client
// at once, not when its loop has closed it. So the next command does not see it, and the figures are right. Do not call
// Expel during a walk of sinks or of replicas.
func (c *Core) Expel(cl *client.Client, isCaller bool) {
	c.assertHeld()
	if c.Kill(cl, isCaller); !isCaller {
		c.forget(cl)
	}
}

// speaksHTTP reports whether a request is the first line of HTTP, or its Host header. A web page can make a browser
// send HTTP to this port, whose lines would be taken for commands.
func speaksHTTP(name []byte) bool { return command.Is(name, "POST") || command.Is(name, "HOST:") }

// repel closes the connection of a client that speaks HTTP, without a reply.
func (c *Core) repel(cl *client.Client) {
	if c.hooks.Attack != nil {
		c.hooks.Attack(cl)
	}
	c.Kill(cl, false)
}

// ExpelUser closes the clients of a deleted user. They become the default user. So the rest of a transaction that
// deletes its own user runs as the default user, and its replies are not sent.
func (c *Core) ExpelUser(u *acl.User, caller *client.Client) {
	c.assertHeld()
	var doomed []*client.Client // first chosen, then closed: closing changes the registry
	for cl := range c.clients.All {
		if cl.User == client.User(u) {
			doomed = append(doomed, cl)
		}
	}
	for _, cl := range doomed {
		c.SetUser(cl, c.users.Default())
		c.Expel(cl, cl == caller)
	}
}
