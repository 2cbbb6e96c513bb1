package engine

import (
	"math"
	"time"

	"spindle/engine/data/keyspace"
	"spindle/engine/data/memory"
)

// evictionCheck is the number of evicted keys between two readings of the clock.
const evictionCheck = 16

// noteExceeded measures how long memory exceeds the limit. It reads the clock only when that state changes.
func (c *Core) noteExceeded(is bool) {
	switch e := &c.eviction; {
	case is && e.exceededSince == 0:
		e.exceededSince = int64(c.Uptime())
	case !is && e.exceededSince != 0:
		e.exceededNanos += int64(c.Uptime()) - e.exceededSince
		e.exceededSince = 0
	}
}

// exceeded returns the total time over the limit, and the time since memory was last under the limit.
func (e *eviction) exceeded(uptime time.Duration) (all, now time.Duration) {
	if e.exceededSince != 0 {
		now = uptime - time.Duration(e.exceededSince)
	}
	return time.Duration(e.exceededNanos) + now, now
}

// reset clears the figures that CONFIG RESETSTAT clears.
func (e *eviction) reset() { e.exceededSince, e.exceededNanos = 0, 0 }

// affords reports whether there is memory for a command with very many arguments, or with a long one.
func (c *Core) affords(args [][]byte) bool {
	const entry = 64 // in addition to the bytes of each argument
	n := 0
	for _, a := range args {
		n += len(a) + entry
	}
	return c.space.Heap().AffordsSmall(n) && c.space.Heap().Affords(n)
}

// residentShare bounds resident memory: it may exceed maxmemory by maxmemory>>residentShare. Beyond that, empty memory
// goes back to the system at once.
const residentShare = 6

// ApplyMemoryLimit applies maxmemory and the settings that go with it. Turn only.
func (c *Core) ApplyMemoryLimit() {
	c.assertHeld()
	s := c.settings
	c.space.Policy = keyspace.Policy(s.Policy.Get())
	c.space.Samples = int(s.Samples.Get())
	c.space.LFULogFactor = int(s.LFULogFactor.Get())
	c.space.LFUDecayTime = int(s.LFUDecayTime.Get())
	c.Raise(c.eviction.barrier, s.MaxMemory.Get() != 0)
	limit := int64(min(s.MaxMemory.Get(), math.MaxInt64))
	c.space.Heap().Limit(limit + limit>>residentShare)
	if s.MaxMemory.Get() == 0 {
		c.noteExceeded(false) // no command checks any more
	}
}

// OutOfMemory reports whether the outermost command began while maxmemory was exceeded and no key could be evicted.
func (c *Core) OutOfMemory() bool {
	c.assertHeld()
	return c.eviction.barrier.Up && c.eviction.short
}

// OverMemory reports whether the data exceed maxmemory now. Turn only.
func (c *Core) OverMemory() bool {
	c.assertHeld()
	return c.overLimit() > 0
}

// overLimit returns the number of bytes by which the data exceed maxmemory.
func (c *Core) overLimit() int64 {
	limit := c.settings.MaxMemory.Get()
	if limit == 0 {
		return 0
	}
	return c.UsedMemory() - c.NotForEviction() - int64(min(limit, math.MaxInt64))
}

// NotForEviction returns the part of the used memory that does not count towards maxmemory:
//
//   - Output that replicas have not read. An eviction would only add to it.
//   - Memory that only a view may still read, or that waits for reclaimers. An eviction adds to it, too.
//   - The part of the backlog beyond its size. Its memory comes in blocks, and a new block must not evict keys.
//   - Data that the log has not written yet. An eviction is written, too.
func (c *Core) NotForEviction() int64 {
	h, spared := c.space.Heap(), int64(0)
	if c.hooks.OtherMemory != nil {
		_, spared = c.hooks.OtherMemory()
	}
	return c.clients.Costs.Replicas() + c.streamExcess + h.Leaving() + h.UsedBy(memory.Retired) + spared
}

// evict brings memory under the limit, as far as makeRoom can, and records since when it has exceeded the limit. It
// returns false when the policy leaves no key to evict.
func (c *Core) evict() (enough bool) {
	c.assertHeld()
	over := c.overLimit()
	if over > 0 {
		if c.eviction.ignored || c.space.Hiding || c.duties.loading || c.lent != nil {
			return true
		}
		c.lap() // the commands before did not evict
		enough = c.makeRoom(over)
		c.nanos = c.wall.Nanos()
		if !enough {
			over = 1
		} else {
			over = c.overLimit()
		}
	}
	c.noteExceeded(over > 0)
	return over <= 0 || enough
}

// makeRoom evicts over bytes, within the time that maxmemory-eviction-tenacity allows. The next command or duty evicts
// the rest.
func (c *Core) makeRoom(over int64) (enough bool) {
	began, limit := time.Duration(c.wall.Nanos()), c.evictionTime()
	defer c.watchDuty("eviction-cycle", began)
	for n := 1; over > 0; n++ {
		freed, ok := c.space.EvictOne()
		if !ok {
			return c.overLimit() <= 0
		}
		over -= freed
		if n%evictionCheck == 0 {
			if time.Duration(c.wall.Nanos())-began > limit {
				break
			}
			over = min(over, c.overLimit())
		}
	}
	return true
}

// evictionTime returns how long one command may evict: half a millisecond at the default tenacity, without limit at
// 100.
func (c *Core) evictionTime() time.Duration {
	switch tenacity := c.settings.Tenacity.Get(); {
	case tenacity <= 10:
		return time.Duration(50*tenacity) * time.Microsecond
	case tenacity < 100:
		return time.Duration(500*math.Pow(1.15, float64(tenacity-10))) * time.Microsecond
	}
	return math.MaxInt64
}

// UsedMemory returns the memory of the data, the clients, their buffers and the kept scripts. Memory lent for arguments
// that are still arriving counts only where it is filled, as a part of the clients' costs.
func (c *Core) UsedMemory() int64 {
	c.assertHeld()
	costs := &c.clients.Costs
	used := c.space.Heap().Used() + costs.Sum() + costs.Primary() + costs.Replicas() - costs.Reserved() + c.streamBytes
	if c.hooks.OtherMemory != nil {
		other, _ := c.hooks.OtherMemory()
		used += other
	}
	return used
}

// NoteStream records how much memory the replication stream keeps for replicas that reconnect. It counts as used.
// Memory beyond limit does not count towards maxmemory. Turn only.
func (c *Core) NoteStream(bytes, limit int64) {
	c.assertHeld()
	c.streamBytes, c.streamExcess = bytes, max(0, bytes-limit)
}
