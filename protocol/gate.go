package protocol

import (
	"math"
	"sync/atomic"
)

// A Gate holds back what was decided in turns that are not durable yet. The append-only file shuts and opens it, loops
// ask. The zero value, or nil, is not for use: NewGate makes an open one.
//
// protocol.G1. Once a turn has passed, so has every turn before it.
type Gate struct {
	from    atomic.Uint64 // turns from here on are held back
	waiting []func()      // tells loops that more may pass; set once, before the first Open
}

// NewGate makes a gate that holds nothing back.
func NewGate() *Gate {
	g := &Gate{}
	g.from.Store(math.MaxUint64)
	return g
}

// Holds says whether what that turn has decided may not leave yet. Any goroutine; a nil gate holds nothing.
func (g *Gate) Holds(turn uint64) bool { return g != nil && turn >= g.from.Load() }

// OnOpen has f called whenever more may pass. f must not wait.
func (g *Gate) OnOpen(f func()) { g.waiting = append(g.waiting, f) }

// Shut holds back that turn and all later ones. Turns that are held back already stay so.
func (g *Gate) Shut(turn uint64) {
	if turn < g.from.Load() {
		g.from.Store(turn)
	}
}

// Open lets every turn before from pass. math.MaxUint64 is all of them.
func (g *Gate) Open(from uint64) {
	g.from.Store(from)
	for _, f := range g.waiting {
		f()
	}
}
