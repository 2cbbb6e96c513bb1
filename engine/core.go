// Package engine is the core: it executes every command of every connection in one total order.
//
// Owner: whoever holds the turn (R1); a loop takes it for a batch, a duty for a slice.
// Never: waits for a background goroutine (R5), touches a socket, or knows what stands above it but by
// the interfaces of neighbours.go.
// Start here: Serve is the walk. inner.go runs the commands that commands run; laps.go times them. gates.go
// refuses, propagate.go tells the sinks, blocking.go parks clients, duties.go does what is due.
package engine

import (
	"context"
	"math"
	"runtime/pprof"
	"time"

	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/keyspace"
	"spindle/engine/insight"
	"spindle/engine/part"
	"spindle/internal/clock"
	"spindle/internal/invariant"
	"spindle/internal/slots"
	"spindle/lazyfree"
	"spindle/protocol"
)

// prefetchAhead is how many requests of a batch have their keys' cache misses under way at once. Past some
// ten, the processor has no more line-fill buffers and the first lines fall out of L1 again.
const prefetchAhead = 12

// turnTime is how long the turn of a batch lasts, in nanoseconds. What is left of the batch then goes on in a turn of
// its own, after others.
const turnTime = int64(2 * time.Millisecond)

// Core owns the data and runs the commands. Its methods say who may call them; all else needs the turn.
type Core struct {
	turn
	space     *keyspace.Keyspace
	catalogue *command.Catalogue
	clients   *client.Registry
	settings  *Settings
	common    *command.Settings
	whole     *command.Whole
	users     acl.Users
	hooks     part.Events
	lazy      *lazyfree.Queue
	takeJob   func() lazyfree.Job

	clock    func() time.Time
	started  time.Time // the origin of nanos
	steady   int64     // clock.Steady at started
	wall     clock.Wall
	nanos    int64  // monotonic, at the last reading of the clock in this turn
	nowMs    int64  // Unix ms: of the command that runs, and of all commands inside one
	stack    *stack // of the command that runs: one of stacks
	stacks   [2]stack
	lent     *lent                        // the command that has lent the turn, if one has
	specs    [prefetchAhead]*command.Spec // of the requests looked at ahead
	meter    meter
	sampler  sampler
	stalls   stallWatch
	batch    *protocol.Batch // that wants to know what has run; nil: none does
	sinks    []hearer
	barriers []*Barrier
	raised   int // barriers that are up
	pause    pause
	latches  latches
	slots    *slots.Current // who serves which slot; nil outside cluster mode
	waiting  waiting
	monitors client.Audience
	watchers map[*client.Client]*client.Seat // who has MONITOR, and where in monitors
	pushes   pushes
	channel  []byte // Notify's
	duties   duties
	later    []func() // at the end of this turn
	between  []func() // at the end of the open unit: Between
	gate     *protocol.Gate
	gated    bool // the gate knows of the open unit
	eviction eviction
	defrag   defrag
	loading  *Barrier
	shortage *Barrier

	streamBytes, streamExcess int64 // NoteStream

	halted       chan struct{} // closed by Halt
	anyInScripts bool          // DEBUG SET-DISABLE-DENY-SCRIPTS
	replaying    bool          // a command of a log runs: nobody is told of its effects
	replayed     replayed

	nudge  chan struct{}     // has RunDuties look at once
	labels []context.Context // by command.Spec.ID, while somebody profiles
}

// Parts is what a Core is built from.
type Parts struct {
	Space     *keyspace.Keyspace
	Catalogue *command.Catalogue
	Clients   *client.Registry
	Settings  *Settings
	Common    *command.Settings
	Lazy      *lazyfree.Queue
	Whole     *command.Whole
	Gate      *protocol.Gate   // holds back what is pushed; nil: nothing is held back
	Clock     func() time.Time // nil: the machine's; any goroutine may call it
}

