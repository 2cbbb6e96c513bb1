// Package commandtest is a core without loops, clocks or other clients, for tests of families. It runs one command, and
// returns its reply, its effects for the sinks and its keyspace events.
//
// Owner: the test; one goroutine.
// Never: in a server. Of the checks before a command it has only arity and MULTI. Start here.
package commandtest

import (
	"strings"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/protocol"
)

// A Core runs commands for a test and records their effects and events.
type Core struct {
	Space     *keyspace.Keyspace
	Catalogue *command.Catalogue
	Settings  *command.Settings
	Whole     *command.Whole
	Abort     func(cl *client.Client, why error) error // handles a refused EXEC; nil handles it like any error

	Mute    bool     // record neither, so that only the command itself costs time
	Effects []Effect // since the last Reset
	Events  []Event
	Subkeys []string // events about fields of hashes: "hset key field …"

	Bulk *protocol.Bulk // the next command's large last argument

	Beside bool // long commands read outside the turn, but at once
	Held   int  // what the last of them has passed to Reading.Hold

	AnyKey int // how often a command has asked whether it may read any key

	now    int64
	nextID int64
	depth  int
	frames [4]command.Context
}

// An Effect is one command in the form that the sinks get.
type Effect struct {
	DB   int
	Args []string
}

// An Event is one keyspace event.
type Event struct {
	DB        int
	Class     command.EventClass
	Name, Key string
}

// New returns a core with space and families, at the time nowMs. It sets space's hooks for expired keys and fields.
func New(space *keyspace.Keyspace, nowMs int64, families ...command.Family) (*Core, error) {
	catalogue, err := command.NewCatalogue(families...)
	if err != nil {
		return nil, err
	}
	c := &Core{Space: space, Catalogue: catalogue, Settings: &command.Settings{}, Whole: &command.Whole{}}
	c.Settings.Rows() // gives each its default
	space.Hooks.Expired = func(db int, key []byte) {
		c.Effects = append(c.Effects, Effect{db, []string{"DEL", string(key)}})
		c.Notify(command.EventExpired, "expired", db, key)
	}
	space.Hooks.FieldExpired = func(db int, key, field []byte) bool {
		c.Effects = append(c.Effects, Effect{db, []string{"HDEL", string(key), string(field)}})
		return true
	}
	space.Hooks.FieldsExpired = func(db int, key []byte, fields [][]byte, emptied bool) {
		c.NotifySubkeys(command.EventHash, "hexpired", db, key, fields, 1)
		if emptied {
			c.Notify(command.EventGeneric, "del", db, key)
		}
	}
	c.SetNow(nowMs)
	return c, nil
}

// SetNow sets the clock, in Unix ms.
func (c *Core) SetNow(ms int64) {
	c.now = ms
	c.Space.SetNow(ms)
}

// Now returns the time that SetNow has set.
func (c *Core) Now() int64 { return c.now }

// Client returns a new client of protocol 2 or 3.
func (c *Core) Client(protocolVersion int) *client.Client {
	c.nextID++
	return &client.Client{
		ID: c.nextID, Flags: client.Fake, User: everyone{}, Authenticated: true, Protocol: protocolVersion,
		Out: &protocol.Reply{RESP3: protocolVersion == 3},
	}
}

// everyone is the user of a test's clients.
type everyone struct{}

func (everyone) Name() string { return "default" }

// CanReadBeside implements command.Core.
func (c *Core) CanReadBeside(*command.Context) bool { return c.Beside }

// ReadBeside implements command.Core. It has no goroutine to read on, so it returns after read.
func (c *Core) ReadBeside(ctx *command.Context, read func(*command.Reading) error) {
	const steps = 128
	r := command.NewReading(ctx.Reply, ctx.Args, c.now, func() int { return steps }, c.Space.Store)
	if err := read(r); err != nil {
		ctx.Reply.Error(err)
	}
	c.Held = r.Held()
}

// Reset clears the recorded effects and events.
func (c *Core) Reset() {
	c.Effects, c.Events, c.Subkeys = c.Effects[:0], c.Events[:0], c.Subkeys[:0]
}

// checkedSizes is the largest number of keys that builds with invariant checks count after each command.
const checkedSizes = 1000

// Do runs one command of cl and returns the bytes of its reply.
func (c *Core) Do(cl *client.Client, args ...string) string {
	request := make([][]byte, len(args))
	for i, a := range args {
		request[i] = []byte(a)
	}
	cl.Out.Reset()
	c.Serve(cl, request)
	c.Space.CheckSizes(checkedSizes)
	for i := range request { // R2: a handler that keeps these bytes fails
		for j := range request[i] {
			request[i][j] = 0xDB
		}
	}
	var b strings.Builder
	for piece := range cl.Out.Pieces {
		b.Write(piece)
	}
	return b.String()
}

