package engine

import (
	"reflect"
	"time"

	"spindle/internal/invariant"
)

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

// within does all that belongs to a turn that the caller has taken. It reads the clock, runs f, passes on the results
// and updates the statistics.
func (c *Core) within(kind turnKind, f func()) {
	c.begin(kind)
	f()
	c.end(kind)
}

// begin reads the clock for the turn that was just taken.
func (c *Core) begin(kind turnKind) {
	c.assertHeld()
	if invariant.Enabled {
		invariant.That(len(c.pushes.pending) == 0, "engine.O6: a turn begins with %q for another turn's client",
			c.pushes.pending)
	}
	c.nanos, c.nowMs = c.wall.Now()
	c.space.SetNow(c.nowMs)
	c.meter.begin(c.nanos)
	if kind < doTurn {
		c.meter.measureCPU(c.settings.MeasureTurnCPU.Get())
	}
}

// end passes on the results of the turn, and updates its statistics.
func (c *Core) end(kind turnKind) {
	c.settle()
	if c.labels != nil {
		c.unlabel()
	}
	if len(c.pushes.pending) != 0 {
		c.flushPushes(c.pushes.here) // engine.O6
	}
	c.pushes.here = nil
	if kind >= doTurn {
		c.nanos = c.wall.Nanos()
	}
	if took := c.nanos - c.meter.turnBegan; kind == doTurn && took >= c.stalls.limit {
		c.watchDo(took)
	}
	c.meter.end(c.nanos, c.started, &c.wall)
}

// settle passes the results of the turn so far to sinks and neighbours.
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

// Do runs f in a turn. Duties, loading and the goroutines of other packages use it. f must be short.
func (c *Core) Do(f func()) { c.doFor(f, f) }

// doFor runs f in a turn. The stall log names the function job.
func (c *Core) doFor(job, f func()) {
	c.inTurn(doTurn, func() {
		c.stalls.job = reflect.ValueOf(job).Pointer()
		f()
	})
}

// DoWithin is Do for a caller that waits no longer than patience. If no turn is free by then, f runs later, and
// DoWithin returns false. Until f has run, DoWithin accepts no other function.
func (c *Core) DoWithin(patience time.Duration, f func()) (ran bool) {
	if !c.waitsWithin.CompareAndSwap(false, true) {
		return false
	}
	done := make(chan struct{})
	go c.doFor(f, func() {
		f()
		c.waitsWithin.Store(false)
		close(done)
	})
	select {
	case <-done:
		return true
	case <-time.After(patience):
		return false
	}
}

// DoBetween is Do with Between: it runs f in a turn and then returns. It may wait as long as a script runs. It returns
// whether f has run. After Halt, f does not run.
func (c *Core) DoBetween(f func()) (ran bool) { return c.doBy(c.Between, f) }

// DoWhenWritable is Do with WhenWritable. It may wait as long as a script runs or a pause lasts. It returns whether f
// has run. After Halt, f does not run.
func (c *Core) DoWhenWritable(f func()) (ran bool) { return c.doBy(c.WhenWritable, f) }

// doBy passes f to door, and returns after f has run, or after Halt.
func (c *Core) doBy(door func(func()), f func()) (ran bool) {
	done := make(chan struct{})
	c.doFor(f, func() {
		door(func() {
			f()
			close(done)
		})
	})
	select {
	case <-done:
		return true
	case <-c.halted:
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
}
