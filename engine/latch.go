package engine

import (
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/slots"
)

// Latch holds back every command that names one of keys, until release is called. Call release in a turn, and only
// once. The keys are copied. Turn only.
func (c *Core) Latch(keys [][]byte) (release func()) {
	c.assertHeld()
	l := &c.latches
	c.addLatch()
	if l.keys == nil {
		l.keys = map[string]int{}
	}
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = string(key)
		l.keys[names[i]]++
	}
	return func() { c.unlatch(names) }
}

// LatchSlots is Latch for all keys of hash slots.
func (c *Core) LatchSlots(list []uint16) (release func()) {
	c.assertHeld()
	l := &c.latches
	c.addLatch()
	if l.slots == nil {
		l.slots = new([slots.Count]uint16)
	}
	for _, slot := range list {
		l.slots[slot]++
	}
	return func() {
		for _, slot := range list {
			l.slots[slot]--
		}
		c.removeLatch()
	}
}

// SlotLeaves returns an error if a command that worked beside the turns may not remove key any more. Its slot is held
// for the next owner, or has one. Turn only.
func (c *Core) SlotLeaves(key []byte) error {
	c.assertHeld()
	if c.slots == nil {
		return nil
	}
	slot, m := slots.Of(key), c.slots.Load()
	_, importing := m.Importing[slot]
	if l := &c.latches; l.slots != nil && l.slots[slot] > 0 || !m.Mine(slot) && !importing {
		return errOnItsWay
	}
	return nil
}

// addLatch makes admission check for latches.
func (c *Core) addLatch() {
	if c.latches.held++; c.latches.held == 1 {
		c.raised++
	}
}

// removeLatch undoes addLatch, and makes the waiting clients offer their requests again.
func (c *Core) removeLatch() {
	c.assertHeld()
	l := &c.latches
	if l.held--; l.held == 0 {
		c.raised--
		l.slots = nil
	}
	c.pause.release()
	if l.passed {
		l.passed = false
		c.offerAll()
	}
}

// unlatch undoes a Latch.
func (c *Core) unlatch(names []string) {
	c.assertHeld()
	l := &c.latches
	for _, name := range names {
		if l.keys[name]--; l.keys[name] == 0 {
			delete(l.keys, name)
		}
	}
	c.removeLatch()
}

// latched reports whether a client's command must wait because it names a key with a latch, or a key of a held slot.
// With onlySlots, only held slots count.
func (c *Core) latched(cl *client.Client, spec *command.Spec, args [][]byte, onlySlots bool) bool {
	if c.latches.held == 0 || cl.Flags&(client.Primary|client.Fake) != 0 {
		return false
	}
	if spec.Has(command.RunsQueue) && cl.Queue != nil {
		for i := range cl.Queue.Commands {
			q := &cl.Queue.Commands[i]
			if c.namesLatched(q.Spec.(*command.Spec), q.Args, onlySlots) {
				return true
			}
		}
		return false
	}
	return c.namesLatched(spec, args, onlySlots)
}

// namesLatched reports what latched does about one call. It returns true for SWAPDB, because SWAPDB moves all keys. It
// does so for FLUSHALL and FLUSHDB while slots are held, because the slots' next owner may have the keys. In a cluster
// that is down they do not wait, because the wait might not end.
func (c *Core) namesLatched(spec *command.Spec, args [][]byte, onlySlots bool) bool {
	l := &c.latches
	if spec.Has(command.AllKeys) || l.slots != nil && spec.Has(command.Empties) && c.slots.Load().OK {
		return true
	}
	if !spec.HasKeys(command.IncludeNotKeys) {
		return false
	}
	l.found, _ = spec.AppendKeys(l.found[:0], args, 0) // after an error it has the keys at fixed places
	for _, k := range l.found {
		if !onlySlots && l.keys[string(args[k.Index])] > 0 || l.slots != nil && l.slots[slots.Of(args[k.Index])] > 0 {
			return true
		}
	}
	return false
}
