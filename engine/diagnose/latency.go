package diagnose

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"spindle/engine/command"
	"spindle/protocol"
)

// Events records the latest events that took longer than latency-monitor-threshold, by kind.
//
// A sample is one second. If several events of a kind fall in one second, it keeps the longest.
type Events struct{ series map[string]*series }

// samplesKept is the number of samples per kind.
const samplesKept = 160

type series struct {
	samples [samplesKept]sample
	next    int
	most    int64
}

type sample struct{ seconds, millis int64 }

func NewEvents() *Events { return &Events{series: map[string]*series{}} }

// Record adds an event. The caller must have compared took with the threshold.
func (e *Events) Record(nowMs int64, event string, took time.Duration) {
	s := e.series[event]
	if s == nil {
		s = &series{}
		e.series[event] = s
	}
	seconds, millis := nowMs/1000, took.Milliseconds()
	s.most = max(s.most, millis)
	last := &s.samples[(s.next+samplesKept-1)%samplesKept]
	if last.seconds == seconds {
		last.millis = max(last.millis, millis)
		return
	}
	s.samples[s.next] = sample{seconds, millis}
	s.next = (s.next + 1) % samplesKept
}

// Reset removes one kind of event. It returns false if the kind is unknown.
func (e *Events) Reset(event string) bool {
	_, known := e.series[event]
	delete(e.series, event)
	return known
}

// names returns the recorded kinds, sorted.
func (e *Events) names() []string {
	names := make([]string, 0, len(e.series))
	for name := range e.series {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// list returns the samples, oldest first.
func (s *series) list() []sample {
	all := make([]sample, 0, samplesKept)
	for i := range samplesKept {
		if at := s.samples[(s.next+i)%samplesKept]; at.seconds != 0 {
			all = append(all, at)
		}
	}
	return all
}

func (f *family) latencyHistory(c *command.Context) error {
	s := f.Events.series[string(c.Args[2])]
	if s == nil {
		c.Reply.Array(0)
		return nil
	}
	list := s.list()
	c.Reply.Array(len(list))
	for _, at := range list {
		c.Reply.Array(2)
		c.Reply.Int(at.seconds)
		c.Reply.Int(at.millis)
	}
	return nil
}

// latencyLatest is LATENCY LATEST. Replies, for each kind: name, time and duration of the last event, longest duration.
func (f *family) latencyLatest(c *command.Context) error {
	names := f.Events.names()
	c.Reply.Array(len(names))
	for _, name := range names {
		s := f.Events.series[name]
		last := s.samples[(s.next+samplesKept-1)%samplesKept]
		c.Reply.Array(4)
		c.Reply.BulkString(name)
		c.Reply.Int(last.seconds)
		c.Reply.Int(last.millis)
		c.Reply.Int(s.most)
	}
	return nil
}

// latencyReset is LATENCY RESET [event …].
// Replies: the number of kinds removed.
func (f *family) latencyReset(c *command.Context) error {
	n := 0
	if len(c.Args) == 2 {
		n = len(f.Events.series)
		clear(f.Events.series)
	}
	for _, a := range c.Args[2:] {
		if f.Events.Reset(string(a)) {
			n++
		}
	}
	c.Reply.Int(int64(n))
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
// Replies: a picture of four lines. Each column is a sample, with its age below.
func (f *family) latencyGraph(c *command.Context) error {
	name := string(c.Args[2])
	s := f.Events.series[name]
	if s == nil {
		return errNoSamples(name)
	}
	list := s.list()
	low, high := list[0].millis, list[0].millis
	for _, at := range list {
		low, high = min(low, at.millis), max(high, at.millis)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s - high %d ms, low %d ms (all time high %d ms)\n", name, high, low, s.most)
	b.WriteString(strings.Repeat("-", 80) + "\n")
	list = list[max(0, len(list)-80):]
	const marks = "_o#"
	for line := 3; line >= 0; line-- { // twelve heights: three marks in each of four lines
		row := []byte{}
		for _, at := range list {
			height := 0
			if high > low {
				height = int((at.millis - low) * 11 / (high - low))
			}
			switch {
			case height/3 == line:
				row = append(row, marks[height%3])
			case height/3 > line:
				row = append(row, '|')
			default:
				row = append(row, ' ')
			}
		}
		if text := strings.TrimRight(string(row), " "); text != "" || line == 0 {
			b.WriteString(text + "\n")
		}
	}
	b.WriteString("\n")
	ages := make([]string, len(list))
	longest := 0
	for i, at := range list {
		ages[i] = age(c.Now/1000 - at.seconds)
		longest = max(longest, len(ages[i]))
	}
	for line := range longest {
		for _, a := range ages {
			if line < len(a) {
				b.WriteByte(a[line])
			} else {
				b.WriteByte(' ')
			}
		}
		b.WriteString("\n")
	}
	c.Reply.Verbatim("txt", b.String())
	return nil
}

// age formats a number of seconds in one unit: 59s, 12m, 3h, 8d.
func age(seconds int64) string {
	switch {
	case seconds < 60:
		return fmt.Sprintf("%ds", seconds)
	case seconds < 3600:
		return fmt.Sprintf("%dm", seconds/60)
	case seconds < 86400:
		return fmt.Sprintf("%dh", seconds/3600)
	}
	return fmt.Sprintf("%dd", seconds/86400)
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
	"aof-write-pending-fsync": "The disk is slow to sync, and writes wait for it in memory: nobody waits for them " +
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
	var b strings.Builder
	threshold := int64(0)
	if f.LatencyThreshold != nil {
		threshold = f.LatencyThreshold()
	}
	names := f.Events.names()
	switch {
	case threshold == 0 && len(names) == 0:
		b.WriteString("Latency monitoring is disabled: nothing was measured, so there is nothing to say. " +
			"CONFIG SET latency-monitor-threshold <milliseconds> enables it.\n")
	case len(names) == 0:
		fmt.Fprintf(&b, "No event took longer than %d milliseconds. No worry.\n", threshold)
	default:
		b.WriteString("These events took longer than the threshold:\n\n")
	}
	for i, name := range names {
		s := f.Events.series[name]
		list := s.list()
		sum, away := int64(0), int64(0)
		for _, at := range list {
			sum += at.millis
		}
		mean := sum / int64(len(list))
		for _, at := range list {
			away += max(at.millis-mean, mean-at.millis)
		}
		period := float64(c.Now/1000-list[0].seconds) / float64(len(list))
		fmt.Fprintf(&b, "%d. %s: %d spikes (average %dms, mean deviation %dms, period %.2f sec). Worst all time event "+
			"%dms.\n",
			i+1, name, len(list), mean, away/int64(len(list)), period, s.most)
	}
	told := []string{}
	for _, name := range names {
		if text := advice[name]; text != "" && !slices.Contains(told, text) {
			told = append(told, text)
		}
	}
	if len(told) > 0 {
		b.WriteString("\nAdvice:\n\n- " + strings.Join(told, "\n- ") + "\n")
	}
	c.Reply.Verbatim("txt", b.String())
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
