package engine

import (
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/part"
	"spindle/protocol"
)

// The duration of commands: equal commands in a row form a run between two readings of the clock. They are recorded
// together.

// lapEvery is the number of requests of one run after which the clock is read. So a long run knows the time and ends.
const lapEvery = 48

// lap reads the clock. It records the time since the last reading on the row that ran since then. The time of each of
// several calls is not known. The slow log gets only commands that ran alone.
func (c *Core) lap() {
	m := &c.meter
	if m.calls == 0 {
		return
	}
	now := c.readClock()
	took := now - c.nanos
	c.nanos = now
	c.noteRan(m.calls)
	c.done(m.client, m.spec, m.args, ran{calls: m.calls, took: took, last: took, held: took, slot: c.stack.counted})
	m.calls, m.unanswered, m.client, m.args = 0, 0, nil, nil
}

// A ran holds the times of finished calls of one row, in nanoseconds.
type ran struct {
	calls  int
	shared bool   // took is a share of a run's time
	took   int64  // total, without waiting times
	last   int64  // part of took for the latency monitor: the part after a wait
	event  string // its name for the latency monitor; "" means commandEvent
	held   int64  // time for which they held the turn; 0 if the stall log checks that elsewhere
	slot   counted
}

// done records finished calls of clients, guests, transactions and scripts. cl and args belong to the first call.
func (c *Core) done(cl *client.Client, spec *command.Spec, args [][]byte, r ran) {
	spec.Stats.Record(r.calls, r.took)
	c.meter.commands += uint64(r.calls)
	if r.slot > uncounted && c.slotStats != nil {
		c.slotStats.of[r.slot-1].Nanos += r.took
	}
	if r.calls == 1 && !r.shared {
		if limit := c.settings.SlowlogSlowerThan.Get(); limit >= 0 && r.took >= limit*1000 {
			c.log(cl, spec, args, part.Measure{Log: part.Slow, Value: r.took / 1000})
		}
		event := r.event
		if event == "" {
			event = commandEvent(spec)
		}
		c.watchLatency(event, r.last)
	}
	if r.held >= c.stalls.limit {
		c.watchStall(cl, spec, args, r.calls, r.held)
	}
}

// noteRan reports calls that the meter has counted to their batch. Calls without a reply are left out.
func (c *Core) noteRan(calls int) {
	m := &c.meter
	if answered := calls - m.unanswered; c.batch != nil && answered > 0 {
		c.batch.Ran = append(c.batch.Ran, protocol.Ran{Row: int32(m.spec.ID), Calls: int32(answered)})
	}
}

// lapParked is lap after a command that has parked its client. It records the calls before that one. The command's own
// call is recorded when the wait ends, with the time until now and the time for the reply, as in Redis.
func (c *Core) lapParked(cl *client.Client) (took int64) {
	c.assertHeld()
	m, p := &c.meter, c.waiting.byClient[cl]
	if p == nil {
		return 0
	}
	now := c.readClock()
	took = now - c.nanos
	c.nanos = now
	p.unbooked, p.took = true, took/int64(m.calls)
	if earlier := m.calls - 1; earlier > 0 {
		c.done(nil, m.spec, nil, ran{calls: earlier, shared: true, took: took - p.took})
		c.noteRan(earlier)
	}
	if p.took >= c.stalls.limit {
		c.watchStall(cl, p.spec, p.args, 1, p.took)
	}
	m.calls, m.unanswered, m.client, m.args = 0, 0, nil, nil
	return p.took
}

// readClock returns the time, in nanoseconds. The commands that follow use that time.
func (c *Core) readClock() (nanos int64) {
	nanos, ms := c.wall.Now()
	if ms != c.nowMs && c.stack.depth == 0 {
		c.nowMs = ms
		c.space.SetNow(ms)
	}
	return nanos
}

// watchLatency reports an event to the latency monitor if its duration, in nanoseconds, reaches the monitor's
// threshold.
func (c *Core) watchLatency(event string, took int64) {
	if limit := c.settings.LatencyThreshold.Get(); limit > 0 && took >= limit*1e6 && c.hooks.Latency != nil {
		c.hooks.Latency(event, time.Duration(took))
	}
}

// commandEvent returns the latency monitor's name for the execution of a command.
func commandEvent(spec *command.Spec) string {
	if spec.Flags&command.Fast != 0 {
		return "fast-command"
	}
	return "command"
}

// watchDuty reports a duty that began at began to the latency monitor, if it took as long as latency-monitor-threshold.
func (c *Core) watchDuty(event string, began time.Duration) {
	limit := time.Duration(c.settings.LatencyThreshold.Get()) * time.Millisecond
	if limit <= 0 || c.hooks.Latency == nil {
		return
	}
	if took := time.Duration(c.wall.Nanos()) - began; took >= limit {
		c.hooks.Latency(event, took)
	}
}