// New joins the parts. The catalogue may come later (SetCatalogue), because some of its rows need the core.
func New(p Parts) *Core {
	c := &Core{
		space: p.Space, catalogue: p.Catalogue, clients: p.Clients, settings: p.Settings,
		common: p.Common, lazy: p.Lazy, whole: p.Whole, gate: p.Gate,
	}
	c.clock, c.wall = time.Now, clock.WallFrom(time.Now())
	if p.Clock != nil {
		c.clock, c.wall = p.Clock, clock.WallBy(p.Clock)
	}
	c.started = c.wall.Origin()
	c.steady = clock.SteadyAt(c.started)
	c.common.MaxMemory = &c.settings.MaxMemory
	c.nudge, c.halted = make(chan struct{}, 1), make(chan struct{})
	c.clients.Costs.OnPressure(c.pressClients)
	if invariant.Enabled {
		c.space.HeldBy(c.assertHeld)
		c.clients.HeldBy(c.assertHeld)
	}
	c.stack = &c.stacks[0]
	c.waiting.init()
	c.meter.init()
	c.sampler.init(uint64(c.started.UnixNano()))
	c.stalls.log = insight.NewStalls(c.settings.StallsKept.Get)
	c.stalls.limit, c.stalls.processCPU = math.MaxInt64, clock.ProcessCPU
	c.takeJob = c.nextJob
	c.eviction.barrier, c.loading, c.shortage = c.memoryBarrier(), c.loadingBarrier(), c.shortageBarrier()
	c.installKeyspaceHooks()
	c.users.OnChange(c.rightsChanged)
	if p.Catalogue != nil {
		c.users.Begin(p.Catalogue)
	}
	return c
}

// Serve runs a batch: the walk of a request through the core.
//
// It takes the turn and runs the requests in order, until one leaves the client unable to go on or turnTime is over.
// Then it hands what was decided to sinks and neighbours, and lets go of the turn. At least one request is run if the
// client can go on.
func (c *Core) Serve(b *protocol.Batch) {
	c.inTurn(batchTurn, func() { c.serve(b.Session.(*client.Client), b) })
}

// serve runs a batch of cl's. Turn only.
func (c *Core) serve(cl *client.Client, b *protocol.Batch) {
	if cl.Out, cl.Reading, cl.LastMs = b.Reply, b.Unread, c.nowMs; b.Timed {
		c.batch = b
	}
	c.pushes.here = cl
	if n := len(b.Requests); n > 0 {
		cl.Reading += b.Requests[n-1].End
	}
	b.Reply.RESP3 = cl.Protocol == 3
	if c.clients.Costs.Pressed() {
		c.evictClients()
	}
	c.run(cl, b)
	c.batch = nil
	c.space.Again(nil) // the batch's bytes are lent
	cl.Note()
	if c.nanos >= c.duties.at {
		c.runDuties() // before settle: what they decide leaves with the turn
	}
	cl.TurnSeen = c.number
	b.Turn, b.NowMs = c.number, c.nowMs
}

// Do runs f inside a turn of its own: for duties, loading and neighbours' goroutines. f must be short.
func (c *Core) Do(f func()) { c.inTurn(doTurn, f) }

// A turnKind says what a turn is for.
type turnKind uint8

const (
	batchTurn turnKind = iota // a client's batch, or our primary's stream
	dutyTurn                  // duties alone
	sliceTurn                 // a lent command
	doTurn                    // Do: the stall log names its function
	pieceTurn                 // a piece of a turn in which a script of a log gives way
)

// inTurn takes the turn for f, and releases it.
func (c *Core) inTurn(kind turnKind, f func()) {
	c.take()
	c.within(kind, f)
	c.release()
}

// within is all that belongs to a turn that the caller has taken: read the clock, run f, hand on what was decided,
// close the books.
func (c *Core) within(kind turnKind, f func()) {
	c.begin(kind)
	f()
	c.end(kind)
}

// begin reads the clock for the turn that was just taken.
func (c *Core) begin(kind turnKind) {
	c.assertHeld()
	c.nanos, c.nowMs = c.wall.Now()
	c.space.SetNow(c.nowMs)
	c.meter.begin(c.nanos)
	if kind < doTurn {
		c.meter.measureCPU(c.settings.MeasureTurnCPU.Get())
	}
}

// end hands on what the turn has decided, and closes its books.
func (c *Core) end(kind turnKind) {
	c.settle()
	if c.labels != nil {
		c.unlabel()
	}
	c.pushes.here = nil
	if kind >= doTurn {
		c.nanos = c.wall.Nanos()
	}
	if took := c.nanos - c.meter.turnBegan; kind == doTurn && took >= c.stalls.limit {
		c.watchDo(took)
	}
	c.meter.end(c)
}

