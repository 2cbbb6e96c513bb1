package proxy

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"spindle/internal/ascii"
	"spindle/internal/spikes"
	"spindle/protocol"
	"spindle/proxy/route"
)

// SLOWLOG and LATENCY are about the requests of this proxy. Their time is from the request to its reply. The shard's
// share is the time from the last sending to the shard's reply.

// slowLog is the slow requests, the newest first, and the latency events. Any goroutine.
type slowLog struct {
	mu      sync.Mutex
	nextID  int64
	entries []slowEntry
	events  spikes.Events
}

// A slowEntry is one slow request. args are shortened as a server shortens them; the last one tells the shard's share.
type slowEntry struct {
	id, at, micros int64
	args           []string
	addr, name     string
}

const (
	slowArgs    = 32  // arguments of an entry
	slowArg     = 128 // bytes of one
	eventTotal  = "command"
	eventPrefix = "shard:"
)

// watchSlowness notes the oldest call of u, which is answered now, if it was slow.
func (u *upstream) watchSlowness(c *call) {
	w := u.w
	share := w.clock - c.at
	total := share
	if c.tries > 0 {
		if o := c.s.owes(c.number); o != nil {
			total = w.clock - o.at
		}
	}
	settings := w.p.settings
	slower, threshold := settings.SlowerThan.Get(), settings.LatencyThreshold.Get()
	if (slower < 0 || total < slower*1000) && (threshold <= 0 || total < threshold*1e6) {
		return
	}
	l, now := &w.p.slow, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if threshold > 0 && total >= threshold*1e6 {
		l.events.Record(now.UnixMilli(), eventTotal, time.Duration(total))
		if share >= threshold*1e6 {
			l.events.Record(now.UnixMilli(), eventPrefix+u.at, time.Duration(share))
		}
	}
	most := int(settings.SlowLen.Get())
	if slower < 0 || total < slower*1000 || most == 0 {
		return
	}
	e := slowEntry{id: l.nextID, at: now.Unix(), micros: total / 1000, addr: c.s.conn.RemoteAddr(), name: string(c.s.name)}
	l.nextID++
	e.args = append(shorten(redacted(firstWords(u.request(), math.MaxInt))), fmt.Sprintf("(%d us at the shard %s)",
		share/1000, u.at))
	l.entries = slices.Insert(l.entries, 0, e)
	l.entries = l.entries[:min(len(l.entries), most)]
}

// redacted replaces the user and the password of MIGRATE, as a server does.
func redacted(args [][]byte) [][]byte {
	if len(args) == 0 || !ascii.EqualFold(args[0], "migrate") {
		return args
	}
	for i := 6; i < len(args); i++ {
		secrets := 0
		switch {
		case ascii.EqualFold(args[i], "keys"):
			return args
		case ascii.EqualFold(args[i], "auth"):
			secrets = 1
		case ascii.EqualFold(args[i], "auth2"):
			secrets = 2
		}
		for ; secrets > 0 && i+1 < len(args); secrets-- {
			i++
			args[i] = []byte("(redacted)")
		}
	}
	return args
}

// shorten makes the arguments of an entry as a server does.
func shorten(args [][]byte) (out []string) {
	for i, a := range args {
		if i == slowArgs-1 && len(args) > slowArgs {
			return append(out, fmt.Sprintf("... (%d more arguments)", len(args)-i))
		}
		if len(a) > slowArg {
			out = append(out, fmt.Sprintf("%s... (%d more bytes)", a[:slowArg], len(a)-slowArg))
		} else {
			out = append(out, string(a))
		}
	}
	return out
}

// slowlog is SLOWLOG GET [count] | LEN | RESET | HELP.
func (s *session) slowlog(args [][]byte) bool {
	is := func(name string) bool { return len(args) > 1 && ascii.EqualFold(args[1], name) }
	l := &s.w.p.slow
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case ascii.EqualFold(args[0], "commandlog"):
		s.refuse(errCommandLog)
	case is("get") && len(args) > 3:
		s.refuse(errSubcommandSyntax(args))
	case is("get"):
		count := int64(10)
		if len(args) == 3 {
			n, err := strconv.ParseInt(string(args[2]), 10, 64)
			if err != nil || n < -1 {
				s.refuse(errSlowCount)
				return true
			}
			if count = n; n == -1 {
				count = int64(len(l.entries))
			}
		}
		s.say(func(r *protocol.Reply) {
			shown := l.entries[:min(int64(len(l.entries)), count)]
			r.Array(len(shown))
			for _, e := range shown {
				r.Array(6)
				r.Int(e.id)
				r.Int(e.at)
				r.Int(e.micros)
				r.Array(len(e.args))
				for _, a := range e.args {
					r.BulkString(a)
				}
				r.BulkString(e.addr)
				r.BulkString(e.name)
			}
		})
	case is("len") && len(args) == 2:
		s.say(func(r *protocol.Reply) { r.Int(int64(len(l.entries))) })
	case is("reset") && len(args) == 2:
		l.entries = nil
		s.sayOK()
	case is("help") && len(args) == 2:
		s.say(func(r *protocol.Reply) { help(r, "SLOWLOG", slowlogHelp) })
	default:
		s.refuseSubcommand(args)
	}
	return true
}

