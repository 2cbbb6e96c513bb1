package engine

import "math"

// Pause holds back clients until untilMs, by SteadyMs. It holds every command if all is true, and otherwise only
// commands that may write. It neither shortens nor weakens a pause that the purpose already has in force. Turn only.
func (c *Core) Pause(by PausePurpose, all bool, untilMs int64) {
	c.assertHeld()
	c.pause.begin(by, all, untilMs)
	c.applyPause()
}

// PauseFor is Pause for the next ms milliseconds. Turn only.
func (c *Core) PauseFor(by PausePurpose, all bool, ms int64) {
	now := c.SteadyMs()
	c.Pause(by, all, now+min(ms, math.MaxInt64-now))
}

// Unpause ends the purpose's pause. Turn only.
func (c *Core) Unpause(by PausePurpose) {
	c.assertHeld()
	c.pause.end(by)
	c.applyPause()
}

// FailsOver reports whether writes are held for a failover, or for a shutdown that may end in one. So another server
// may have taken over. Turn only.
func (c *Core) FailsOver() bool {
	c.assertHeld()
	return c.pause.until[PauseFailover] != 0 || c.pause.until[PauseShutdown] != 0
}

// applyPause updates the core after the pauses in force have changed.
func (c *Core) applyPause() {
	c.assertHeld()
	was := c.pause.on
	weaker := c.pause.endOver(c.SteadyMs())
	switch {
	case c.pause.on && !was:
		c.raised++ // so that admission checks
	case was && !c.pause.on:
		c.raised--
		for _, f := range c.pause.writers {
			c.Later(func() { c.WhenWritable(f) })
		}
		c.pause.writers = nil
	}
	c.space.Hiding = c.pause.on
	if weaker {
		c.pause.release()
		if c.pause.passed {
			c.pause.passed = false
			c.offerAll()
		}
	}
}

// A Pausing describes the pauses in force, for INFO: the purpose whose pause ends last, and the ms until then.
type Pausing struct {
	Reason string // in Valkey's words, or "none"
	All    bool   // every command, not only those that may write
	LeftMs int64
}

// pauseReasons are the names of the purposes in INFO.
var pauseReasons = [pausePurposes]string{"client_pause", "shutdown_in_progress", "failover_in_progress", "slow_disk"}

// Pausing describes the pauses that are in force now. Turn only.
func (c *Core) Pausing() (p Pausing) {
	c.assertHeld()
	p.Reason, p.All = "none", c.pause.every
	last := c.SteadyMs() - 1
	for by, until := range c.pause.until {
		if until > last {
			last = until
			p.Reason, p.LeftMs = pauseReasons[by], until-c.SteadyMs()
		}
	}
	return p
}

// Paused reports whether a pause is in force, and whether it holds every command. Turn only.
func (c *Core) Paused() (on, all bool) {
	c.assertHeld()
	return c.pause.on, c.pause.every
}