// settle gives sinks and neighbours what the turn has decided so far.
func (c *Core) settle() {
	c.assertHeld()
	c.runLater()
	if len(c.waiting.ready) > 0 && c.lent == nil {
		c.serveReady()
		c.runLater()
	}
	if c.clients.Costs.Pressed() {
		c.evictClients()
	}
	for _, s := range c.sinks {
		s.TurnDone()
	}
}

// runLater runs what Later was given.
func (c *Core) runLater() {
	for i := 0; i < len(c.later); i++ { // a function may add another
		began := c.wall.Nanos()
		c.later[i]()
		c.watchLater(c.later[i], began)
		c.later[i] = nil
	}
	c.later = c.later[:0]
}

// Turns is how many turns there have been. Turn only.
func (c *Core) Turns() uint64 {
	c.assertHeld()
	return c.number
}

// Transacting says that the command that runs is part of a transaction. Turn only.
func (c *Core) Transacting() bool {
	c.assertHeld()
	return c.stack.depth > 0 && c.stack.frames[0].Spec.Has(command.RunsQueue)
}

// Later has f run at the end of this turn, when what the running command changed has been counted and told.
func (c *Core) Later(f func()) {
	c.assertHeld()
	c.later = append(c.later, f)
}

// run executes the requests of a batch, a few at a time so that their cache misses overlap.
func (c *Core) run(cl *client.Client, b *protocol.Batch) {
	c.assertHeld()
	ends := c.meter.turnBegan + turnTime
	// A single request's key is kept in mind: the next turn, perhaps another client's, may well be about the same.
	alone := len(b.Requests) == 1
	for b.Done < len(b.Requests) {
		ahead := b.Requests[b.Done:min(b.Done+prefetchAhead, len(b.Requests))]
		repeats := c.lookAhead(cl, ahead)
		sampled, weight := c.sampler.pick(len(ahead))
		for i := range ahead {
			if (repeats || alone) && len(ahead[i].Args) > 1 {
				c.space.Again(ahead[i].Args[1])
			}
			if cl.Flags&cannotGoOn != 0 {
				c.lap()
				b.Soon = c.lent != nil && c.lent.p.cl == cl // what is behind a script waits for that alone
				return
			}
			done := false
			if i == sampled {
				done = c.executeSampled(cl, &ahead[i], c.specs[i], weight)
			} else {
				done = c.execute(cl, &ahead[i], c.specs[i])
			}
			if !done {
				c.lap()
				b.Soon = c.lent != nil
				return // held back by a pause or a lent command: the request stays unread
			}
			if b.Done++; c.nanos >= ends && b.Done < len(b.Requests) && cl.Flags&cannotGoOn == 0 {
				c.lap()
				cl.Conn.Resume()
				return
			}
		}
		if c.meter.calls >= lapEvery {
			c.lap()
		}
	}
	c.lap()
}

// cannotGoOn is what keeps a client's next request from being looked at.
const cannotGoOn = client.Blocked | client.CloseASAP | client.CloseAfter

// lookAhead finds the rows of the requests and starts the cache misses of their first keys, if there are several.
// Requests that name the same key one after the other get it as one slice: it says whether there are any.
func (c *Core) lookAhead(cl *client.Client, requests []protocol.Request) (repeats bool) {
	db := c.space.DB(cl.DB)
	specs := c.specs[:len(requests)]
	var spec *command.Spec
	var name []byte // of the request before: pipelines repeat themselves
	var last []byte // the key that is on its way, or would be if another came
	fetching := false
	for i := range specs {
		args := requests[i].Args
		if string(args[0]) != string(name) {
			name = args[0]
			spec = c.catalogue.Lookup(name)
		}
		specs[i] = spec
		if spec == nil || len(args) < 2 || len(spec.Keys) == 0 {
			continue
		}
		key := args[1]
		if same(key, last) {
			args[1], repeats = last, true
			continue
		}
		if fetching {
			db.Prefetch(key)
		} else if last != nil {
			db.Prefetch(last)
			db.Prefetch(key)
			fetching = true
		}
		last = key
	}
	if fetching {
		c.space.Prefetched()
	}
	return repeats
}

