package engine

import (
	"time"

	"spindle/engine/client"
	"spindle/engine/data/memory"
	"spindle/protocol"
)

// deniedText refuses a stranger while nobody has chosen who may come in.
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

// Open implements protocol.Handler: a client arrives.
func (c *Core) Open(conn protocol.Conn) (session any, refusal []byte) {
	cl, refusal := c.NewClient(conn)
	if cl == nil {
		return nil, refusal
	}
	c.Do(func() { c.enter(cl) })
	return cl, nil
}

// enter takes a new client in, as the default user. Turn only.
func (c *Core) enter(cl *client.Client) {
	c.assertHeld()
	cl.ID, cl.CreatedMs = c.clients.NextID(), c.nowMs
	cl.Authenticated = c.users.DefaultIsOpen()
	c.SetUser(cl, c.users.Default())
	cl.LastMs = c.nowMs
	c.clients.Add(cl)
	c.meter.connections++
}

// NewClient returns a client that has not entered, or the text that refuses the connection. Any goroutine.
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

// Malformed implements protocol.Handler: what the client sent is no request. Who wants no reply to what comes next gets
// none to this, and who waits for one to what came before gets that first.
func (c *Core) Malformed(session any, err *protocol.Error) (v protocol.Verdict) {
	cl := session.(*client.Client)
	c.Do(func() {
		if cl.Is(client.Blocked) {
			v = protocol.Wait
			return
		}
		c.meter.countError(err)
		if cl.Is(silenced | client.ReplySkipNext) {
			v = protocol.Leave
		}
	})
	return v
}

// Closed implements protocol.Handler: a client's connection is gone.
func (c *Core) Closed(session any) {
	cl := session.(*client.Client)
	c.Do(func() {
		if c.clients.Get(cl.ID) == cl { // else it was expelled
			c.forget(cl)
		}
	})
}

// forget takes cl out of everything that knows it.
func (c *Core) forget(cl *client.Client) {
	c.assertHeld()
	c.unpark(cl)
	c.pause.forget(cl)
	c.StopMonitor(cl)
	if c.hooks.Gone != nil {
		c.hooks.Gone(cl)
	}
	c.clients.Remove(cl)
}

// Reserve implements protocol.Handler: memory for a large argument, where the keyspace can keep it as a value's chunks.
// It is called on a loop, outside the turn.
//
// What is lent is the client's at once (Reserved), so that no turn takes it for data; what it costs the loop tells when
// it is filled.
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
	b.Ref, b.Data = uint64(ref), memory.Bytes(ref, n)
	b.Release = func(b *protocol.Bulk) { c.releaseBulk(cl, b) }
	return b, nil
}

// releaseBulk gives back what no command has kept.
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

// Kill closes cl: at once, or, if it is the one whose command is running, when its reply has left.
func (c *Core) Kill(cl *client.Client, isCaller bool) {
	c.assertHeld()
	if isCaller {
		cl.Flags |= client.CloseAfter
		cl.Conn.Close(true)
		return
	}
	c.unpark(cl) // what it waits for goes to those behind it
	cl.Flags |= client.CloseASAP
	cl.Conn.Close(false)
}

// Expel is Kill of a client by another's command, or because of what it costs: it is forgotten at once, not when its
// loop has closed it, so that the next command does not see it any more, and the figures are right from here on. Not
// from within a walk of sinks, or of replicas.
func (c *Core) Expel(cl *client.Client, isCaller bool) {
	c.assertHeld()
	if c.Kill(cl, isCaller); !isCaller {
		c.forget(cl)
	}
}

// StartMonitor has cl shown every command from the next on.
func (c *Core) StartMonitor(cl *client.Client) {
	c.assertHeld()
	if cl.Is(client.Monitor) {
		return
	}
	cl.Flags |= client.Monitor
	if c.watchers == nil {
		c.watchers = map[*client.Client]*client.Seat{}
	}
	c.watchers[cl] = c.monitors.Add(cl)
}

// StopMonitor ends it.
func (c *Core) StopMonitor(cl *client.Client) {
	c.assertHeld()
	if !cl.Is(client.Monitor) {
		return
	}
	cl.Flags &^= client.Monitor
	c.monitors.Remove(c.watchers[cl])
	delete(c.watchers, cl)
}

// Now is the turn's instant in Unix ms.
func (c *Core) Now() int64 {
	c.assertHeld()
	return c.nowMs
}

// SteadyMs is the turn's instant as clock.Steady counts: for durations, which must not depend on the wall clock.
func (c *Core) SteadyMs() int64 {
	c.assertHeld()
	return c.steady + c.nanos/int64(time.Millisecond)
}

// TurnNumber is the number of the turn that is held.
func (c *Core) TurnNumber() uint64 {
	c.assertHeld()
	return c.number
}

// Clients is the registry. Turn only.
func (c *Core) Clients() *client.Registry {
	c.assertHeld()
	return c.clients
}
