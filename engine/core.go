// Package engine is the core: it executes every command of every connection in one total order.
//
// Owner: the holder of the turn (R1). A loop takes the turn for a batch, a duty takes it for a slice.
// Never: waits for a background goroutine (R5), touches a socket, or imports a package above it. It knows those
// packages only by the interfaces of neighbours.go and the listeners of engine/part.
// Start here: Serve is the way of a request. The files form layers, and each uses only those below it:
//
//	core.go, follow.go, replay.go         a batch, our primary's stream, a log
//	lend.go, duties.go, ritual.go         what has turns: lent commands, duties; what belongs to each turn
//	serving.go, inner.go, guest.go        blocked clients go on; commands of commands; commands of guests
//	gates.go                              what may refuse a call: access.go, route.go, latch.go, eviction.go, …
//	invoke.go, propagate.go, push.go      a handler runs; its effects and its messages leave
//	laps.go, stalls.go                    how long it took
//	state.go                              what the core remembers
//	waiting.go, unit.go, pause.go, …      mechanisms that do not know the core
package engine

import (
	"runtime/pprof"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/invariant"
	"spindle/protocol"
)

// turnTime is the maximum length of a batch's turn, in nanoseconds. The rest of the batch then gets another turn, after
// other clients.
const turnTime = int64(2 * time.Millisecond)

// importTime replaces turnTime for the source of slots that move here. Its keys may take longer than clients' requests.
const importTime = turnTime / 4

// Serve runs a batch: the way of a request through the core.
//
// It takes the turn and runs the requests in order, until one stops the client or turnTime is over. Then it passes the
// effects to sinks and neighbours, and releases the turn. It runs at least one request, unless the client is stopped.
func (c *Core) Serve(b *protocol.Batch) {
	c.inTurn(batchTurn, func() { c.serve(b.Session.(*client.Client), b) })
}

// serve runs one of cl's batches. Turn only.
func (c *Core) serve(cl *client.Client, b *protocol.Batch) {
	c.replyInto(cl, b.Reply)
	if cl.Reading, cl.LastMs = b.Unread, c.nowMs; b.Timed {
		c.batch = b
	}
	c.pushes.here, cl.AckShown = cl, 0
	if n := len(b.Requests); n > 0 {
		cl.Reading += b.Requests[n-1].End
	}
	b.Reply.RESP3 = cl.Protocol == 3
	if c.clients.Costs.Pressed() {
		c.evictClients()
	}
	if cl.Is(client.Importing) {
		c.Trusting(func() { c.run(cl, b) })
	} else {
		c.run(cl, b)
	}
	c.batch = nil
	c.space.Again(nil) // the batch's bytes are lent
	cl.Note()
	if c.nanos >= c.duties.at {
		c.runDuties() // before settle, which sends their effects
	}
	cl.TurnSeen = c.number
	b.Turn, b.NowMs, b.Level = c.number, c.nowMs, cl.AckShown
}

// replyInto sets the reply of cl's next commands. A command that has lent the turn keeps its own reply.
func (c *Core) replyInto(cl *client.Client, r *protocol.Reply) {
	if c.lent == nil || c.lent.p.cl != cl {
		cl.Out = r
	}
}

// run executes the requests of a batch, a few at a time so that their cache misses overlap.
func (c *Core) run(cl *client.Client, b *protocol.Batch) {
	c.assertHeld()
	ends := c.meter.turnBegan + turnTime
	if cl.Is(client.Importing) {
		ends = c.meter.turnBegan + importTime
	}
	// The core remembers a single request's key, because the next turn, even another client's, may well use the same
	// key.
	alone := len(b.Requests) == 1
	end := b.From // of the request before
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
				b.Soon = worksOn(cl)
				return
			}
			if size := ahead[i].End - end; size >= c.large.noted || ahead[i].Bulk != nil {
				c.large.sent = size
				if ahead[i].Bulk != nil {
					c.large.sent = c.requestBytes(ahead[i].Args)
				}
			}
			end = ahead[i].End
			done := false
			if i == sampled {
				done = c.executeSampled(cl, &ahead[i], c.specs[i], weight)
			} else {
				done = c.execute(cl, &ahead[i], c.specs[i])
			}
			c.large.sent = 0
			if !done {
				c.lap()
				// The request stays unread. A lent command surely ends, and so do a latch and a wait for the log's disk.
				b.Soon = c.lent != nil || cl.Is(client.Paused) && !c.pause.lasts()
				return
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
	b.Soon = worksOn(cl)
}

// cannotGoOn holds the flags with which a client's next request must wait.
const cannotGoOn = client.Blocked | client.CloseASAP | client.CloseAfter

