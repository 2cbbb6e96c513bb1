package protocol

import (
	"math"
	"sync/atomic"
)

// A Gate holds back what was decided in turns that are not durable yet. The append-only file shuts and opens it, loops
// ask. The zero value, or nil, is not for use: NewGate makes an open one.
//
//	turns:  … 6   7   8   9      10
//	            └ from           └ running
//	            effects wait     not over: it may still have effects
//	            for the disk
//
// protocol.G1. Once a turn has passed, so has every turn before it.
// protocol.G2. Whoever ends a turn calls Shut before Ended, and Holds reads running before from. So a turn with effects
// does not pass between the two.
type Gate struct {
	from    atomic.Uint64 // turns from here on are held back
	running atomic.Uint64 // so are turns from here on, which are not over
	waiting []func()      // tells loops that more may pass; set once, before the first Open
}

// NewGate makes a gate that holds nothing back.
func NewGate() *Gate {
	g := &Gate{}
	g.from.Store(math.MaxUint64)
	g.running.Store(math.MaxUint64)
	return g
}

// Holds says whether what that turn has decided may not leave yet. Any goroutine; a nil gate holds nothing.
func (g *Gate) Holds(turn uint64) bool {
	return g != nil && (turn >= g.running.Load() || turn >= g.from.Load()) // in this order (protocol.G2)
}

// OnOpen has f called whenever more may pass. f must not wait.
func (g *Gate) OnOpen(f func()) { g.waiting = append(g.waiting, f) }

// Shut holds back that turn and all later ones. Turns that are held back already stay so.
func (g *Gate) Shut(turn uint64) {
	if turn < g.from.Load() {
		g.from.Store(turn)
	}
}

// Open lets every turn before from pass, if it is over. math.MaxUint64 is all of them.
func (g *Gate) Open(from uint64) {
	g.from.Store(from)
	g.tell()
}

// Ended says that a turn is over, and holds back all later ones until they are. Their posts may be read while they run,
// and before anybody knows whether they have effects.
func (g *Gate) Ended(turn uint64) {
	g.running.Store(turn + 1)
	if turn < g.from.Load() {
		g.tell()
	}
}

// Relax ends what Ended has begun: turns are held back only from where Shut says.
func (g *Gate) Relax() {
	g.running.Store(math.MaxUint64)
	g.tell()
}

func (g *Gate) tell() {
	for _, f := range g.waiting {
		f()
	}
}
