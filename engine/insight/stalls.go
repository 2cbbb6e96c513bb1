package insight

import (
	"slices"
	"time"
)

// Kind is what held a turn.
type Kind uint8

const (
	Command Kind = iota // a command, or a run of like ones
	Script              // a script or function, or a command of one
	Duty                // what the core does unasked
	Machine             // nothing of ours: the process had no processor for most of the time
	Other               // another part of the server, inside a turn
	Kinds
)

// String is the kind's name in the log and on /metrics.
func (k Kind) String() string {
	return [...]string{"command", "script", "duty", "machine", "other"}[k]
}

// A Stall is one time that others waited because a turn was held for longer than the threshold.
type Stall struct {
	ID   int64
	AtMs int64 // Unix ms, when it ended
	Took time.Duration
	CPU  time.Duration // at most so much of the process's was in it
	Kind Kind
	What string // command and arguments, shortened; a script's name; a duty's
	Key  string // the first that the command names
	Addr string // of its client
	Name string
}

// A Total sums up stalls of a kind.
type Total struct {
	Count uint64
	Took  time.Duration
}

// Stalls is the log of them. It keeps the last ones, most() at most.
type Stalls struct {
	most   func() int64
	log    []Stall // oldest first
	nextID int64
	totals [Kinds]Total
}

// NewStalls returns an empty log.
func NewStalls(most func() int64) *Stalls { return &Stalls{most: most} }

// Note adds a stall, whose ID is given here.
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

// List gives the last n, the newest first; all for a negative n.
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

// Len is how many are kept.
func (s *Stalls) Len() int { return len(s.log) }

// Reset forgets those that are kept. Totals and ids go on.
func (s *Stalls) Reset() { s.log = nil }

// Totals sums up all of each kind, also those that are not kept any more.
func (s *Stalls) Totals() [Kinds]Total { return s.totals }

// ResetTotals is CONFIG RESETSTAT's share.
func (s *Stalls) ResetTotals() { s.totals = [Kinds]Total{} }
