package engine

import (
	"math/rand/v2"
	"slices"

	"spindle/engine/client"
	"spindle/internal/invariant"
	"spindle/protocol"
)

// Combining: the holder of the turn also runs the batches of loops that found the turn taken. Those loops then need not
// sleep, and the core's data stay in one processor's cache for several batches.
//
//	Offer ── the turn is free ──▶ run own ─▶ run published ─▶ unlock ─▶ is more published? ── no ──▶ done
//	  │                                            ▲                            │ yes, and the turn is free
//	  │ it is taken                                └────────────────────────────┘
//	  └─▶ publish ─▶ is it free now? ── no ──▶ out: the holder looks at the outboxes after it has unlocked
//
// engine.H1. No published batch is forgotten. Its loop publishes it before the loop finds the turn taken. So the holder
// at that moment looks at the outboxes after the publication. The holder then runs the batch, finds a later holder, or
// rings the loop.
// engine.H2. Only a loop runs the batches of other loops. Any other holder only rings loops that sleep, and these take
// the turn themselves.
// engine.H3. Each batch has its own turn, with its number. One goroutine combines no longer than turnTime, and then
// serves its own sockets.

// Still implements protocol.Mover. The connections' loops change in a turn, so within a turn they are constant.
func (c *Core) Still(f func(may func(session any) bool)) { c.Do(func() { f(c.mayMove) }) }

// rooted holds the flags of clients that stay on their loop, because their state or their messages may depend on it.
const rooted = client.Blocked | client.Busy | client.Replica | client.Primary | client.Monitor | client.PubSub |
	client.Paused | client.Throttled | client.Importing | client.CloseASAP | client.CloseAfter

// mayMove reports whether the client of a session may change its loop.
func (c *Core) mayMove(session any) bool {
	cl := session.(*client.Client)
	return !cl.Is(rooted) && !cl.IsSeated() && c.waiting.byClient[cl] == nil && (c.lent == nil || c.lent.p.cl != cl)
}

// TurnTime implements protocol.Mover.
func (c *Core) TurnTime() (nanos int64) {
	c.Do(func() { nanos = int64(c.meter.turnNanos) })
	return nanos
}

// Join implements protocol.Combiner.
func (t *turn) Join(ring func()) *protocol.Outbox {
	o := protocol.NewOutbox(ring)
	t.joining.Lock()
	defer t.joining.Unlock()
	var all []*protocol.Outbox
	if was := t.outboxes.Load(); was != nil {
		all = slices.Clone(*was)
	}
	all = append(all, o)
	t.outboxes.Store(&all)
	return o
}

// Offer implements protocol.Combiner.
func (c *Core) Offer(b *protocol.Batch, o *protocol.Outbox) (ran bool) {
	if invariant.Enabled && rand.N(4) == 0 { // checked builds publish although the turn is free, so that tests meet it
		o.Publish(b)
		c.published.Add(1)
		return false
	}
	if !c.tryTake() {
		return c.publish(b, o)
	}
	c.runBatch(b)
	c.combine()
	return true
}

// runBatch runs a batch in the turn that the caller holds. It returns the turn's last reading of the clock.
func (c *Core) runBatch(b *protocol.Batch) (nanos int64) {
	c.within(batchTurn, func() { c.serve(b.Session.(*client.Client), b) })
	return c.nanos
}

// publish hands b to the next holder of the turn. It returns true if b has already come back.
func (t *turn) publish(b *protocol.Batch, o *protocol.Outbox) (ran bool) {
	o.Publish(b)
	t.published.Add(1)
	t.Help()
	return b.Back()
}

// Help implements protocol.Combiner.
func (t *turn) Help() {
	if t.published.Load() != 0 && t.tryTake() {
		t.combine()
	}
}

// combine runs the published batches, and releases the turn. Turn only, on a loop.
func (t *turn) combine() {
	for ends := int64(0); ; {
		var room [8]*protocol.Outbox
		rings, over := room[:0], false
		if t.published.Load() != 0 {
			now := t.clockNanos()
			if ends == 0 {
				ends = now + turnTime
			}
			if now < ends {
				rings, now = t.runPublished(rings, ends)
			}
			over = now >= ends
		}
		t.unlock()
		for _, o := range rings {
			o.Ring()
		}
		switch {
		case t.published.Load() == 0:
			return
		case over: // engine.H3
			t.ringForWork()
			return
		case !t.tryTake():
			return // engine.H1: its holder looks
		}
	}
}

// runPublished runs the batches that are in the outboxes now, until the time ends. The next round begins at another
// outbox. It appends the outboxes whose batches have run to rings. Turn only.
func (t *turn) runPublished(rings []*protocol.Outbox, ends int64) (ran []*protocol.Outbox, now int64) {
	all := *t.outboxes.Load()
	t.next = (t.next + 1) % len(all)
	for i := range all {
		o := all[(t.next+i)%len(all)]
		b := o.Take()
		if b == nil {
			continue
		}
		rings = append(rings, o)
		for b != nil {
			next := b.Next()
			t.published.Add(-1)
			t.number++
			t.combined++
			now = t.runOther(b)
			b.Return()
			if b = next; now >= ends {
				o.PutBack(b)
				return rings, now
			}
		}
	}
	return rings, now
}
