package engine

import (
	"time"

	"spindle/engine/client"
	"spindle/engine/data/memory"
	"spindle/lazyfree"
)

// Duties are work that no client requests: expiry, eviction, time-outs, statistics, taking back freed memory. Each runs
// in slices inside turns. A busy server does them at the end of a batch's turn. On an idle server, RunDuties takes
// turns for them.

// Budgets of one slice. A slice delays every goroutine that waits for the turn, so it stays well under a millisecond.
const (
	dutyEvery     = int64(1 * time.Millisecond) // between slices while there is work
	ageTicks      = 20                          // ticks after which empty memory goes back to the system
	expirySlice   = 200 * time.Microsecond
	farBehindMs   = 25 // lateness in ms of the first key past its deadline
	waitsPerSlice = 256
	drainBudget   = 192 // of taking back what reclaimers have freed: some 10 µs a slice
	drainPiece    = 32  // between two readings of the clock, because slow memory takes ten times as long
	drainSlice    = 12 * time.Microsecond
	visitsPerTick = 128 // clients checked for time-outs
)

// SetActiveExpire is DEBUG SET-ACTIVE-EXPIRE.
func (c *Core) SetActiveExpire(on bool) {
	c.assertHeld()
	c.duties.activeOff = !on
}

// PauseCron is DEBUG PAUSE-CRON.
func (c *Core) PauseCron(on bool) {
	c.assertHeld()
	if c.duties.cronPaused = on; !on {
		c.duties.lastTick = 0 // the pause is no stall
	}
}

// RunDuties does the duties of an idle server until stop is closed. It needs its own goroutine and takes a turn only
// when something is due.
func (c *Core) RunDuties(stop <-chan struct{}) {
	timer := time.NewTimer(time.Millisecond)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-timer.C:
		case <-c.nudge:
		}
		timer.Reset(c.dutySlice())
	}
}

// dutySlice runs one slice and returns the time until the next duty is due.
func (c *Core) dutySlice() time.Duration {
	c.take()
	c.within(dutyTurn, c.runDuties)
	wait := c.idleFor()
	c.release()
	return wait
}

// clientsShare returns the time that clients have between two slices of late expiry: as long as a slice. It is half of
// that if expiry is more than farBehindMs late.
func (c *Core) clientsShare() time.Duration {
	if c.nowMs-c.space.NextDeadline() > farBehindMs {
		return expirySlice / 2
	}
	return expirySlice
}

// idleFor returns the time until the next deadline, tick or timeout. It is at least a millisecond, unless expiry is
// late.
func (c *Core) idleFor() time.Duration {
	if c.duties.behind {
		return expirySlice
	}
	next := c.duties.lastTick + tickEvery - c.nanos
	if c.duties.draining || c.duties.forgetting {
		next = 0
	}
	if c.space.Heap().Evacuation() != memory.EvacuationOver {
		next = min(next, c.defrag.next-c.nanos)
	}
	if at := c.space.NextDeadline(); at != 0 && c.mayExpire() {
		next = min(next, inNanos(at-c.nowMs))
	}
	if at := c.pause.nextEnd(); at != 0 {
		next = min(next, inNanos(at-c.SteadyMs())+int64(time.Millisecond))
	}
	if wait := c.throttle.wait(); wait != 0 {
		next = min(next, int64(wait))
	}
	if at := c.waiting.nextEnd(); at != 0 {
		next = min(next, inNanos(at-c.nowMs)+int64(time.Millisecond))
	}
	return time.Duration(max(next, dutyEvery))
}

// inNanos returns ms milliseconds in nanoseconds, or a minute if that is less. A client may wait for 300 years.
func inNanos(ms int64) int64 { return min(ms, 60_000) * int64(time.Millisecond) }

