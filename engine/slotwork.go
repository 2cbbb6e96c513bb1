package engine

import (
	"time"

	"spindle/engine/data/value"
	"spindle/internal/slots"
)

// dropLooks is the number of keys of a slot that are deleted between two readings of the clock.
const dropLooks = 16

// DropSlot deletes keys of a hash slot that has moved to another node, in all databases. It stops after limit, and
// reports whether there are more keys. Replicas and the log get each deletion. Clients get no keyspace events, because
// the keys still exist on the other node. It also deletes hidden keys. Between only.
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

// dropSlice is how long one turn of DropSlots deletes keys. Then other goroutines can have the turn for as long.
const dropSlice = 300 * time.Microsecond

// DropSlots deletes the keys of slots as DropSlot does, in several short turns. It calls may for each slot in each
// turn, and leaves out the slots for which may returns false. It returns when all keys are deleted, or after Halt. Call
// it outside the turn.
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

// dropSome deletes up to dropLooks keys of a slot in database i. It reports whether there are more.
func (c *Core) dropSome(i int, slot uint16) (more bool) {
	db := c.space.DB(i)
	var keys [dropLooks][]byte
	n := 0
	db.EachStoredInSlot(slot, dropLooks, func(v value.Value) {
		keys[n] = append([]byte(nil), v.Key()...)
		n++
	})
	for _, key := range keys[:n] {
		if db.Delete(key) { // otherwise it was past its deadline, and was removed as expired
			c.meter.dirty++
			c.effectOfRemoval(i, key, c.common.LazyfreeServer.Get())
		}
	}
	return n == dropLooks
}

// DropKeysIn deletes the keys of hash slots in all databases of a server outside cluster mode. has reports whether a
// slot is one of them. It is a part of a load, so the sinks get no deletion. Turn only. Cost: a walk over all keys.
func (c *Core) DropKeysIn(has func(slot uint16) bool) {
	outer := c.replaying
	c.replaying = true
	c.Trusting(func() {
		for i := range c.space.Len() {
			db := c.space.DB(i)
			for cursor, more := uint64(0), true; more; more = cursor != 0 {
				var keys [][]byte
				cursor = db.Scan(cursor, dropScan, func(v value.Value) {
					if has(slots.Of(v.Key())) {
						keys = append(keys, append([]byte(nil), v.Key()...))
					}
				})
				for _, key := range keys {
					db.Delete(key)
				}
			}
		}
	})
	c.replaying = outer
}

// dropScan is the number of keys that DropKeysIn reads before it deletes some.
const dropScan = 1000
