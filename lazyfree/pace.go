package lazyfree

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A pace leaves the processor to the loops: while turns run, a reclaimer rests as long as it worked; when
// the core is idle or jobs pile up it works through.
//
// P1. A rest is never longer than maxRest, so that memory comes back under any load.
type pace struct {
	turns atomic.Uint64
	seen  atomic.Uint64 // turns at the last rest
}

const maxRest = 2 * time.Millisecond

// turn is called once per turn.
func (p *pace) turn() { p.turns.Add(1) }

// rest follows a slice that took spent.
func (p *pace) rest(spent time.Duration, crowded bool) {
	turns := p.turns.Load()
	if busy := p.seen.Swap(turns) != turns; busy && !crowded {
		time.Sleep(min(spent, maxRest))
		return
	}
	runtime.Gosched()
}
