package diagnose

import (
	"slices"
	"strconv"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/part"
	"spindle/internal/number"
	"spindle/protocol"
)

// A CommandLog keeps the latest commands that were slow, or whose request or reply was large. The core compares them
// with the thresholds.
//
// Memory: at most most() entries, each of at most argc() arguments. An argument has at most length() bytes, and a note
// of about 30 bytes on the rest.
type CommandLog struct {
	most    func() int64
	argc    func() int64
	length  func() int64
	entries []logged // oldest first; the first one is at start
	start   int
	nextID  int64
}

type logged struct {
	id, seconds int64
	value       int64 // µs or bytes
	args        [][]byte
	addr, name  string
}

// CommandLogs are the logs that COMMANDLOG shows. The first one is the log of SLOWLOG.
type CommandLogs [part.CommandLogs]*CommandLog

// NewCommandLogs returns empty logs.
func NewCommandLogs(s *Settings) *CommandLogs {
	all := &CommandLogs{}
	for i := range all {
		all[i] = &CommandLog{most: s.LogLens[i].Get, argc: s.EntryArgs.Get, length: s.EntryBytes.Get}
	}
	return all
}

// Copy returns a copy of the present logs, for readers outside the turn.
func (all *CommandLogs) Copy() *CommandLogs {
	copied := &CommandLogs{}
	for i, l := range all {
		copied[i] = &CommandLog{entries: slices.Clone(l.entries[l.start:])}
	}
	return copied
}

// Record adds a command. value is its duration in microseconds, or the bytes of its request or reply. Record copies
// args.
func (s *CommandLog) Record(nowMs int64, cl *client.Client, args [][]byte, value int64) {
	most := s.most()
	if most <= 0 {
		s.Reset()
		return
	}
	e := logged{id: s.nextID, seconds: nowMs / 1000, value: value, args: s.trimmed(args), addr: cl.Addr(), name: cl.Name}
	s.nextID++
	s.entries = append(s.entries, e)
	for int64(s.Len()) > most {
		s.entries[s.start] = logged{}
		s.start++
	}
	if s.start > 64 && s.start > len(s.entries)/2 {
		n := copy(s.entries, s.entries[s.start:])
		clear(s.entries[n:])
		s.entries, s.start = s.entries[:n], 0
	}
}

func (s *CommandLog) Len() int { return len(s.entries) - s.start }

// Reset removes all entries. The numbering of entries continues.
func (s *CommandLog) Reset() { s.entries, s.start = nil, 0 }

// trimmed copies args within the limits, and notes what it left out.
func (s *CommandLog) trimmed(args [][]byte) [][]byte {
	most, length := int(s.argc()), int(s.length())
	kept := make([][]byte, min(len(args), most))
	for i := range kept {
		switch a := args[i]; {
		case i == most-1 && len(args) > most:
			kept[i] = more(nil, len(args)-most+1, " more arguments)")
		case len(a) > length:
			kept[i] = more(a[:length:length], len(a)-length, " more bytes)")
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
	count, err := newestOf(c)
	if err == nil {
		f.Logs[part.Slow].Append(c.Reply, count)
	}
	return err
}

// newestOf reads a subcommand's only argument, the number of entries to reply: 10 by default, -1 for all.
func newestOf(c *command.Context) (int64, error) {
	switch len(c.Args) {
	case 2:
		return 10, nil
	case 3:
		return newest(c.Args[2])
	}
	return 0, command.ErrSubcommandSyntax(c.Args[0], c.Args[1])
}

// newest reads the number of entries to reply: -1 for all.
func newest(arg []byte) (int64, error) {
	n, ok := number.ParseInt(arg)
	if !ok || n < -1 {
		return 0, errNewest
	}
	return n, nil
}

// commandlogGet is COMMANDLOG GET count type.
// Replies: the newest entries first, all for -1, in the same form as in SLOWLOG GET.
func (f *family) commandlogGet(c *command.Context) error {
	count, err := newest(c.Args[2])
	if err != nil {
		return err
	}
	l, err := f.logOf(c.Args[3])
	if err != nil {
		return err
	}
	l.Append(c.Reply, count)
	return nil
}

// logOf returns the log of the type that word names.
func (f *family) logOf(word []byte) (*CommandLog, error) {
	for i, name := range [part.CommandLogs]string{"SLOW", "LARGE-REQUEST", "LARGE-REPLY"} {
		if command.Is(word, name) {
			return f.Logs[i], nil
		}
	}
	return nil, errLogType
}

// commandlogLen is COMMANDLOG LEN type. Replies: the number of entries.
func (f *family) commandlogLen(c *command.Context) error {
	l, err := f.logOf(c.Args[2])
	if err != nil {
		return err
	}
	c.Reply.Int(int64(l.Len()))
	return nil
}

// commandlogReset is COMMANDLOG RESET type. Replies: OK.
func (f *family) commandlogReset(c *command.Context) error {
	l, err := f.logOf(c.Args[2])
	if err != nil {
		return err
	}
	l.Reset()
	c.Reply.OK()
	return nil
}

func commandlogHelp(c *command.Context) error {
	command.Help(c,
		"GET <count> <type>",
		"    The newest <count> entries (-1 for all) of slow, large-request or large-reply.",
		"    An entry is id, Unix time, microseconds or bytes, arguments, address and name",
		"    of the client.",
		"LEN <type>",
		"    The number of entries.",
		"RESET <type>",
		"    Forget the entries.",
	)
	return nil
}

// Append writes the newest count entries to r, or all for -1.
func (s *CommandLog) Append(r *protocol.Reply, count int64) {
	if count == -1 || count > int64(s.Len()) {
		count = int64(s.Len())
	}
	r.Array(int(count))
	for i := len(s.entries) - 1; i >= len(s.entries)-int(count); i-- {
		e := &s.entries[i]
		r.Array(6)
		r.Int(e.id)
		r.Int(e.seconds)
		r.Int(e.value)
		r.Array(len(e.args))
		for _, a := range e.args {
			r.Bulk(a)
		}
		r.BulkString(e.addr)
		r.BulkString(e.name)
	}
}

func (f *family) slowlogLen(c *command.Context) error {
	c.Reply.Int(int64(f.Logs[part.Slow].Len()))
	return nil
}

func (f *family) slowlogReset(c *command.Context) error {
	f.Logs[part.Slow].Reset()
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
