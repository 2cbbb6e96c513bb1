package protocol

import (
	"math"
	"sync/atomic"
)

// AckLevels is the greatest number of replicas that a reply can wait for.
const AckLevels = 8

// acks is the second half of the gate. It holds back output until enough replicas have the data that the output shows.
// The level of an output is the number of replicas that its receiver waits for; level 0 waits for none.
//
//	turns at one level:  … 3   4   5 │ 6   7 │ 8   9
//	                     passed      │failed │ └ from: held back
//
// protocol.A1. At a level each turn is held back, then passes or fails; that never changes again. A span of failed
// turns is in failed before from moves past it.
// protocol.A2. As protocol.G2: at the end of a turn ShutLevel is called before EndedAt, and HoldsAt reads running
// before from.
//
// Only the holder of the turn writes; any goroutine reads.
type acks struct {
	running atomic.Uint64 // this turn and later ones are not over
	from    [AckLevels + 1]atomic.Uint64
	failed  [AckLevels + 1]atomic.Pointer[[]turnSpan]
	common  atomic.Uint32
	refused atomic.Int64
}

// A turnSpan is the turns from first up to end, without end itself.
type turnSpan struct{ first, end uint64 }

// spansMost bounds the spans of a level. Past this number the oldest two become one. The turns between them then fail
// for output that was not checked for that long. It is never wrong to report a write as unconfirmed.
const spansMost = 64

func (a *acks) init() {
	a.running.Store(math.MaxUint64)
	for i := range a.from {
		a.from[i].Store(math.MaxUint64)
	}
}

// A Leveler is a session that knows how many replicas its output waits for now. AckLevel returns at most AckLevels. Any
// goroutine.
type Leveler interface{ AckLevel() uint8 }

// HoldsAt reports whether output with this mark must not leave yet at that level. Any goroutine. A nil gate holds
// nothing back.
func (g *Gate) HoldsAt(mark uint64, level uint8) bool {
	if g.Holds(mark) {
		return true
	}
	if level == 0 || g == nil {
		return false
	}
	turn := g.Settle(mark)
	return turn >= g.acks.running.Load() || turn >= g.acks.from[level].Load() // in this order (protocol.A2)
}

// FailsAt reports whether output with this mark has failed, because too few replicas have confirmed its data in time.
// The gate does not hold such output at that level. Any goroutine.
func (g *Gate) FailsAt(mark uint64, level uint8) bool {
	if level == 0 || g == nil {
		return false
	}
	spans := g.acks.failed[level].Load()
	if spans == nil {
		return false
	}
	turn := g.Settle(mark)
	for _, s := range *spans {
		if s.first <= turn && turn < s.end {
			return true
		}
	}
	return false
}

// ShutLevel holds back turn and all later turns at a level. Earlier turns that are held back stay held back. Turn only.
func (g *Gate) ShutLevel(level int, turn uint64) {
	if from := &g.acks.from[level]; turn < from.Load() {
		from.Store(turn)
	}
}

// PassLevel lets every turn before from pass at a level. math.MaxUint64 means all turns. The caller calls CallWaiting
// afterwards. Turn only.
func (g *Gate) PassLevel(level int, from uint64) { g.acks.from[level].Store(from) }

// FailLevel fails the turns of a level that are held back and come before end. Later turns stay held back. The caller
// calls CallWaiting afterwards. Turn only.
func (g *Gate) FailLevel(level int, end uint64) {
	first := g.acks.from[level].Load()
	if first >= end {
		return
	}
	spans := []turnSpan(nil)
	if old := g.acks.failed[level].Load(); old != nil {
		spans = append(spans, *old...) // a copy: loops may be reading the old list
	}
	if n := len(spans); n > 0 && spans[n-1].end == first {
		spans[n-1].end = end
	} else {
		spans = append(spans, turnSpan{first, end})
	}
	if len(spans) > spansMost {
		spans[1].first = spans[0].first
		spans = spans[1:]
	}
	g.acks.failed[level].Store(&spans)
	g.acks.from[level].Store(end)
}

// HeldFrom returns the first turn that a level holds back, or math.MaxUint64 if there is none. Any goroutine.
func (g *Gate) HeldFrom(level int) uint64 { return g.acks.from[level].Load() }

// EndedAt notes that a turn is over, and holds back later turns at all levels until they are over. As in Ended, loops
// may have looked too early. Turn only.
func (g *Gate) EndedAt(turn uint64) {
	g.acks.running.Store(turn + 1)
	for level := 1; level <= AckLevels; level++ {
		if turn < g.acks.from[level].Load() {
			g.callWaiting()
			return
		}
	}
}

// RelaxLevels lets every turn pass that no ShutLevel holds back. Turn only.
func (g *Gate) RelaxLevels() {
	g.acks.running.Store(math.MaxUint64)
	g.callWaiting()
}

// CallWaiting makes the loops check their held output again.
func (g *Gate) CallWaiting() { g.callWaiting() }

// SetCommonLevel sets the level of output that belongs to no client, such as messages for other nodes.
func (g *Gate) SetCommonLevel(level int) { g.acks.common.Store(uint32(level)) }

// CommonLevel returns the level that SetCommonLevel has set. Any goroutine.
func (g *Gate) CommonLevel() uint8 {
	if g == nil {
		return 0
	}
	return uint8(g.acks.common.Load())
}

// NoteRefused counts replies that became errors.
func (g *Gate) NoteRefused(n int) { g.acks.refused.Add(int64(n)) }

// Refused returns how many replies became errors. Any goroutine.
func (g *Gate) Refused() int64 { return g.acks.refused.Load() }
