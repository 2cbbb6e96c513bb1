package engine

import (
	"math"
)

// Clients cost memory. The costliest are evicted when they cost more than maxmemory-clients together
// (client/ledger.go).
//
// The ledger wakes the core when the limit is passed. Clients are evicted inside a turn. Before the requests of a
// batch, so that an evicted client runs nothing more. When a turn settles, so that the next command sees them gone. And
// by the duties, on a quiet server.

// leastClientLimit is the least that maxmemory-clients means: below it no client could connect to change the setting.
const leastClientLimit = 128 << 10

// ApplyClientLimit takes over maxmemory-clients: bytes, or as a negative number a percentage of maxmemory. Turn only.
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

// Kept is how much memory is used beyond what counts towards maxmemory, and the bound of that, kept-memory-limit; 0:
// there is none. Turn only.
func (c *Core) Kept() (kept, limit int64) {
	c.assertHeld()
	limit = c.settings.KeptMemory.Get()
	if limit < 0 {
		limit = int64(float64(c.settings.MaxMemory.Get()) * float64(-limit) / 100)
	}
	return c.NotForEviction(), limit
}

// stuckEvery is how often, in ms, the log says that clients stay over their limit because none of them may be evicted.
const stuckEvery = 1000

// evictClients closes the costliest clients until what is left costs less than the limit. Turn only.
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

// pressClients has clients evicted soon, on a server where nothing happens too. Any goroutine; it never waits.
func (c *Core) pressClients() {
	select {
	case c.nudge <- struct{}{}:
	default:
	}
}

// notesPerTick is how many clients have their cost renewed ten times a second. Other clients' turns change it: a watch
// that was spoiled lets go of its keys.
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