var slowlogHelp = []string{
	"GET [<count>]",
	"    The last slow requests of this proxy (default: 10, -1: all). The last argument tells the shard's share.",
	"LEN",
	"    How many there are.",
	"RESET",
	"    Forget them.",
}

// refuseSubcommand refuses a subcommand that is not known, or that the proxy does not serve.
func (s *session) refuseSubcommand(args [][]byte) {
	if row := s.w.plan.Row; !row.Container() {
		s.refuse(errNotServed(row.Name))
		return
	}
	s.refuse(route.UnknownSubcommand(args))
}

// latency is LATENCY LATEST | HISTORY event | GRAPH event | DOCTOR | RESET [event ...] | HISTOGRAM [command ...] |
// HELP.
func (s *session) latency(args [][]byte) bool {
	is := func(name string) bool { return len(args) > 1 && ascii.EqualFold(args[1], name) }
	if is("histogram") {
		s.histograms(args[2:])
		return true
	}
	l := &s.w.p.slow
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case is("latest") && len(args) == 2:
		s.say(func(r *protocol.Reply) {
			names := l.events.Names()
			r.Array(len(names))
			for _, name := range names {
				e := l.events.Of(name)
				r.Array(4)
				r.BulkString(name)
				r.Int(e.Last().Seconds)
				r.Int(e.Last().Millis)
				r.Int(e.Longest)
			}
		})
	case is("history") && len(args) == 3:
		list := cmp.Or(l.events.Of(string(args[2])), &spikes.Series{}).List()
		s.say(func(r *protocol.Reply) {
			r.Array(len(list))
			for _, at := range list {
				r.Array(2)
				r.Int(at.Seconds)
				r.Int(at.Millis)
			}
		})
	case is("graph") && len(args) == 3:
		name := string(args[2])
		e := l.events.Of(name)
		if e == nil {
			s.refuse(errNoSamples(name))
			return true
		}
		s.say(func(r *protocol.Reply) { r.Verbatim("txt", e.Graph(name, nowUnixMs())) })
	case is("doctor") && len(args) == 2:
		text := l.events.Report(s.w.p.settings.LatencyThreshold.Get(), nowUnixMs(), advice)
		s.say(func(r *protocol.Reply) { r.Verbatim("txt", text) })
	case is("reset"):
		var names []string
		for _, name := range args[2:] {
			names = append(names, string(name))
		}
		s.say(func(r *protocol.Reply) { r.Int(int64(l.events.Reset(names...))) })
	case is("help") && len(args) == 2:
		s.say(func(r *protocol.Reply) { help(r, "LATENCY", latencyHelp) })
	default:
		s.refuseSubcommand(args)
	}
	return true
}

// histograms is LATENCY HISTOGRAM: of the time that shards took. A container's name stands for its subcommands.
func (s *session) histograms(names [][]byte) {
	table, number := s.w.p.table(), s.expect()
	wanted := map[int]bool{} // by row
	for _, name := range names {
		container, sub, isSub := bytes.Cut(name, []byte("|"))
		row := table.Find(container)
		if row != nil && isSub {
			row = row.Sub(sub)
		}
		if row == nil {
			continue
		}
		wanted[row.Number] = true
		for _, other := range table.Rows() {
			if strings.HasPrefix(other.Name, row.Name+"|") {
				wanted[other.Number] = true
			}
		}
	}
	ask(s, func(w *worker) []*figures {
		copied := &figures{}
		copied.merge(&w.figures)
		return []*figures{copied}
	}, func(parts []*figures) {
		all := &figures{}
		for _, p := range parts {
			all.merge(p)
		}
		r := protocol.Reply{RESP3: s.access.id.resp3}
		mark, n := r.Mark(), 0
		for i, row := range table.Rows() {
			if took := all.row(i + 1).took; took != nil && (len(names) == 0 || wanted[i]) {
				n++
				r.BulkString(row.Name)
				r.Map(2)
				r.BulkString("calls")
				r.Int(int64(took.Total))
				r.BulkString("histogram_usec")
				mark, n := r.Mark(), 0
				for micros, calls := range took.Doublings {
					r.Int(micros)
					r.Int(int64(calls))
					n++
				}
				r.MapAt(mark, n)
			}
		}
		r.MapAt(mark, n)
		s.answer(number, r.B)
	})
}

// advice says what to check when an event is slow.
func advice(event string) string {
	if event == eventTotal {
		return "SLOWLOG GET has slow requests. The last argument of each tells how long the shard took."
	}
	return "A shard was slow: see SLOWLOG GET and LATENCY DOCTOR of the shard that the event names."
}

var latencyHelp = []string{
	"DOCTOR",
	"    What was slow, and what to look at.",
	"GRAPH <event>",
	"    A picture of the seconds of an event.",
	"HISTOGRAM [<command> ...]",
	"    How many calls of these commands, or of all, the shards answered within 1, 2, 4, ... microseconds.",
	"HISTORY <event>",
	"    Time and milliseconds of each second of an event: command, or shard:<ip:port> for a shard's share.",
	"LATEST",
	"    Each event with the time of the last one, its milliseconds, and the most there were.",
	"RESET [<event> ...]",
	"    Forget events.",
}
