package engine

import (
	"container/list"

	"spindle/engine/client"
	"spindle/engine/command"
)

// PausePurpose is on whose behalf clients are held back; each has its own end, and the strictest holds.
type PausePurpose uint8

const (
	PauseByClient PausePurpose = iota // CLIENT PAUSE
	PauseShutdown                     // waiting for lagging replicas
	PauseFailover
	PauseLog // the disk is too slow for the append-only file
	pausePurposes
)

// pause is what holds clients back now, and the clients that it holds.
//
// engine.P1. A client is in held exactly while it has client.Paused; its Wait is then its place there.
type pause struct {
	until [pausePurposes]int64 // by Core.SteadyMs; 0 when not in force
	all   [pausePurposes]bool  // every command, not only those that may write
	on    bool                 // some purpose is in force
	every bool                 // and holds back every command
	held  list.List            // of *client.Client, in order of arrival

	writers []func() // WhenWritable's, until no pause is in force
}

// begin puts a pause in force until untilMs, or lengthens and strengthens the purpose's own.
func (p *pause) begin(by PausePurpose, all bool, untilMs int64) {
	p.until[by] = max(p.until[by], untilMs)
	p.all[by] = p.all[by] || all
}

// end takes the purpose's pause out of force.
func (p *pause) end(by PausePurpose) { p.until[by], p.all[by] = 0, false }

// endOver ends what is over at nowMs. It says whether the pause has become weaker, so that held clients may ask again.
func (p *pause) endOver(nowMs int64) (weaker bool) {
	was, wasEvery := p.on, p.every
	p.on, p.every = false, false
	for by := range p.until {
		if p.until[by] != 0 && p.until[by] < nowMs {
			p.end(PausePurpose(by))
		}
		p.on = p.on || p.until[by] != 0
		p.every = p.every || p.all[by]
	}
	return was && !p.on || wasEvery && !p.every
}

// nextEnd is when the first of the pauses in force ends, by Core.SteadyMs; 0 when none is.
func (p *pause) nextEnd() (at int64) {
	for _, until := range p.until {
		if until != 0 && (at == 0 || until < at) {
			at = until
		}
	}
	return at
}

// holds says whether a command that does what flags say must wait. A client that takes the stream is never held back.
// Our primary's stream is, whatever comes in it.
func (p *pause) holds(cl *client.Client, flags command.Flags) bool {
	if !p.on || cl.Flags&(fedStream|client.Fake) != 0 {
		return false
	}
	return p.every || cl.Flags&client.Primary != 0 || flags&(command.Write|command.MayReplicate) != 0
}

// hold keeps cl back until the pause ends or becomes weaker.
func (p *pause) hold(cl *client.Client) {
	cl.Flags |= client.Paused | client.Blocked
	cl.Wait = p.held.PushBack(cl)
}

// forget takes a client that leaves out of those held back.
func (p *pause) forget(cl *client.Client) {
	if cl.Is(client.Paused) {
		p.held.Remove(cl.Wait.(*list.Element))
		p.free(cl)
	}
}

// release has every held client offer its request again.
func (p *pause) release() {
	for e := p.held.Front(); e != nil; e = e.Next() {
		cl := e.Value.(*client.Client)
		p.free(cl)
		cl.Conn.Resume()
	}
	p.held.Init()
}

func (p *pause) free(cl *client.Client) {
	cl.Flags &^= client.Paused | client.Blocked
	cl.Wait = nil
}
