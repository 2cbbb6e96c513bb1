package engine

import (
	"time"

	"spindle/engine/data/value"
)

// dropLooks is how many keys of a slot are deleted between two looks at the clock.
const dropLooks = 16

// DropSlot deletes keys of a hash slot that has gone to another node, for at most limit, and says whether there are
// more. Replicas and the log hear of each; listeners to keyspace events do not, because the keys live on elsewhere.
// Between only.
func (c *Core) DropSlot(slot uint16, limit time.Duration) (more bool) {
	c.AssertWhole("a slot is dropped")
	db, until := c.space.DB(0), c.wall.Nanos()+int64(limit)
	var keys [dropLooks][]byte
	for {
		n := 0
		c.space.EachInSlot(slot, dropLooks, func(v value.Value) {
			keys[n] = append(keys[n][:0], v.Key()...)
			n++
		})
		for _, key := range keys[:n] {
			if db.Delete(key) { // else it was past its deadline, and is gone as such
				c.meter.dirty++
				c.effectOfRemoval(0, key, c.common.LazyfreeServer.Get())
			}
		}
		if n < dropLooks {
			return false
		}
		if c.wall.Nanos() >= until {
			return true
		}
	}
}
