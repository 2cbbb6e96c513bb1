package gnet

// A Gather decides whether each event is followed by its own turn, or waits for the other events of its iteration
// (gnet.G3).
//
// gnet has no hook at the end of an iteration. A loop that gathers rings its own bell, and the next epoll_wait brings
// the bell after the events of this one. That costs a write and an event each iteration, and pays only when an
// iteration has many events. So every probeEvery-th event is a probe: it rings too, and the number of events until
// the bell is heard decides about the following ones.
type Gather struct {
	on       bool
	events   uint // to find the probes
	gathered int  // events since the bell was heard, or since the last turn that did not wait
}

const (
	gatherFrom = 8   // events an iteration must have for gathering to pay
	probeEvery = 256 // events between two probes
)

// TurnNow counts an event that has left work, and reports whether its turn runs at once. Otherwise the bell has to be
// rung. alone: the loop has only one connection.
func (g *Gather) TurnNow(alone bool) bool {
	g.gathered++
	if g.on {
		return false
	}
	if g.events++; g.events%probeEvery == 0 && !alone {
		return false
	}
	g.gathered = 0
	return true
}

// Wait counts an event whose turn comes with the bell that was rung before.
func (g *Gather) Wait() { g.gathered++ }

// Heard is called when the bell is.
func (g *Gather) Heard() {
	g.on, g.gathered = g.gathered >= gatherFrom, 0
}
