package engine

import (
	"sort"
	"time"
)

// Figures is a copy of the core's counters, for INFO and /metrics.
type Figures struct {
	Uptime                      time.Duration
	Connections, Commands       uint64
	OpsPerSecond                float64
	ErrorReplies, Rejected      uint64
	EvictedClients              uint64
	Unexpected                  uint64
	TurnsPerSecond              float64
	TurnMean                    time.Duration // of recent turns
	ExpiryNanos                 uint64
	Exceeded, ExceededNow       time.Duration // total time over maxmemory, and the time since it was exceeded last
	Errors                      []ErrorCount
	ErrorsFull                  bool
	CodesFreed                  int64 // entries of Errors that were dropped
	Dirty                       int64
	Turns, TurnNanos, DutyNanos uint64
	LongestTurn, LongestTurnCPU time.Duration
	LongTurns                   []LongTurn
	MostCommandsPerTurn         uint64
	Combined                    uint64 // batches that one loop has run for another
	Clients, Blocked, Keys      int
	Monitors                    int
}

// ErrorCount is one line of INFO errorstats.
type ErrorCount struct {
	Code  string
	Count uint64
}

// Figures copies the counters. Turn only.
func (c *Core) Figures() Figures {
	c.assertHeld()
	m := &c.meter
	f := Figures{
		Uptime: c.Uptime(), Connections: m.connections, Commands: m.commands, OpsPerSecond: m.ops.PerSecond(),
		Unexpected: m.unexpected, TurnsPerSecond: m.perTurn.PerSecond(),
		EvictedClients: m.evictedClients, ErrorReplies: m.errorReplies, Rejected: m.rejectedCalls, ErrorsFull: m.errorsFull,
		CodesFreed: m.codesFreed, Dirty: m.dirty,
		Turns: m.turns, TurnNanos: m.turnNanos, DutyNanos: m.dutyNanos, LongestTurn: time.Duration(m.longestTurn),
		LongestTurnCPU: time.Duration(m.longestTurnCPU),
		LongTurns:      m.longTurns.list(), MostCommandsPerTurn: m.mostCommands, Combined: c.combined,
		Clients: c.clients.Len(), Blocked: c.BlockedClients(), Keys: c.BlockingKeys(),
		Monitors: c.monitors.Len(), ExpiryNanos: m.expiryNanos,
	}
	if turns := m.perTurn.PerSecond(); turns > 0 {
		f.TurnMean = time.Duration(m.inTurns.PerSecond() / turns)
	}
	f.Exceeded, f.ExceededNow = c.eviction.exceeded(c.Uptime())
	for code, n := range m.errors {
		f.Errors = append(f.Errors, ErrorCount{code, n})
	}
	sort.Slice(f.Errors, func(i, j int) bool { return f.Errors[i].Code < f.Errors[j].Code })
	return f
}

// ResetFigures is CONFIG RESETSTAT for the core and the databases.
func (c *Core) ResetFigures() {
	c.assertHeld()
	c.meter.reset()
	c.combined = 0
	c.stalls.log.ResetTotals()
	c.eviction.reset()
	c.resetDefrag()
	c.reads.Reset()
	c.catalogue.ResetStats()
	c.space.ResetStats()
	c.space.Heap().ResetPeak()
	c.space.Heap().ResetLazyObjects()
}

// Errors yields the number of replies with each error code, sorted by code. Turn only.
func (c *Core) Errors(yield func(code string, n uint64) bool) {
	c.assertHeld()
	for _, e := range c.Figures().Errors {
		if !yield(e.Code, e.Count) {
			return
		}
	}
}

// TimedWaits returns the number of parked clients that have a timeout.
func (c *Core) TimedWaits() int {
	c.assertHeld()
	return len(c.waiting.timeouts)
}

// BlockedClients returns the number of clients that are parked, except busy ones, or that a pause holds back.
func (c *Core) BlockedClients() int {
	c.assertHeld()
	return c.waiting.blocked() + c.pause.held.Len()
}

// BlockingKeysOnGone returns the number of keys for which some client's wait has Gone.
func (c *Core) BlockingKeysOnGone() int {
	c.assertHeld()
	return c.waiting.onGone
}

// BlockingKeys returns the number of keys that clients wait for.
func (c *Core) BlockingKeys() int {
	c.assertHeld()
	return len(c.waiting.byKey)
}