// same compares two keys. Those that differ mostly do at their ends.
func same(a, b []byte) bool {
	n := len(a)
	return n == len(b) && n > 0 && a[n-1] == b[n-1] && string(a) == string(b)
}

// execute runs one request. It answers false if the client must wait and the request be offered again.
func (c *Core) execute(cl *client.Client, req *protocol.Request, spec *command.Spec) bool {
	c.assertHeld()
	var mark protocol.Mark
	var silent client.Flags
	if cl.Flags&(silenced|client.ReplySkipNext|client.Replica) != 0 {
		if cl.Is(client.ReplySkipNext) {
			cl.Flags = cl.Flags&^client.ReplySkipNext | client.ReplySkip
		}
		mark, silent = cl.Out.Mark(), cl.Flags&(silenced|client.Replica)
	}
	err := error(nil)
	if spec == nil || spec.Subs != nil || !spec.AcceptsArity(len(req.Args)) {
		if spec == nil && speaksHTTP(req.Args[0]) {
			c.repel(cl)
			return true
		}
		if spec, err = c.catalogue.Resolve(spec, req.Args); err != nil {
			c.reject(cl, spec, err)
			return c.muted(cl, spec, mark, silent)
		}
	}
	if c.raised != 0 || spec.Flags&wantsScrutiny != 0 || cl.Flags&wantsScrutinyOf != 0 || !cl.Authenticated {
		from := byClient
		if cl.Is(client.Primary) {
			from = byPrimary
		}
		switch verdict, err := c.admit(from, cl, callOf(cl, spec, req.Args)); verdict {
		case hold:
			return false
		case refuse:
			c.reject(cl, spec, err)
			return c.muted(cl, spec, mark, silent)
		case queue:
			c.enqueue(cl, spec, req.Args)
			return c.muted(cl, spec, mark, silent)
		case elsewhere:
			c.sendAway(cl, spec, err)
			return c.muted(cl, spec, mark, silent)
		}
	} else if c.slots != nil {
		if err := c.admitSlots(cl, spec, req.Args); err != nil {
			c.sendAway(cl, spec, err)
			return c.muted(cl, spec, mark, silent)
		}
	}
	if len(req.Args) >= manyArgs && spec.Flags&command.DenyOOM != 0 && !c.affords(req.Args) {
		c.reject(cl, spec, protocol.ErrNoMemory)
		return c.muted(cl, spec, mark, silent)
	}
	cl.CommandsRun++
	c.call(cl, req.Args, req.Bulk, spec)
	if cl.Flags&(silenced|client.Caching|client.Replica|client.Asking) != 0 {
		c.muted(cl, spec, mark, silent)
	}
	if len(c.pushes.pending) != 0 {
		c.flushPushes(cl) // engine.O3
	}
	return true
}

// silenced is a client that asked for no replies, or for none to the command that runs.
const silenced = client.ReplyOff | client.ReplySkip

// unheard is a client whose command, now that it has run, gets no reply. CLIENT REPLY SKIP has none itself.
const unheard = silenced | client.ReplySkipNext | client.Replica

// muted ends what holds for one request. It drops what the command has replied since mark when the client was silenced
// before it, as before says, and still is. (Else there is no mark.) A transaction that turns replies off keeps those it
// has made. It always answers true: the request is done.
func (c *Core) muted(cl *client.Client, spec *command.Spec, mark protocol.Mark, before client.Flags) bool {
	if cl.Is(client.Asking) && !cl.Is(client.Multi) && !spec.Has(command.KeepsAsking) {
		cl.Flags &^= client.Asking
	}
	// A parked command's reply is yet to come.
	if cl.Flags&(silenced|client.Caching|client.Replica) == 0 || cl.Is(client.Blocked) {
		return true
	}
	if before&cl.Flags&silenced != 0 {
		cl.Out.Rollback(mark)
	}
	if before&client.Replica != 0 {
		c.unanswered(cl, spec, mark)
	}
	cl.Flags &^= client.ReplySkip
	if !spec.Has(command.KeepsCaching) && !cl.Is(client.Multi) {
		cl.Flags &^= client.Caching
	}
	return true
}

