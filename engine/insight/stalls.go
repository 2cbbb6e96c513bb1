package insight

import (
	"slices"
	"time"
)

// Kind is the cause of a stall.
type Kind uint8

const (
	Command Kind = iota // a command, or a run of equal ones
	Script              // a script or function, or one of its commands
	Duty                // the core's own periodic work
	Machine             // the process had no processor for most of the time
	Other               // another part of the server, inside a turn
	Kinds
)

// String is the kind's name in the log and on /metrics.
func (k Kind) String() string {
	return [...]string{"command", "script", "duty", "machine", "other"}[k]
}

// A Stall is a turn that was held for longer than the threshold while others waited.
type Stall struct {
	ID   int64
	AtMs int64 // its end, in Unix ms
	Took time.Duration
	CPU  time.Duration // upper bound of the process's CPU time in it
	Kind Kind
	What string // command and shortened arguments, or the name of a script or duty
	Key  string // the command's first key
	Addr string // the client's address
	Name string
}

type Total struct {
	Count uint64
	Took  time.Duration
}

// Stalls is the log of the newest stalls, at most most().
type Stalls struct {
	most   func() int64
	log    []Stall // oldest first
	nextID int64
	totals [Kinds]Total
}

func NewStalls(most func() int64) *Stalls { return &Stalls{most: most} }

// Note adds a stall and gives it an ID.
func (s *Stalls) Note(e Stall) {
	e.ID = s.nextID
	s.nextID++
	s.totals[e.Kind].Count++
	s.totals[e.Kind].Took += e.Took
	most := int(max(s.most(), 0))
	if s.log = append(s.log, e); len(s.log) > most {
		s.log = slices.Delete(s.log, 0, len(s.log)-most)
	}
}

// List is the newest n stalls, the newest first; all for a negative n.
func (s *Stalls) List(n int) []Stall {
	if n < 0 || n > len(s.log) {
		n = len(s.log)
	}
	list := slices.Clone(s.log[len(s.log)-n:])
	slices.Reverse(list)
	return list
}

// Copy is the present log, for a reader outside the turn.
func (s *Stalls) Copy() *Stalls { return &Stalls{log: slices.Clone(s.log)} }

func (s *Stalls) Len() int { return len(s.log) }

// Reset removes all entries. Totals and ids continue.
func (s *Stalls) Reset() { s.log = nil }

// Totals are the sums by kind since the start, entries that are gone included.
func (s *Stalls) Totals() [Kinds]Total { return s.totals }

// ResetTotals is for CONFIG RESETSTAT.
func (s *Stalls) ResetTotals() { s.totals = [Kinds]Total{} }
