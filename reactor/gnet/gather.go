package gnet

// A Gather decides whether the loop's turn follows each event, or waits for the other events of the iteration
// (gnet.G3).
//
// gnet has no hook at the end of an iteration. A loop that gathers rings its own bell, and the next epoll_wait reports
// the bell after the events of this one. That costs a write and an event each iteration, and pays only when an
// iteration has many events. So every probeEvery-th event is a probe. It rings too, and the number of events before the
// bell decides how the following ones are handled.
type Gather struct {
	on       bool
	events   uint // to find the probes
	gathered int  // events since the bell was heard, or since the last turn that did not wait
}

const (
	gatherFrom = 8   // events an iteration must have for gathering to pay
	probeEvery = 256 // events between two probes
)

// TurnNow counts an event that has left work, and reports whether the loop's turn runs at once. Otherwise the caller
// rings the bell. alone means that the loop has only one connection.
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

// Wait counts an event whose turn runs with the bell that was rung before.
func (g *Gather) Wait() { g.gathered++ }

// Heard is called when the bell is reported.
func (g *Gather) Heard() {
	g.on, g.gathered = g.gathered >= gatherFrom, 0
}