// unanswered closes a replica whose command has replied since mark: it would take the reply for a part of its stream.
func (c *Core) unanswered(cl *client.Client, spec *command.Spec, mark protocol.Mark) {
	if cl.Out.Since(mark) == 0 {
		return
	}
	cl.Out.Rollback(mark)
	if c.hooks.Answered != nil {
		c.hooks.Answered(cl, spec)
	}
	c.Kill(cl, false)
}

// manyArgs is from how many arguments on a command is timed alone, whatever its row promises. Fast and brief are
// promises for each argument, and the slow log is there for an MGET or SADD of a hundred thousand.
const manyArgs = 64

// call runs an admitted command at the outermost depth and closes its unit of effects.
func (c *Core) call(cl *client.Client, args [][]byte, bulk *protocol.Bulk, spec *command.Spec) {
	c.assertHeld()
	many := len(args) >= manyArgs
	if many || spec != c.meter.spec {
		c.lap()
		c.meter.spec = spec
	}
	if c.meter.calls++; c.meter.calls == 1 {
		c.meter.client, c.meter.args = cl, args
		cl.LastCommand = spec.Full // those that follow are the same
	}
	if c.labels != nil {
		pprof.SetGoroutineLabels(c.labels[spec.ID])
	}
	mark := cl.Out.Mark()
	lent, _ := c.invoke(cl, args, bulk, spec, mark)
	if c.monitors.Len() != 0 {
		c.feedMonitors(cl, spec, args) // afterwards: the handler has blacked out what is secret
	}
	if lent {
		c.lendTurn(cl, args, spec, mark)
		return
	}
	if len(c.pushes.pending) != 0 && cl.Flags&silenced == 0 {
		c.flushPushes(cl) // engine.O2
	}
	if c.stack.unit.effects != 0 {
		c.stack.unit.loose = spec.Flags&command.TouchesArbitraryKeys != 0
		c.flushUnit()
		if c.hooks.Wrote != nil {
			c.hooks.Wrote(cl)
		}
	}
	if cl.Flags&(client.Blocked|client.Tracking|unheard) != 0 {
		c.noteRead(cl, spec, args)
		switch {
		case cl.Is(client.Blocked):
			c.watchLatency(commandEvent(spec), c.lapParked(cl))
		case cl.Is(unheard) && c.meter.calls > 0: // 0: the handler has had the call booked
			c.meter.unanswered++
		}
	}
	if c.gated || len(c.between) != 0 {
		c.unitEnded()
	}
	if c.slots != nil {
		c.stack.slots = nil
	}
	if len(c.waiting.ready) != 0 && c.lent == nil {
		c.lap()
		c.serveReady() // at once: the client's next command comes after those who waited
		c.nanos = c.wall.Nanos()
	}
	if many || spec.Flags&(command.Fast|command.Brief) == 0 || c.meter.precise {
		c.lap()
	}
}

// invoke runs a handler in a frame of its own and books what it did. mark is where its reply begins. If lent, the
// command goes on by a step, and its frame stays.
func (c *Core) invoke(cl *client.Client, args [][]byte, bulk *protocol.Bulk, spec *command.Spec, mark protocol.Mark) (
	lent bool, err error) {
	c.assertHeld()
	s := c.stack
	ctx := &s.frames[s.depth]
	s.depth++
	ctx.Client, ctx.Args, ctx.Bulk, ctx.Reply, ctx.Spec = cl, args, bulk, cl.Out, spec
	ctx.DB, ctx.Now, ctx.Dirty = c.space.DB(cl.DB), c.nowMs, 0
	ctx.Effects.Unheard = len(c.sinks) == 0 || c.replaying
	c.space.NoTouch = cl.Flags&client.NoTouch != 0
	err = spec.Run(ctx)
	if len(s.lends) != 0 {
		if l := s.lending(ctx); l != nil {
			l.mark = mark
			if ctx.Dirty != 0 || ctx.Effects.Replaced {
				c.book(ctx) // its arguments are lent
			}
			ctx.Dirty = 0
			return true, nil
		}
	}
	if err != nil {
		c.fail(ctx, err, mark)
	}
	if ctx.Dirty != 0 || ctx.Effects.Replaced {
		c.book(ctx)
	}
	s.depth--
	return false, err
}

