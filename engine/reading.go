package engine

import (
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/reading"
	"spindle/internal/info"
	"spindle/internal/invariant"
	"spindle/protocol"
)

// Long reads: a command that reads many elements does its part in its turn. A goroutine then reads the elements from a
// view (a snapshot). The client waits, as for a command that works outside the turn (client.Busy). engine/reading has
// the goroutines.
//
// engine.X1. A call reads outside the turn only if it is the outermost command, of a client that can wait. So no other
// command of its unit follows, and its effects are complete.
// engine.X2. The client's next request runs after the reply of the long read was posted. Pushes to the client alone
// come after that reply (engine.O1). Messages of channels may come before it.
// engine.X3. A call is recorded when its reply is complete: the time in the turn and the time of reading, without
// waits. The latency monitor and the stall log get only the time in the turn, because others waited only for that.

// neverBeside are the flags of clients whose commands always read in the turn.
const neverBeside = client.Fake | client.DenyBlocking | client.Multi | client.Primary | client.Replica | client.Blocked

// CanReadBeside implements command.Core.
func (c *Core) CanReadBeside(ctx *command.Context) bool {
	c.assertHeld()
	cl := ctx.Client
	if c.lent != nil || c.stack.depth != 1 || cl.Conn == nil || cl.Is(neverBeside) || c.duties.loading || c.replaying ||
		c.hasHalted() || !c.reads.HasRoom(c.space.Heap().Used()) {
		return false
	}
	kept, limit := c.Kept()
	return limit == 0 || kept <= limit
}

// ReadBeside implements command.Core.
func (c *Core) ReadBeside(ctx *command.Context, read func(*command.Reading) error) {
	c.assertHeld()
	invariant.That(c.lent == nil && c.stack.depth == 1 && !ctx.Client.Is(neverBeside),
		"engine.X1: %s reads beside the turns", ctx.Spec.Full)
	cl := ctx.Client
	p := c.parkBusy(cl, ctx.Args, ctx.Spec)
	p.reading = &reading.Job{
		Client: cl, Read: read, Args: p.args, Now: c.nowMs,
		Reply: &protocol.Reply{RESP3: cl.Protocol == 3, Chunks: cl.Conn.Chunks()},
		Over:  func(j *reading.Job) { c.Do(func() { c.endReading(p) }) },
	}
	p.pushes = append(p.pushes, c.pushes.pending...) // of a key that has expired in the turn
	c.dropPending()
	p.wait.Left = func() { c.reads.Leave(p.reading) }
	c.reads.Begin(p.reading, c.meter.dirty, c.FreezeWithin)
}

// endReading replies to a long read that has ended, and records it. Turn only.
func (c *Core) endReading(p *parked) {
	cl, j := p.cl, p.reading
	c.reads.End(j)
	hits, misses := j.Lookups()
	c.space.Stats.Hits += hits
	c.space.Stats.Misses += misses
	if j.Err != nil {
		j.Reply.Reset()
		j.Reply.Error(j.Err)
		c.meter.failed(p.spec, j.Err)
	}
	slot := uncounted
	if c.slotStats != nil {
		slot = c.countedOf(cl, p.spec, p.args)
	}
	took := p.took + j.Took.Nanoseconds()
	c.done(cl, p.spec, p.args, ran{calls: 1, took: took, slot: slot})
	c.noteSizes(cl, p.spec, p.args, slot, c.requestBytes(p.args), j.Reply.Len())
	if p.weight != 0 {
		c.sample(cl, p.spec, p.args, p.weight, float64(c.requestBytes(p.args)+j.Reply.Len()), float64(took))
	}
	defer cl.Prepare(0)
	switch waits := c.waiting.byClient[cl] == p; {
	case waits && (j.Ended || j.Reply.Full()): // a Full reply ends the connection
		c.unpark(cl)
		c.postReply(cl, j.Reply, p.pushes)
		cl.Conn.Resume()
	default: // the client has left, or the server ends
		j.Reply.Discard()
		if waits {
			c.Kill(cl, false)
		}
	}
}

// ReadingSections returns INFO's figures of long reads. They are read in turns.
func (c *Core) ReadingSections() []info.Section {
	number := func(name string, of func(f reading.Figures) int64) info.Field {
		return info.Int(name, func() int64 { return of(c.reads.Figures()) })
	}
	return []info.Section{
		{Name: "Clients", Fields: []info.Field{
			number("long_reads_running", func(f reading.Figures) int64 { return int64(f.Started) }),
			number("long_reads_waiting", func(f reading.Figures) int64 { return int64(f.Waiting) }),
		}},
		{Name: "Memory", Fields: []info.Field{
			number("long_read_views", func(f reading.Figures) int64 { return int64(f.Views) }),
			number("long_read_view_bytes", func(f reading.Figures) int64 { return f.Kept }),
		}},
		{Name: "Stats", Fields: []info.Field{
			number("total_long_reads", func(f reading.Figures) int64 { return f.Total }),
			number("total_long_reads_stopped", func(f reading.Figures) int64 { return f.Stopped }),
		}},
	}
}
