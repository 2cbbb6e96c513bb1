package engine

import (
	"slices"
	"time"
)

// A LongTurn is one of the turns with the most CPU time since CONFIG RESETSTAT. They are recorded while
// measure-turn-cpu is set. The bench knows when the machine was held up, and so which of these turns do not count.
type LongTurn struct {
	Began     int64 // Unix µs
	Wall, CPU time.Duration
}

// longTurns holds the longest turns, the longest first.
type longTurns struct {
	n    int
	turn [16]LongTurn
}

// note records a turn if it is one of the longest. began and ended are nanoseconds after started.
func (l *longTurns) note(started time.Time, began, ended, cpu int64) {
	if l.n == len(l.turn) && cpu <= int64(l.turn[l.n-1].CPU) {
		return
	}
	if l.n < len(l.turn) {
		l.n++
	}
	at := l.n - 1
	for ; at > 0 && int64(l.turn[at-1].CPU) < cpu; at-- {
		l.turn[at] = l.turn[at-1]
	}
	l.turn[at] = LongTurn{Began: started.UnixMicro() + began/1000, Wall: time.Duration(ended - began),
		CPU: time.Duration(cpu)}
}

func (l *longTurns) list() []LongTurn { return slices.Clone(l.turn[:l.n]) }