// fail answers a command's error, in place of what the command has replied since mark.
func (c *Core) fail(ctx *command.Context, err error, mark protocol.Mark) {
	ctx.Reply.Rollback(mark)
	ctx.Reply.Error(err)
	c.meter.failed(ctx.Spec, err)
	if ctx.Client.Flags&(client.Primary|client.Replica) != 0 {
		c.complain(ctx.Client, ctx.Spec, err)
	}
}

// noteRead tells who tracks keys of a command that has run for cl, if cl caches what it reads.
func (c *Core) noteRead(cl *client.Client, spec *command.Spec, args [][]byte) {
	if cl.Is(client.Tracking) && c.hooks.Read != nil {
		c.hooks.Read(cl, spec, args)
	}
}

// finish answers the error of a command that went on by steps, and books what the command did.
func (c *Core) finish(ctx *command.Context, err error, mark protocol.Mark) {
	if err != nil {
		c.fail(ctx, err, mark)
	}
	if ctx.Dirty != 0 || ctx.Effects.Replaced {
		c.book(ctx)
	}
}

// frame prepares what every context of this core has in common.
func (c *Core) prepareFrames() {
	for i := range c.stacks {
		for j := range c.stacks[i].frames {
			ctx := &c.stacks[i].frames[j]
			ctx.Space, ctx.Core, ctx.Settings, ctx.Whole = c.space, c, c.common, c.whole
		}
	}
}

// reject answers a request that was not run.
func (c *Core) reject(cl *client.Client, spec *command.Spec, err error) {
	switch {
	case spec.Has(command.RunsQueue) && c.hooks.ExecRefused != nil:
		err = c.hooks.ExecRefused(cl, err)
	case cl.Is(client.Multi):
		cl.Flags |= client.DirtyExec
	}
	c.meter.rejected(spec, err) // under the code that the client hears
	if cl.Flags&(client.Primary|client.Replica) != 0 {
		c.complain(cl, spec, err)
	}
	cl.Out.Error(err)
}

// enqueue keeps a copy of a command for EXEC: the request's bytes are lent (R2).
func (c *Core) enqueue(cl *client.Client, spec *command.Spec, args [][]byte) {
	if cl.Flags&(client.DirtyCAS|client.DirtyExec) != 0 {
		cl.Out.Simple("QUEUED") // EXEC will not run it: keeping it would only cost memory
		return
	}
	total := 0
	for _, a := range args {
		total += len(a)
	}
	kept, bytes := make([][]byte, len(args)), make([]byte, 0, total)
	for i, a := range args {
		at := len(bytes)
		bytes = append(bytes, a...)
		kept[i] = bytes[at:len(bytes):len(bytes)]
	}
	if cl.Queue == nil {
		cl.Queue = &client.Queue{}
	}
	cl.Queue.Commands = append(cl.Queue.Commands, client.Queued{Args: kept, Spec: spec})
	flags := uint64(flagsOf(cl, spec, args))
	cl.Queue.Flags |= flags
	cl.Queue.Lacking |= ^flags
	cl.Queue.Bytes += total + 24*len(args) + 48
	cl.Out.Simple("QUEUED")
}

// Freeze takes a view of all databases as they are now, for a reader that must not see half a unit (R6): a file, a
// replica. Any number of views may live at once; each must be closed.
func (c *Core) Freeze() *keyspace.View {
	c.assertNothingTold("a view is frozen")
	return c.FreezeWithin()
}

// FreezeWithin is Freeze for the command that runs. The view may show what the command's own unit has written so far.
func (c *Core) FreezeWithin() *keyspace.View {
	c.assertHeld()
	v := c.space.Freeze()
	if c.hooks.Frozen != nil {
		c.hooks.Frozen()
	}
	return v
}

// SetCatalogue gives the core its commands, before the first Serve. It also makes the default user, who may run them
// all.
func (c *Core) SetCatalogue(k *command.Catalogue) {
	c.catalogue = k
	c.users.Begin(k)
}

// AddOwnBarriers adds the core's barriers behind those added so far: memory first, loading after what comes in between.
func (c *Core) AddOwnBarriers(between ...*Barrier) {
	c.AddBarrier(c.eviction.barrier)
	c.AddBarrier(c.shortage)
	for _, b := range between {
		c.AddBarrier(b)
	}
	c.AddBarrier(c.loading)
}