// runDuties does one slice of everything that is due.
func (c *Core) runDuties() {
	c.assertHeld()
	began := time.Duration(c.wall.Nanos())
	c.duties.at = int64(began) + dutyEvery
	if c.lent != nil {
		return // engine.N2
	}
	if c.pause.on {
		c.applyPause()
	}
	c.throttle.release(int64(began), false)
	c.duties.behind = false
	c.dutiesBegin(int64(began))
	if c.mayExpire() {
		_, c.duties.behind = c.space.ExpireDue(expirySlice)
		c.meter.expiryNanos += uint64(c.wall.Nanos() - int64(began))
		c.watchDuty("expire-cycle", began)
		if c.duties.behind {
			c.duties.at = c.wall.Nanos() + int64(c.clientsShare())
		}
		c.dutyDone("expiry")
	}
	if c.duties.forgetting {
		c.duties.forgetting = c.space.ForgetDue(expirySlice)
		c.dutyDone("expiry")
	}
	if c.eviction.barrier.Up {
		c.evict()
		c.dutyDone("eviction")
	}
	heap := c.space.Heap()
	more := c.drain(heap)
	if heap.Short() {
		c.Raise(c.shortage, true) // it lowers itself
	}
	if c.lazy != nil {
		c.lazy.Turn(c.takeJob)
		if laden := c.isLaden(heap); laden != c.duties.laden {
			c.duties.laden = laden
			if c.hooks.Laden != nil {
				c.hooks.Laden()
			}
		}
	}
	c.duties.draining = more || heap.Paging() // also after a job was handed out: its memory is taken back soon
	c.dutyDone("reclaiming")
	c.expireWaits(waitsPerSlice)
	c.defragSliceDue()
	c.dutyDone("defragmentation")
	if int64(began)-c.duties.lastTick >= tickEvery && !c.duties.cronPaused {
		c.space.CheckSizes(2000) // in checked builds
		c.tick(int64(began))
	}
	c.nanos = c.wall.Nanos()
	c.meter.dutyNanos += uint64(c.nanos - int64(began))
}

// Reclaimers have much to free when more than ladenFrom bytes wait for them, and until at most ladenUntil are left.
// These are about ten and one ms of work.
const (
	ladenFrom  = 16 << 20
	ladenUntil = 1 << 20
)

// isLaden reports whether reclaimers need a thread in addition to the loops' threads: they call the kernel, or have
// much to free.
func (c *Core) isLaden(heap *memory.Heap) bool {
	limit := int64(ladenFrom)
	if c.duties.laden {
		limit = ladenUntil
	}
	return heap.Paging() || heap.Reclaiming() > limit
}

// drain takes back some of the memory that reclaimers have freed.
func (c *Core) drain(heap *memory.Heap) (more bool) {
	more = heap.Drain(drainPiece)
	if !more {
		return false
	}
	until := c.wall.Nanos() + int64(drainSlice)
	for left := drainBudget - drainPiece; more && left > 0 && c.wall.Nanos() < until; left -= drainPiece {
		more = heap.Drain(drainPiece)
	}
	return more
}

// nextJob returns the next job for reclaimers. While their queue is full, it returns a job that this turn must do
// itself.
func (c *Core) nextJob() (job lazyfree.Job) {
	if c.lazy.Full() {
		job, _ = c.space.Heap().TakeFreeing()
	} else {
		job, _ = c.space.Heap().TakeJob()
	}
	return job
}

// mayExpire reports whether the core looks for keys past their deadline.
func (c *Core) mayExpire() bool {
	return !c.duties.activeOff && (!c.space.Replica || c.space.OwnKeys() > 0) && !c.space.Hiding && !c.space.Trusting
}

// tick does the work that is due ten times a second.
func (c *Core) tick(nanos int64) {
	c.watchTick(nanos)
	c.duties.lastTick = nanos
	if c.duties.ticks++; c.duties.ticks%ageTicks == 0 {
		c.space.Heap().Age()
	}
	c.duties.forgetting = !c.duties.activeOff && !c.space.Hiding && !c.space.Trusting && !c.space.HasForgotten()
	c.defragDue()
	c.meter.sample(nanos)
	c.sampler.tick(nanos, c.meter.commands)
	c.timeOutClients()
	c.noteClients()
	c.dutyDone("clients")
	for _, f := range c.hooks.Ticks {
		f(c.nowMs)
		c.tickDone(f)
	}
}

// timeOutClients closes clients that have been silent for longer than the timeout setting, a few at each tick.
func (c *Core) timeOutClients() {
	limit := c.settings.Timeout.Get() * 1000
	if limit == 0 {
		return
	}
	const exempt = client.Replica | client.Primary | client.Blocked | client.PubSub | client.Monitor |
		client.Importing
	left := max(visitsPerTick, c.clients.Len()/10)
	for cl := range c.clients.From(c.duties.nextVisit) {
		if left--; left < 0 {
			c.duties.nextVisit = cl.ID
			return
		}
		if cl.Flags&exempt == 0 && cl.Conn != nil && c.nowMs-max(cl.LastMs, cl.Conn.LastActive()) > limit {
			cl.Conn.Close(false)
		}
	}
	c.duties.nextVisit = 0
}