// Serve runs one command and writes its reply to cl.Out. With room in its buffers it allocates nothing itself.
func (c *Core) Serve(cl *client.Client, args [][]byte) {
	spec, err := c.Catalogue.Resolve(c.Catalogue.Lookup(args[0]), args)
	switch {
	case err != nil:
		switch isExec := spec.Has(command.RunsQueue); {
		case isExec && c.Abort != nil:
			err = c.Abort(cl, err)
		case cl.Is(client.Multi) && !isExec:
			cl.Flags |= client.DirtyExec
		}
		cl.Out.Error(err)
	case cl.Is(client.Multi) && !spec.Has(command.InMulti):
		enqueue(cl, spec, args)
	default:
		c.run(cl, spec, args)
	}
}

func enqueue(cl *client.Client, spec *command.Spec, args [][]byte) {
	if cl.Queue == nil {
		cl.Queue = &client.Queue{}
	}
	kept := make([][]byte, len(args))
	for i := range args {
		kept[i] = append([]byte(nil), args[i]...)
	}
	cl.Queue.Commands = append(cl.Queue.Commands, client.Queued{Args: kept, Spec: spec})
	cl.Out.Simple("QUEUED")
}

func (c *Core) run(cl *client.Client, spec *command.Spec, args [][]byte) error {
	ctx := &c.frames[c.depth]
	c.depth++
	ctx.Client, ctx.Args, ctx.Reply, ctx.Spec, ctx.Bulk = cl, args, cl.Out, spec, c.Bulk
	c.Bulk = nil
	ctx.Space, ctx.DB, ctx.Now, ctx.Dirty = c.Space, c.Space.DB(cl.DB), c.now, 0
	ctx.Settings, ctx.Whole, ctx.Core = c.Settings, c.Whole, c
	mark := cl.Out.Mark()
	err := spec.Run(ctx)
	if err != nil {
		cl.Out.Rollback(mark)
		cl.Out.Error(err)
	}
	if ctx.Effects.Replaced {
		for _, effect := range ctx.Effects.Commands {
			c.book(cl.DB, effect)
		}
	} else if ctx.Dirty != 0 && spec.Flags&(command.Write|command.MayReplicate) != 0 {
		c.book(cl.DB, args)
	}
	ctx.Effects.Reset()
	c.depth--
	return err
}

func (c *Core) book(db int, args [][]byte) {
	if c.Mute {
		return
	}
	e := Effect{DB: db}
	for _, a := range args {
		e.Args = append(e.Args, string(a))
	}
	c.Effects = append(c.Effects, e)
}

// Call implements command.Core.
func (c *Core) Call(outer *command.Context, spec *command.Spec, args [][]byte) (lent bool, err error) {
	return false, c.run(outer.Client, spec, args)
}

// Run implements command.Core.
func (c *Core) Run(cl *client.Client, args [][]byte) error {
	spec, err := c.Catalogue.Resolve(c.Catalogue.Lookup(args[0]), args)
	if err != nil {
		return err
	}
	if spec.Flags&command.Write != 0 && cl.Script != nil {
		cl.Script.Wrote = true
	}
	c.run(cl, spec, args)
	return nil
}

// Lend implements command.Core: there is no other client.
func (c *Core) Lend(*command.Context, command.Step) bool { return false }

// GiveWay implements command.Core: there is no other client.
func (c *Core) GiveWay(*command.Context) bool { return false }

// Tardy implements command.Core.
func (c *Core) Tardy() bool { return false }

// Show implements command.Core: there is no monitor.
func (c *Core) Show(*command.Context) {}

// Block implements command.Core. No key ever becomes ready here, so a wait with a deadline ends at once, and the clock
// moves to the deadline.
func (c *Core) Block(ctx *command.Context, w command.Wait) {
	if w.DeadlineMs != 0 && w.Timeout != nil {
		c.SetNow(max(c.now, w.DeadlineMs))
		w.Timeout(ctx)
	}
}

// ReadsAnyKey implements command.Core: no client is restricted here.
func (c *Core) ReadsAnyKey(*command.Context) bool { c.AnyKey++; return true }

// Notifies implements command.Core. Only the events overwritten and type_changed are disabled.
func (c *Core) Notifies(classes command.EventClass) bool {
	return classes&(command.EventOverwritten|command.EventTypeChanged) == 0
}

// Notify implements command.Core.
func (c *Core) Notify(class command.EventClass, event string, db int, key []byte) {
	if !c.Mute {
		c.Events = append(c.Events, Event{db, class, event, string(key)})
	}
}

// NotifySubkeys implements command.Core.
func (c *Core) NotifySubkeys(class command.EventClass, event string, db int, key []byte, names [][]byte, step int) {
	c.Notify(class, event, db, key)
	if c.Mute || len(names) == 0 {
		return
	}
	line := event + " " + string(key)
	for i := 0; i < len(names); i += step {
		line += " " + string(names[i])
	}
	c.Subkeys = append(c.Subkeys, line)
}
