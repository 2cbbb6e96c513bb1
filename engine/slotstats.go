package engine

import (
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/part"
	"spindle/internal/slots"
)

// Slot statistics: the cost of the calls on the keys of each slot. While they are counted, every command is timed
// alone. While they are not, a call costs a comparison with nil.
//
// engine.C1. The outermost command counts for the slot of its keys. Commands of a transaction or a script count as
// parts of it. A script whose commands use several slots counts for none.

// CountSlots starts or stops counting. Turn only, and in cluster mode only.
func (c *Core) CountSlots(on bool) {
	c.assertHeld()
	switch {
	case !on:
		c.slotStats = nil
	case c.slotStats == nil:
		c.slotStats = &slotStats{}
	}
	c.ApplyLogLimits()
}

// SlotStat returns the cost of a slot. on is false while nothing is counted. Turn only.
func (c *Core) SlotStat(slot uint16) (s SlotStat, on bool) {
	c.assertHeld()
	if c.slotStats == nil {
		return s, false
	}
	c.slotStats.follow(c.slots.Load())
	return c.slotStats.of[slot], true
}

// ResetSlotStats does the part of CONFIG RESETSTAT for slots. Turn only.
func (c *Core) ResetSlotStats() {
	c.assertHeld()
	if c.slotStats != nil {
		c.slotStats.of = [slots.Count]SlotStat{}
	}
}

// CountShardMessage counts the bytes of a message that subscribers of a shard channel get. Turn only.
func (c *Core) CountShardMessage(channel []byte, bytes int) {
	c.assertHeld()
	if c.slotStats != nil {
		c.slotStats.of[slots.Of(channel)].Out += uint64(bytes)
	}
}

// follow clears the figures of slots that now have another owner.
func (s *slotStats) follow(m *slots.Map) {
	if m == nil || m == s.under {
		return
	}
	if s.under != nil {
		for slot := range uint16(slots.Count) {
			was, is := s.under.Owner(slot), m.Owner(slot)
			if (was == nil) != (is == nil) || was != nil && was.ID != is.ID {
				s.of[slot] = SlotStat{}
			}
		}
	}
	s.under = m
}

// countedOf returns the slot of a call's first key. It is called only while slots are counted.
func (c *Core) countedOf(cl *client.Client, spec *command.Spec, args [][]byte) (n counted) {
	c.slotStats.follow(c.slots.Load())
	if at := spec.OneKey(); at > 0 && at < len(args) {
		return counted(slots.Of(args[at])) + 1
	}
	c.keysOf(cl, cl.DB, part.Call{Spec: spec, Args: args}, func(_ *command.Spec, k namedKey) bool {
		n = counted(slots.Of(k.key)) + 1
		return false
	})
	return n
}

// countScript counts the outermost command for the slot that a command of its script uses (engine.C1).
func (c *Core) countScript(cl *client.Client, spec *command.Spec, args [][]byte) {
	switch n := c.countedOf(cl, spec, args); {
	case n == uncounted || n == c.stack.counted:
	case c.stack.counted == uncounted:
		c.stack.counted = n
	default:
		c.stack.counted = severalSlots
	}
}

// countStream counts the bytes of the unit that go to replicas.
func (c *Core) countStream() {
	u := &c.stack.unit
	bytes, effects, from := 0, 0, 0
	for _, m := range u.marks {
		if m.to&client.ToReplicas != 0 {
			bytes += m.end - from
			effects++
		}
		from = m.end
	}
	if effects > 1 && !u.loose {
		bytes += len(multiBytes) + len(execBytes)
	}
	c.countBytes(c.stack.counted, 0, bytes*c.replicas())
}
