package engine

import (
	"time"

	"spindle/engine/data/value"
)

// dropLooks is how many keys of a slot are deleted between two looks at the clock.
const dropLooks = 16

// DropSlot deletes keys of a hash slot that has gone to another node, in all databases. It works for at most limit, and
// says whether there are more. Replicas and the log hear of each; listeners to keyspace events do not, because the keys
// live on elsewhere. It deletes hidden keys too. Between only.
func (c *Core) DropSlot(slot uint16, limit time.Duration) (more bool) {
	c.AssertWhole("a slot is dropped")
	until := c.wall.Nanos() + int64(limit)
	c.Trusting(func() { // a key past its deadline goes like the others
		for i := range c.space.Len() {
			for c.dropSome(i, slot) {
				if more = c.wall.Nanos() >= until; more {
					return
				}
			}
		}
	})
	return more
}

// dropSlice is how long one turn of DropSlots deletes keys. Other work then gets the turn for as long.
const dropSlice = 300 * time.Microsecond

// DropSlots deletes the keys of slots in slices of turns, as DropSlot does. It leaves out the slots for which may is
// false, which it asks in each turn. It returns when all keys are deleted, or after Halt. Not in a turn.
func (c *Core) DropSlots(list []uint16, may func(slot uint16) bool) {
	for len(list) > 0 {
		ran := c.DoWhenWritable(func() {
			for until := c.wall.Nanos() + int64(dropSlice); len(list) > 0 && c.wall.Nanos() < until; list = list[1:] {
				if may(list[0]) && c.DropSlot(list[0], time.Duration(until-c.wall.Nanos())) {
					return
				}
			}
		})
		if !ran {
			return
		}
		time.Sleep(dropSlice)
	}
}

// dropSome deletes up to dropLooks keys of a slot in database i, and says whether there are more.
func (c *Core) dropSome(i int, slot uint16) (more bool) {
	db := c.space.DB(i)
	var keys [dropLooks][]byte
	n := 0
	db.EachStoredInSlot(slot, dropLooks, func(v value.Value) {
		keys[n] = append([]byte(nil), v.Key()...)
		n++
	})
	for _, key := range keys[:n] {
		if db.Delete(key) { // else it was past its deadline, and is gone as such
			c.meter.dirty++
			c.effectOfRemoval(i, key, c.common.LazyfreeServer.Get())
		}
	}
	return n == dropLooks
}
