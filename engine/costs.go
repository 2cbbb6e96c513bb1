package engine

import (
	"math"
)

// Clients cost memory. If they cost more than maxmemory-clients together, the costliest are evicted (client/ledger.go).
//
// The ledger wakes the core when the limit is passed. Clients are evicted inside a turn, at three points. Before the
// requests of a batch, so that an evicted client runs nothing more. When a turn settles, so that the next command does
// not see them. And in the duties, on a quiet server.

// leastClientLimit is the least effective value of maxmemory-clients. Below it no client could connect to change the
// setting.
const leastClientLimit = 128 << 10

// ApplyClientLimit applies maxmemory-clients: bytes, or as a negative number a percentage of maxmemory. Turn only.
func (c *Core) ApplyClientLimit() {
	c.assertHeld()
	limit, of := c.settings.ClientsMemory.Get(), c.settings.MaxMemory.Get()
	if limit < 0 {
		if of == 0 {
			limit = math.MaxInt64 // a share of no limit
		} else {
			limit = int64(min(float64(of)*float64(-limit)/100, math.MaxInt64/2))
		}
	}
	if limit != 0 {
		limit = max(limit, leastClientLimit)
	}
	c.clients.Costs.SetLimit(limit)
}

// Kept returns how much memory is used that does not count towards maxmemory, and the limit of that, kept-memory-limit.
// A limit of 0 means none. Turn only.
func (c *Core) Kept() (kept, limit int64) {
	c.assertHeld()
	limit = c.settings.KeptMemory.Get()
	if limit < 0 {
		limit = int64(float64(c.settings.MaxMemory.Get()) * float64(-limit) / 100)
	}
	return c.NotForEviction(), limit
}

// stuckEvery is the interval, in ms, at which the log repeats that clients exceed their limit and none may be evicted.
const stuckEvery = 1000

// evictClients closes the costliest clients until the rest costs less than the limit. Turn only.
func (c *Core) evictClients() {
	c.assertHeld()
	costs := &c.clients.Costs
	for {
		cl, stuck := costs.Costliest()
		if cl == nil {
			if stuck && c.nowMs-c.eviction.stuckAt >= stuckEvery && c.hooks.Stuck != nil {
				c.eviction.stuckAt = c.nowMs
				c.hooks.Stuck()
			}
			return
		}
		if c.hooks.EvictingClient != nil {
			c.hooks.EvictingClient(cl)
		}
		c.meter.evictedClients++
		c.Expel(cl, false)
	}
}

// pressClients makes the core evict clients soon, even on a server without requests. Any goroutine; it never waits.
func (c *Core) pressClients() {
	select {
	case c.nudge <- struct{}{}:
	default:
	}
}

// notesPerTick is the number of clients whose cost is updated ten times a second. Other clients' turns can change it:
// when a watch is broken, its keys are released.
const notesPerTick = 128

func (c *Core) noteClients() {
	c.assertHeld()
	left := notesPerTick
	for cl := range c.clients.From(c.duties.nextNote) {
		if left--; left < 0 {
			c.duties.nextNote = cl.ID
			return
		}
		cl.Note()
	}
	c.duties.nextNote = 0
}
