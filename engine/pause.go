package engine

import (
	"container/list"

	"spindle/engine/client"
	"spindle/engine/command"
)

// PausePurpose is the purpose of a pause. The pause of each purpose has its own end. The strictest pause applies.
type PausePurpose uint8

const (
	PauseByClient PausePurpose = iota // CLIENT PAUSE
	PauseShutdown                     // waiting for lagging replicas
	PauseFailover
	PauseLog // the disk is too slow for the append-only file
	pausePurposes
)

// pause holds the pauses in force, and the clients that they hold back.
//
// engine.P1. A client is in held exactly while it has client.Paused. Its Wait is then its place in held.
type pause struct {
	until [pausePurposes]int64 // by Core.SteadyMs; 0 when not in force
	all   [pausePurposes]bool  // every command, not only those that may write
	on    bool                 // some purpose is in force
	every bool                 // and holds back every command
	held  list.List            // of *client.Client, in order of arrival

	passed bool // a client that is blocked on a key was not served

	writers []func() // functions of WhenWritable, which wait until no pause is in force
}

// begin starts the pause of a purpose until untilMs. If that pause is already in force, begin lengthens and strengthens
// it.
func (p *pause) begin(by PausePurpose, all bool, untilMs int64) {
	p.until[by] = max(p.until[by], untilMs)
	p.all[by] = p.all[by] || all
}

// end ends the pause of a purpose.
func (p *pause) end(by PausePurpose) { p.until[by], p.all[by] = 0, false }

// endOver ends the pauses that are over at nowMs. It reports whether a weaker pause remains, or none, so that held
// clients may try again.
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

// nextEnd returns the time, by Core.SteadyMs, at which the first of the pauses in force ends. It returns 0 if none is.
func (p *pause) nextEnd() (at int64) {
	for _, until := range p.until {
		if until != 0 && (at == 0 || until < at) {
			at = until
		}
	}
	return at
}

// lasts reports whether a pause is in force that may last. The log's pause ends when the disk has caught up.
func (p *pause) lasts() bool {
	for by, until := range p.until {
		if until != 0 && PausePurpose(by) != PauseLog {
			return true
		}
	}
	return false
}

// holds reports whether a command with these flags must wait. A client that receives the stream is never held back. All
// commands of our primary's stream are held back.
func (p *pause) holds(cl *client.Client, flags command.Flags) bool {
	if !p.on || cl.Flags&(fedStream|client.Fake) != 0 {
		return false
	}
	return p.every || cl.Flags&client.Primary != 0 || flags&(command.Write|command.MayReplicate) != 0
}

// hold holds cl back until the pause ends or becomes weaker.
func (p *pause) hold(cl *client.Client) {
	cl.Flags |= client.Paused | client.Blocked
	cl.Wait = p.held.PushBack(cl)
}

// forget removes a client that leaves from the clients held back.
func (p *pause) forget(cl *client.Client) {
	if cl.Is(client.Paused) {
		p.held.Remove(cl.Wait.(*list.Element))
		p.free(cl)
	}
}

// release makes every held client offer its request again.
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
