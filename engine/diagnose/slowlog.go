package diagnose

import (
	"slices"
	"strconv"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/number"
	"spindle/protocol"
)

// A Slowlog keeps the latest commands that took longer than slowlog-log-slower-than. The core compares the times.
//
// Memory: at most slowlog-max-len entries of at most 32 arguments of about 160 bytes.
type Slowlog struct {
	most    func() int64 // slowlog-max-len
	entries []slow       // oldest first; the first one is at start
	start   int
	nextID  int64
}

type slow struct {
	id, seconds, micros int64
	args                [][]byte
	addr, name          string
}

// Limits of a recorded command.
const (
	slowArgs  = 32
	slowBytes = 128
)

// NewSlowlog returns an empty log. most is the largest number of entries.
func NewSlowlog(most func() int64) *Slowlog { return &Slowlog{most: most} }

// Record adds a command. It copies args.
func (s *Slowlog) Record(nowMs int64, cl *client.Client, args [][]byte, took time.Duration) {
	most := s.most()
	if most <= 0 {
		s.Reset()
		return
	}
	e := slow{id: s.nextID, seconds: nowMs / 1000, micros: took.Microseconds(), args: trimmed(args),
		addr: cl.Addr(), name: cl.Name}
	s.nextID++
	s.entries = append(s.entries, e)
	for int64(s.Len()) > most {
		s.entries[s.start] = slow{}
		s.start++
	}
	if s.start > 64 && s.start > len(s.entries)/2 {
		n := copy(s.entries, s.entries[s.start:])
		clear(s.entries[n:])
		s.entries, s.start = s.entries[:n], 0
	}
}

func (s *Slowlog) Len() int { return len(s.entries) - s.start }

// Reset removes all entries. Ids continue.
func (s *Slowlog) Reset() { s.entries, s.start = nil, 0 }

// trimmed copies args: at most 32 of them, at most 128 bytes of each. It marks what it left out.
func trimmed(args [][]byte) [][]byte {
	n := min(len(args), slowArgs)
	kept := make([][]byte, n)
	for i := range n {
		switch a := args[i]; {
		case i == slowArgs-1 && len(args) > slowArgs:
			kept[i] = more(nil, len(args)-slowArgs+1, " more arguments)")
		case len(a) > slowBytes:
			kept[i] = more(a[:slowBytes:slowBytes], len(a)-slowBytes, " more bytes)")
		default:
			kept[i] = append([]byte{}, a...)
		}
	}
	return kept
}

func more(b []byte, n int, what string) []byte {
	return append(strconv.AppendInt(append(b, "... ("...), int64(n), 10), what...)
}

// slowlogGet is SLOWLOG GET [count]. Replies: the newest entries first, 10 by default, all for -1.
func (f *family) slowlogGet(c *command.Context) error {
	count := int64(10)
	if len(c.Args) > 3 {
		return command.ErrSubcommandSyntax(c.Args[0], c.Args[1])
	}
	if len(c.Args) == 3 {
		n, ok := number.ParseInt(c.Args[2])
		if !ok || n < -1 {
			return errNewest
		}
		count = n
	}
	f.Slowlog.Append(c.Reply, count)
	return nil
}

// Copy is the current log, for readers outside the turn.
func (s *Slowlog) Copy() *Slowlog { return &Slowlog{entries: slices.Clone(s.entries[s.start:])} }

// Append replies the newest count entries, all for -1.
func (s *Slowlog) Append(r *protocol.Reply, count int64) {
	if count == -1 || count > int64(s.Len()) {
		count = int64(s.Len())
	}
	r.Array(int(count))
	for i := len(s.entries) - 1; i >= len(s.entries)-int(count); i-- {
		e := &s.entries[i]
		r.Array(6)
		r.Int(e.id)
		r.Int(e.seconds)
		r.Int(e.micros)
		r.Array(len(e.args))
		for _, a := range e.args {
			r.Bulk(a)
		}
		r.BulkString(e.addr)
		r.BulkString(e.name)
	}
}

func (f *family) slowlogLen(c *command.Context) error {
	c.Reply.Int(int64(f.Slowlog.Len()))
	return nil
}

func (f *family) slowlogReset(c *command.Context) error {
	f.Slowlog.Reset()
	c.Reply.OK()
	return nil
}

func slowlogHelp(c *command.Context) error {
	command.Help(c,
		"GET [<count>]",
		"    The newest <count> entries (default: 10, -1 for all). An entry is",
		"    id, Unix time, microseconds, arguments, address and name of the client.",
		"LEN",
		"    The number of entries.",
		"RESET",
		"    Forget the entries.",
	)
	return nil
}
