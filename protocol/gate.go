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
// protocol.G3. What a transaction or a script posts is marked OfUnit. It passes with the turn in which the unit ends,
// which may be many turns later. One unit is open at most. UnitEnded stores over before open; Holds reads open first.
type Gate struct {
	from    atomic.Uint64 // turns from here on are held back
	running atomic.Uint64 // so are turns from here on, which are not over
	open    atomic.Uint64 // the turn in which the open unit has begun; math.MaxUint64: no unit is open
	over    atomic.Uint64 // the turn in which the last unit has ended
	halted  atomic.Bool   // the open unit never ends
	waiting []func()      // tells loops that more may pass; set once, before the first Open
}

// NewGate makes a gate that holds nothing back.
func NewGate() *Gate {
	g := &Gate{}
	g.from.Store(math.MaxUint64)
	g.running.Store(math.MaxUint64)
	g.open.Store(math.MaxUint64)
	return g
}

// unitBit tells the mark of a unit's post from a turn's number.
const unitBit = 1 << 63

// OfUnit is the mark of what the open unit posts in that turn.
func OfUnit(turn uint64) uint64 { return turn | unitBit }

// TurnOf is the turn in which something was posted with that mark.
func TurnOf(mark uint64) uint64 { return mark &^ unitBit }

// Holds says whether what has that mark, a turn's number or OfUnit, may not leave yet. Any goroutine; a nil gate holds
// nothing.
func (g *Gate) Holds(mark uint64) bool {
	if g == nil {
		return false
	}
	turn := g.Settle(mark)
	return turn >= unitBit || turn >= g.running.Load() || turn >= g.from.Load() // in this order (protocol.G2)
}

// Settle is the mark that a keeper of marks goes on with: once a unit has ended, the turn in which it did. A keeper
// that is told of an opening settles all its marks. Otherwise each later unit would put them off again.
func (g *Gate) Settle(mark uint64) uint64 {
	if g == nil || mark < unitBit || TurnOf(mark) >= g.open.Load() { // protocol.G3
		return mark
	}
	return max(TurnOf(mark), g.over.Load())
}

// Later is the mark of what passes with the later one of two.
func Later(a, b uint64) uint64 { return max(TurnOf(a), TurnOf(b)) | (a|b)&unitBit }

// UnitOpened holds back what a unit posts from that turn on. A nil gate does nothing.
func (g *Gate) UnitOpened(turn uint64) {
	if g != nil {
		g.open.Store(turn)
	}
}

// UnitEnded lets it pass with that turn. A nil gate does nothing.
func (g *Gate) UnitEnded(turn uint64) {
	if g == nil {
		return
	}
	g.over.Store(turn)
	g.open.Store(math.MaxUint64)
	g.tell()
}

// Halt says that the open unit never ends, because the process does. What the unit has posted never passes.
func (g *Gate) Halt() {
	if g != nil {
		g.halted.Store(true)
	}
}

// Never says whether what has that mark will never pass. Any goroutine.
func (g *Gate) Never(mark uint64) bool { return g.halted.Load() && g.Settle(mark) >= unitBit }

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
