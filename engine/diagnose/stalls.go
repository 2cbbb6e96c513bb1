package diagnose

import (
	"slices"
	"time"

	"spindle/engine/command"
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

// String returns the kind's name in the log and on /metrics.
func (k Kind) String() string {
	return [...]string{"command", "script", "duty", "machine", "other"}[k]
}

// A Stall is a turn that was held for longer than the threshold while other goroutines waited for it.
type Stall struct {
	ID   int64
	AtMs int64 // its end, in Unix ms
	Took time.Duration
	CPU  time.Duration // upper bound of the process's CPU time during the stall
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

// Stalls is the log of the newest stalls. It has at most most() entries.
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

// List returns the newest n stalls, the newest first, or all for a negative n.
func (s *Stalls) List(n int) []Stall {
	if n < 0 || n > len(s.log) {
		n = len(s.log)
	}
	list := slices.Clone(s.log[len(s.log)-n:])
	slices.Reverse(list)
	return list
}

// Copy returns a copy of the present log, for a reader outside the turn.
func (s *Stalls) Copy() *Stalls { return &Stalls{log: slices.Clone(s.log)} }

func (s *Stalls) Len() int { return len(s.log) }

// Reset removes all entries. Totals and the numbering of entries continue.
func (s *Stalls) Reset() { s.log = nil }

// Totals returns the sums by kind since the start. They include entries that the log no longer has.
func (s *Stalls) Totals() [Kinds]Total { return s.totals }

// ResetTotals sets the totals to 0, for CONFIG RESETSTAT.
func (s *Stalls) ResetTotals() { s.totals = [Kinds]Total{} }

// stallsGet is STALLS GET [count]. Replies: the newest stalls first, 10 by default, all for -1. Each is a map: id, time
// of the end in Unix ms, usec, cpu-usec (an upper bound), kind, what, key, addr, name.
func (f *family) stallsGet(c *command.Context) error {
	count, err := newestOf(c)
	if err != nil {
		return err
	}
	r := c.Reply
	list := f.Stalls().List(int(min(count, 1<<30)))
	r.Array(len(list))
	for i := range list {
		e := &list[i]
		r.Map(9)
		whole := func(name string, v int64) { r.BulkString(name); r.Int(v) }
		text := func(name, v string) { r.BulkString(name); r.BulkString(v) }
		whole("id", e.ID)
		whole("time", e.AtMs)
		whole("usec", e.Took.Microseconds())
		whole("cpu-usec", e.CPU.Microseconds())
		text("kind", e.Kind.String())
		text("what", e.What)
		text("key", e.Key)
		text("addr", e.Addr)
		text("name", e.Name)
	}
	return nil
}

func (f *family) stallsLen(c *command.Context) error {
	c.Reply.Int(int64(f.Stalls().Len()))
	return nil
}

func (f *family) stallsReset(c *command.Context) error {
	f.Stalls().Reset()
	c.Reply.OK()
	return nil
}

func stallsHelp(c *command.Context) error {
	command.Help(c,
		"GET [<count>]",
		"    The newest <count> times (default: 10, -1 for all) that all clients waited for",
		"    longer than stall-threshold. <kind> is what for: a command, a script, a duty,",
		"    the machine, which gave the process no processor, or another part of the server.",
		"LEN",
		"    The number of entries.",
		"RESET",
		"    Forget the entries.",
	)
	return nil
}