// lookAhead finds the rows of the requests. If there are several requests, it starts the cache misses of their first
// keys. Successive requests that name the same key get it as the same slice. repeats reports whether there are any.
func (c *Core) lookAhead(cl *client.Client, requests []protocol.Request) (repeats bool) {
	db := c.space.DB(cl.DB)
	specs := c.specs[:len(requests)]
	var spec *command.Spec
	var name []byte // of the previous request, because pipelines repeat commands
	var last []byte // the last key whose cache miss was started, or is to be
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

// same reports whether two keys are equal. Keys that differ mostly differ at their ends.
func same(a, b []byte) bool {
	n := len(a)
	return n == len(b) && n > 0 && a[n-1] == b[n-1] && string(a) == string(b)
}

// execute runs one request. It returns false if the client must wait and the request must be offered again.
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

// muted ends the state that applies to one request. before holds cl's flags from before the request. If the client was
// silenced then and still is, muted drops what the command has replied since mark. (Otherwise mark is not set.) A
// transaction that turns replies off keeps the replies that it has made. muted always returns true: the request is
// done.
func (c *Core) muted(cl *client.Client, spec *command.Spec, mark protocol.Mark, before client.Flags) bool {
	if cl.Is(client.Asking) && !cl.Is(client.Multi) && !spec.Has(command.KeepsAsking) {
		cl.Flags &^= client.Asking
	}
	// A parked command has not replied yet.
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

// unanswered closes a replica whose command has replied since mark. The replica would take the reply for a part of its
// stream.
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

// manyArgs is the number of arguments from which a command is timed alone, even if its row is Fast or Brief. These
// flags promise little work for each argument, and the slow log must show an MGET or SADD of a hundred thousand.
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
		cl.LastCommand = spec.Full // the next commands of the run are the same
	}
	if c.labels != nil {
		pprof.SetGoroutineLabels(c.labels[spec.ID])
	}
	if c.slotStats != nil {
		c.stack.counted = c.countedOf(cl, spec, args) // EXEC's queue is still there
	}
	c.stack.dirty = c.meter.dirty
	mark := cl.Out.Mark()
	long := many || spec.Flags&(command.Fast|command.Brief) == 0
	if long {
		c.running.begin(cl, spec)
	}
	lent, _ := c.invoke(cl, args, bulk, spec, mark)
	if long {
		c.running.end()
	}
	if c.monitors.Len() != 0 {
		c.feedMonitors(cl, spec, args) // after the handler, which has hidden secrets
	}
	if lent {
		c.lendTurn(cl, args, spec, mark)
		return
	}
	if replied := cl.Out.Since(mark); c.large.sent != 0 || replied >= c.large.reply {
		if !cl.Is(client.Blocked) { // otherwise it is recorded when its wait ends
			c.noteSizes(cl, spec, args, c.stack.counted, c.large.sent, replied)
		}
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
	if cl.Flags&(client.Blocked|client.Tracking|unheard|client.Acks) != 0 {
		if cl.Is(client.Acks) {
			c.noteAcks(cl, spec)
		}
		c.noteRead(cl, spec, args)
		switch {
		case cl.Is(client.Blocked):
			invariant.That(readingOf(cl) == nil || cl.Out.Since(mark) == 0, "engine.X2: %s replied before its long read",
				spec.Full)
			c.watchLatency(commandEvent(spec), c.lapParked(cl))
		case cl.Is(unheard) && c.meter.calls > 0: // if calls is 0, the handler has had the call recorded
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
		c.serveReady() // now, because waiting clients come before this client's next command
		c.nanos = c.wall.Nanos()
	}
	if long || c.meter.precise {
		c.lap()
	}
	if c.slotStats != nil {
		c.stack.counted = uncounted
	}
}

// reject replies to a request that was refused.
func (c *Core) reject(cl *client.Client, spec *command.Spec, err error) {
	switch {
	case spec.Has(command.RunsQueue) && c.hooks.ExecRefused != nil:
		err = c.hooks.ExecRefused(cl, err)
	case cl.Is(client.Multi):
		cl.Flags |= client.DirtyExec
	}
	c.meter.rejected(spec, err) // under the code that the client gets
	if cl.Flags&(client.Primary|client.Replica|client.Importing) != 0 {
		c.complain(cl, spec, err)
	}
	cl.Out.Error(err)
}

// enqueue keeps a copy of a command for EXEC, because the request's bytes are lent (R2).
func (c *Core) enqueue(cl *client.Client, spec *command.Spec, args [][]byte) {
	if c.slotStats != nil {
		c.countBytes(c.countedOf(cl, spec, args), c.large.sent, 0)
	}
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
		cl.Queue = &client.Queue{DB: cl.DB}
	}
	if spec.Has(command.Selects) {
		if db := command.Database(kept[1], c.space.Len()); db >= 0 {
			cl.Queue.DB = db
		}
	}
	cl.Queue.Commands = append(cl.Queue.Commands, client.Queued{Args: kept, Spec: spec})
	flags := uint64(flagsOf(cl, spec, args))
	cl.Queue.Flags |= flags
	cl.Queue.Lacking |= ^flags
	cl.Queue.Bytes += total + 24*len(args) + 48
	cl.Out.Simple("QUEUED")
}

// executeSampled is execute for a request that is in the sample.
func (c *Core) executeSampled(cl *client.Client, req *protocol.Request, spec *command.Spec, weight float64) bool {
	s := &c.sampler
	timed := false
	if s.timed--; s.timed < 0 {
		s.timed, timed = timedOf-1, true
		c.lap()
	}
	began, out, mark, ran := c.nanos, cl.Out, cl.Out.Mark(), cl.CommandsRun
	if !c.execute(cl, req, spec) {
		return false
	}
	if cl.CommandsRun == ran || cl.Is(client.Blocked) || out != cl.Out {
		if p := readingOf(cl); p != nil {
			p.weight = weight
		}
		return true // it was refused or queued, or it has not ended
	}
	if spec == nil || spec.Subs != nil {
		spec, _ = c.catalogue.Resolve(spec, req.Args)
	}
	if spec == nil || !spec.HasKeys(command.IncludeNotKeys) {
		return true
	}
	nanos := 0.0
	if timed {
		c.lap()
		nanos = float64(c.nanos-began) * timedOf
	}
	bytes := max(out.Since(mark), 0)
	for _, a := range req.Args {
		bytes += len(a)
	}
	c.sample(cl, spec, req.Args, weight, float64(bytes), nanos)
	return true
}
