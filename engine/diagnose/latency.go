package diagnose

import (
	"spindle/engine/command"
	"spindle/protocol"
)

func (f *family) latencyHistory(c *command.Context) error {
	s := f.Events.Of(string(c.Args[2]))
	if s == nil {
		c.Reply.Array(0)
		return nil
	}
	list := s.List()
	c.Reply.Array(len(list))
	for _, at := range list {
		c.Reply.Array(2)
		c.Reply.Int(at.Seconds)
		c.Reply.Int(at.Millis)
	}
	return nil
}

// latencyLatest is LATENCY LATEST. Replies, for each kind: name, time and duration of the last event, longest duration.
func (f *family) latencyLatest(c *command.Context) error {
	names := f.Events.Names()
	c.Reply.Array(len(names))
	for _, name := range names {
		s := f.Events.Of(name)
		c.Reply.Array(4)
		c.Reply.BulkString(name)
		c.Reply.Int(s.Last().Seconds)
		c.Reply.Int(s.Last().Millis)
		c.Reply.Int(s.Longest)
	}
	return nil
}

// latencyReset is LATENCY RESET [event …].
// Replies: the number of kinds removed.
func (f *family) latencyReset(c *command.Context) error {
	var names []string
	for _, a := range c.Args[2:] {
		names = append(names, string(a))
	}
	c.Reply.Int(int64(f.Events.Reset(names...)))
	return nil
}

// latencyHistogram is LATENCY HISTOGRAM [command …].
// Replies: for each command, its calls, and how many took at most 1, 2, 4, … µs. The name of a container command
// includes its subcommands. Unknown and unused commands are left out.
func (f *family) latencyHistogram(c *command.Context) error {
	mark, n := c.Reply.Mark(), 0
	add := func(row *command.Spec) {
		if row.Stats.Latency.Total == 0 {
			return
		}
		n++
		c.Reply.BulkString(row.Full)
		appendHistogram(c.Reply, &row.Stats.Latency)
	}
	if len(c.Args) == 2 {
		for _, row := range f.Catalogue().All() {
			add(row)
		}
	}
	for _, name := range c.Args[2:] {
		row := f.Catalogue().ByFullName(name)
		if row == nil {
			continue
		}
		add(row)
		for i := range row.Subs {
			add(&row.Subs[i])
		}
	}
	c.Reply.MapAt(mark, n)
	return nil
}

func appendHistogram(r *protocol.Reply, h *command.Histogram) {
	r.Map(2)
	r.BulkString("calls")
	r.Int(int64(h.Total))
	r.BulkString("histogram_usec")
	mark, n := r.Mark(), 0
	for micros, calls := range h.Cumulative {
		r.Int(micros)
		r.Int(int64(calls))
		n++
	}
	r.MapAt(mark, n)
}

// latencyGraph is LATENCY GRAPH event.
// Replies: a picture of the samples.
func (f *family) latencyGraph(c *command.Context) error {
	name := string(c.Args[2])
	s := f.Events.Of(name)
	if s == nil {
		return errNoSamples(name)
	}
	c.Reply.Verbatim("txt", s.Graph(name, c.Now))
	return nil
}

// advice is what an operator should check when an event of this kind is slow.
var advice = map[string]string{
	"command": "Some commands take long themselves: see SLOWLOG GET, and prefer commands that touch few " +
		"elements.",
	"fast-command": "Even constant-time commands were late: other processes may take this machine's " +
		"processors or its memory bandwidth.",
	"aof-fsync-always": "The disk is slow to sync: a faster one helps, and so does appendfsync everysec.",
	"aof-write":        "Writing the append-only file is slow: look for other users of the disk.",
	"aof-write-alone": "Writing the append-only file is slow though nothing else of this server writes: look at " +
		"the disk.",
	"aof-write-active-child": "A snapshot or a new base takes the disk: no-appendfsync-on-rewrite yes lets the log " +
		"wait for it.",
	"aof-write-pending-fsync": "The disk is slow to sync, and writes wait for it in memory: no client waits for them " +
		"before aof-buffer-limit.",
	"expire-cycle": "Many keys end at the same instant: spread their deadlines.",
	"eviction-cycle": "Memory is at its limit and keys leave faster than they should: raise maxmemory or write " +
		"less.",
	"eviction-del":        "Large values are evicted: smaller ones leave more evenly.",
	"fork":                "Freezing the data set took long: report it, it should take microseconds.",
	"active-defrag-cycle": "Defragmentation takes long slices.",
}

// latencyDoctor is LATENCY DOCTOR.
// Replies: the slow events, their durations, and advice.
func (f *family) latencyDoctor(c *command.Context) error {
	threshold := int64(0)
	if f.LatencyThreshold != nil {
		threshold = f.LatencyThreshold()
	}
	c.Reply.Verbatim("txt", f.Events.Report(threshold, c.Now, func(name string) string { return advice[name] }))
	return nil
}

func latencyHelp(c *command.Context) error {
	command.Help(c,
		"DOCTOR",
		"    What was slow, and what to look at.",
		"GRAPH <event>",
		"    A picture of the samples of <event>.",
		"HISTORY <event>",
		"    The samples of <event>: time and milliseconds.",
		"LATEST",
		"    The last and the longest sample of every event.",
		"RESET [<event> ...]",
		"    Forget the samples of these events, or of all.",
		"HISTOGRAM [COMMAND ...]",
		"    How many calls of these commands, or of all, took at most 1, 2, 4, ... microseconds.",
	)
	return nil
}
