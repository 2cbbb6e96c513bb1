package engine

import (
	"spindle/engine/client"
	"spindle/engine/command"
)

// PausePurpose is on whose behalf clients are held back; each has its own end, and the strictest holds.
type PausePurpose uint8

const (
	PauseByClient PausePurpose = iota // CLIENT PAUSE
	PauseShutdown                     // waiting for lagging replicas
	PauseFailover
	pausePurposes
)

// pause is what holds clients back now.
type pause struct {
	until [pausePurposes]int64 // Unix ms; 0 when not in force
	all   [pausePurposes]bool  // every command, not only those that may write
	on    bool
}

// Pause holds back clients until untilMs: every command if all, else those that may write. A pause that is
// already in force for the purpose is never shortened or weakened.
func (c *Core) Pause(by PausePurpose, all bool, untilMs int64) {
	p := &c.pause
	if p.until[by] < untilMs {
		p.until[by] = untilMs
	}
	p.all[by] = p.all[by] || all
	c.refreshPause()
}

// Unpause ends the purpose's pause.
func (c *Core) Unpause(by PausePurpose) {
	c.pause.until[by], c.pause.all[by] = 0, false
	c.refreshPause()
}

// refreshPause settles whether any pause is in force, and lets the held clients go on if none is.
func (c *Core) refreshPause() {
	p := &c.pause
	on := false
	for by := range p.until {
		if p.until[by] != 0 && p.until[by] <= c.nowMs {
			p.until[by], p.all[by] = 0, false
		}
		on = on || p.until[by] != 0
	}
	if on != p.on {
		p.on = on
		if on {
			c.raised++ // admission must look
		} else {
			c.raised--
		}
	}
	c.space.Hiding = on
	held := c.postponed
	c.postponed = nil
	for _, cl := range held { // each asks again: the pause may have become a weaker one
		cl.Flags &^= client.Paused | client.Blocked
		cl.Conn.Resume()
	}
}

// Paused says whether a pause is in force, and whether it is for every command.
func (c *Core) Paused() (on, all bool) {
	for by := range c.pause.until {
		if c.pause.until[by] != 0 {
			on, all = true, all || c.pause.all[by]
		}
	}
	return on, all
}

// holds says whether the command must wait. Replicas are never held back.
func (p *pause) holds(c *Core, cl *client.Client, spec *command.Spec) bool {
	if !p.on || cl.Flags&(client.Replica|client.Primary|client.Fake) != 0 {
		return false
	}
	_, all := c.Paused()
	if all {
		return true
	}
	flags := spec.Flags
	if spec.Name == "exec" && cl.Queue != nil {
		flags |= command.Flags(cl.Queue.Flags)
	}
	return flags&(command.Write|command.MayReplicate) != 0
}

// postpone holds cl back until the pause ends or changes.
func (c *Core) postpone(cl *client.Client) {
	cl.Flags |= client.Paused | client.Blocked
	c.postponed = append(c.postponed, cl)
}
