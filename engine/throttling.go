package engine

import "spindle/engine/client"

// Throttle has calls that may write pass at rate, in calls a second. The first time nothing is held back yet: it begins
// to measure how many there are. Turn only.
func (c *Core) Throttle(rate float64) {
	c.assertHeld()
	t := &c.throttle
	if !t.on {
		t.on, t.paid = true, map[*client.Client]bool{}
		t.tokens, t.filledAt = rate*throttleBurst.Seconds(), c.nanos
		t.asked, t.sample, t.first, t.inflow = 0, c.nanos, true, 0
		c.raised++ // admission must look
	}
	t.rate = rate
}

// EndThrottle lets all clients continue. Turn only.
func (c *Core) EndThrottle() {
	c.assertHeld()
	t := &c.throttle
	if !t.on {
		return
	}
	t.release(c.nanos, true)
	t.on, t.paid = false, nil
	c.raised--
}

// Throttled is what the throttle has done.
type Throttled struct {
	On      bool
	Rate    float64 // calls a second that may pass
	Inflow  float64 // calls a second that want to pass
	Clients int     // held back now
	Calls   uint64  // held back since the start
}

// Throttled returns what the throttle does. Turn only.
func (c *Core) Throttled() Throttled {
	c.assertHeld()
	t := &c.throttle
	if t.on {
		t.measure(c.nanos)
	}
	return Throttled{t.on, t.rate, t.inflow, t.held.Len(), t.total}
}
