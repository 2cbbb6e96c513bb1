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
	on    bool                 // some purpose is in force
	every bool                 // and holds back every command
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

// refreshPause settles which pause is in force, and lets the held clients ask again if it has become a weaker one.
func (c *Core) refreshPause() {
	p := &c.pause
	was, wasEvery := p.on, p.every
	p.on, p.every = false, false
	for by := range p.until {
		if p.until[by] != 0 && p.until[by] < c.nowMs {
			p.until[by], p.all[by] = 0, false
		}
		p.on = p.on || p.until[by] != 0
		p.every = p.every || p.all[by]
	}
	switch {
	case p.on && !was:
		c.raised++ // admission must look
	case was && !p.on:
		c.raised--
	}
	c.space.Hiding = p.on
	if was && !p.on || wasEvery && !p.every {
		c.releasePostponed()
	}
}

// releasePostponed has every held client offer its request again.
func (c *Core) releasePostponed() {
	held := c.postponed
	c.postponed = nil
	for _, cl := range held {
		cl.Flags &^= client.Paused | client.Blocked
		cl.Conn.Resume()
	}
}

// Paused says whether a pause is in force, and whether it is for every command.
func (c *Core) Paused() (on, all bool) { return c.pause.on, c.pause.every }

// nextEnd is when the first of the pauses in force ends, in Unix ms; 0 when none is.
func (p *pause) nextEnd() (at int64) {
	for _, until := range p.until {
		if until != 0 && (at == 0 || until < at) {
			at = until
		}
	}
	return at
}

// holds says whether a command that does what flags say must wait. Who takes the stream is never held back.
func (p *pause) holds(cl *client.Client, flags command.Flags) bool {
	if !p.on || cl.Flags&(fedStream|client.Primary|client.Fake) != 0 {
		return false
	}
	return p.every || flags&(command.Write|command.MayReplicate) != 0
}

// postpone holds cl back until the pause ends or changes.
func (c *Core) postpone(cl *client.Client) {
	cl.Flags |= client.Paused | client.Blocked
	c.postponed = append(c.postponed, cl)
}
