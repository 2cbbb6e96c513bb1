package protocol

import (
	"math"
	"sync/atomic"
)

// A Gate holds back output of turns that are not durable yet. The append-only file closes and opens it; loops ask it.
// Make one with NewGate; the zero value is not usable.
//
//	turns:  … 6   7   8   9      10
//	            └ from           └ running
//	            effects wait     not over: it may still have effects
//	            for the disk
//
// protocol.G1. Once a turn has passed, so has every turn before it.
// protocol.G2. At the end of a turn Shut is called before Ended, and Holds reads running before from. So a turn with
// effects does not pass between the two.
// protocol.G3. Output of a transaction or a script is marked OfUnit. It passes with the turn in which the unit ends,
// perhaps many turns later. At most one unit is open. UnitEnded stores over before open; Holds reads open first.
type Gate struct {
	from    atomic.Uint64 // this turn and later ones are held back
	running atomic.Uint64 // this turn and later ones are not over, so they are held back
	open    atomic.Uint64 // the turn in which the open unit began; math.MaxUint64: no unit is open
	over    atomic.Uint64 // the turn in which the last unit ended
	halted  atomic.Bool   // the open unit never ends
	waiting []func()      // called when more may pass; set before the first Open
	acks    acks
}

// NewGate returns a gate that holds nothing back.
func NewGate() *Gate {
	g := &Gate{}
	g.from.Store(math.MaxUint64)
	g.running.Store(math.MaxUint64)
	g.open.Store(math.MaxUint64)
	g.acks.init()
	return g
}

// unitBit marks output of a unit.
const unitBit = 1 << 63

// OfUnit returns the mark for output of the open unit in that turn.
func OfUnit(turn uint64) uint64 { return turn | unitBit }

// TurnOf returns the turn of a mark.
func TurnOf(mark uint64) uint64 { return mark &^ unitBit }

// Holds reports whether output with this mark (a turn's number or OfUnit) must not leave yet. Any goroutine. A nil gate
// holds nothing back.
func (g *Gate) Holds(mark uint64) bool {
	if g == nil {
		return false
	}
	turn := g.Settle(mark)
	return turn >= unitBit || turn >= g.running.Load() || turn >= g.from.Load() // in this order (protocol.G2)
}

// Settle returns the mark that must replace mark. After a unit has ended, that is the turn in which it ended. Code that
// stores marks must settle all of them at each opening. Otherwise a later unit would delay them again.
func (g *Gate) Settle(mark uint64) uint64 {
	if g == nil || mark < unitBit || TurnOf(mark) >= g.open.Load() { // protocol.G3
		return mark
	}
	return max(TurnOf(mark), g.over.Load())
}

// Later returns the mark that passes last of a and b.
func Later(a, b uint64) uint64 { return max(TurnOf(a), TurnOf(b)) | (a|b)&unitBit }

// UnitOpened holds back output of the unit that begins in turn. A nil gate does nothing.
func (g *Gate) UnitOpened(turn uint64) {
	if g != nil {
		g.open.Store(turn)
	}
}

// UnitEnded lets the unit's output pass together with turn. A nil gate does nothing.
func (g *Gate) UnitEnded(turn uint64) {
	if g == nil {
		return
	}
	g.over.Store(turn)
	g.open.Store(math.MaxUint64)
	g.callWaiting()
}

// Halt notes that the open unit never ends, because the process ends. The unit's output never passes.
func (g *Gate) Halt() {
	if g != nil {
		g.halted.Store(true)
	}
}

// Never reports whether output with this mark will never pass. Any goroutine.
func (g *Gate) Never(mark uint64) bool { return g.halted.Load() && g.Settle(mark) >= unitBit }

// OnOpen registers f, which is called whenever more output may pass. f must not block.
func (g *Gate) OnOpen(f func()) { g.waiting = append(g.waiting, f) }

// Shut holds back turn and all later turns. Earlier turns that are held back stay held back.
func (g *Gate) Shut(turn uint64) {
	if turn < g.from.Load() {
		g.from.Store(turn)
	}
}

// Open lets every turn before from pass, once the turn is over. math.MaxUint64 means all turns.
func (g *Gate) Open(from uint64) {
	g.from.Store(from)
	g.callWaiting()
}

// Ended notes that a turn is over, and holds back all later turns until they are over. Loops may see posts of a running
// turn before it is known whether the turn has effects.
func (g *Gate) Ended(turn uint64) {
	g.running.Store(turn + 1)
	if turn < g.from.Load() {
		g.callWaiting()
	}
}

// Relax undoes Ended: only turns since Shut are held back.
func (g *Gate) Relax() {
	g.running.Store(math.MaxUint64)
	g.callWaiting()
}

func (g *Gate) callWaiting() {
	for _, f := range g.waiting {
		f()
	}
}
