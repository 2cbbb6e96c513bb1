package live

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A watch looks at the server each second, for the history, for its state, and for the events on the charts. A look
// waits while the turn is held. The state does not wait: it is judged by the last look, and by figures that need no
// turn.
type watch struct {
	source  *Source
	history *History
	looking atomic.Bool
	looks   sync.WaitGroup // has the running look

	mu      sync.Mutex
	latest  *Figures
	counted []counted // of the last minute, oldest first
	begun   map[string]Trouble
	past    []Past
	events  []Event
	stalls  int64 // the ID after the newest known stall
	rounds  int64
}

// counted has the counters at a moment.
type counted struct {
	at time.Time
	counters
}

// A Past is a trouble that is over.
type Past struct {
	Trouble
	EndMs int64 `json:"end"` // Unix ms
}

// An Event is a mark on the charts.
type Event struct {
	AtMs int64  `json:"at"`   // Unix ms
	Kind string `json:"kind"` // start, save, rewrite, role, config, stall, copy
	Text string `json:"text"`
}

// Bounds on what is kept.
const (
	mostPast   = 50
	mostEvents = 300
	keysEvery  = 4                      // seconds between two looks at hot and big keys, which cost more than the rest
	stallMark  = 250 * time.Millisecond // a stall of this length or more is a mark
)

// A Condition is the state of the server in words.
type Condition struct {
	OK     bool      `json:"ok"`
	Now    []Trouble `json:"now"`  // the worst first
	Past   []Past    `json:"past"` // the last one first
	Events []Event   `json:"events"`
}

// tick starts a look, unless one still waits for its turns, and judges.
func (w *watch) tick(now time.Time) {
	if w.looking.CompareAndSwap(false, true) {
		w.looks.Go(func() {
			defer w.looking.Store(false)
			w.look(now)
		})
	}
	w.judge(time.Now())
}

// judge records which troubles have begun and which are over.
func (w *watch) judge(now time.Time) Condition {
	held := w.source.Held()
	holder := Holder{}
	if held >= heldLong {
		holder = w.source.Holder()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f := Figures{}
	if w.latest != nil {
		f = *w.latest
	}
	f.AtMs, f.Held = now.UnixMilli(), held
	if f.Lent == 0 {
		f.Holder = holder
	}
	c := Condition{OK: true, Now: Judge(&f)}
	still := map[string]Trouble{}
	for i := range c.Now {
		t := &c.Now[i]
		if was, known := w.begun[t.ID]; known {
			t.SinceMs = was.SinceMs
		} else if t.SinceMs == 0 {
			t.SinceMs = f.AtMs
		}
		c.OK = c.OK && t.Level == Note
		still[t.ID] = *t
	}
	for id, was := range w.begun {
		if _, is := still[id]; !is && was.Level != Note {
			w.past = append(w.past, Past{was, f.AtMs})
		}
	}
	w.begun = still
	w.past = newest(w.past, mostPast)
	c.Past = append([]Past{}, w.past...)
	slices.Reverse(c.Past)
	c.Events = append([]Event{}, w.events...)
	return c
}

// newest returns the last n elements of a list.
func newest[T any](list []T, n int) []T {
	if len(list) > n {
		return slices.Delete(list, 0, len(list)-n)
	}
	return list
}

// look collects the figures of this second. It waits for turns.
func (w *watch) look(now time.Time) {
	s := w.source.Sample()
	f := &Figures{AtMs: now.UnixMilli(), Info: w.info(), Lent: s.Lent, Holder: s.Lender, Fsync: s.Fsync,
		SaveFailure: s.SaveFailure, LogFailure: s.LogFailure, DiskFree: s.DiskFree, DiskSize: s.DiskSize}
	w.source.Certificates(func(name string, left int64) {
		f.Certificates = append(f.Certificates, Certificate{name, left})
	})
	f.Stalls = w.stallLog()
	w.mu.Lock()
	was := w.latest
	w.rounds++
	round := w.rounds
	w.mu.Unlock()
	if was != nil && round%keysEvery != 0 {
		f.Hot, f.Big = was.Hot, was.Big
	} else {
		f.Hot, f.Big = w.hotKey(), w.bigKeys()
	}
	second := &second{now: f.Info, cpu: s.CPUPercent, latency: w.history.latencies(now.Unix(), w.source.Latency)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if was != nil {
		second.before, second.span = was.Info, float64(f.AtMs-was.AtMs)/1e3
	}
	w.count(now, f)
	second.stall = w.mark(was, f)
	w.latest = f
	w.history.Add(now.Unix(), second)
}

// info returns INFO, and CLUSTER INFO in cluster mode.
func (w *watch) info() map[string]string {
	fields := map[string]string{}
	read := func(args ...string) {
		reply, err := w.source.Observe(args...)
		if err != nil {
			return
		}
		text, _ := readReply(reply).(string)
		for line := range strings.SplitSeq(text, "\r\n") {
			if name, value, ok := strings.Cut(line, ":"); ok {
				fields[name] = value
			}
		}
	}
	read("INFO")
	if fields["cluster_enabled"] == "1" {
		read("CLUSTER", "INFO")
	}
	return fields
}

// count records the present counters, and sets their growth in f.
func (w *watch) count(now time.Time, f *Figures) {
	whole := func(field string) int64 { n, _ := strconv.ParseInt(f.Info[field], 10, 64); return n }
	failed := func(code string) int64 {
		n, _ := strconv.ParseInt(pairs(f.Info["errorstat_"+code])["count"], 10, 64)
		return n
	}
	c := counted{now, counters{whole("total_connections_received"), whole("rejected_connections"),
		whole("total_error_replies"), failed("OOM"), failed("MISCONF"), whole("evicted_keys"), whole("evicted_clients"),
		whole("client_output_buffer_limit_disconnections"), whole("aof_delayed_fsync"), 0}}
	if up := time.Duration(whole("uptime_in_seconds")) * time.Second; len(w.counted) == 0 && up < time.Minute {
		w.counted = append(w.counted, counted{at: now.Add(-up)}) // all were zero then
	}
	for len(w.counted) > 0 && now.Sub(w.counted[0].at) > time.Minute {
		w.counted = w.counted[1:]
	}
	w.counted = append(w.counted, c)
	for i, span := range []time.Duration{5 * time.Second, time.Minute} {
		for _, before := range w.counted {
			if now.Sub(before.at) <= span {
				f.Grown[i] = c.since(before.counters)
				f.Grown[i].Span = now.Sub(before.at)
				break
			}
		}
	}
}

// since returns by how much the counters have grown. CONFIG RESETSTAT makes them smaller, which does not count as
// growth.
func (c counters) since(b counters) counters {
	grown := func(now, before int64) int64 { return max(0, now-before) }
	return counters{grown(c.Connections, b.Connections), grown(c.Rejected, b.Rejected), grown(c.Errors, b.Errors),
		grown(c.OOM, b.OOM), grown(c.MISCONF, b.MISCONF), grown(c.EvictedKeys, b.EvictedKeys),
		grown(c.EvictedClients, b.EvictedClients), grown(c.OutputLimit, b.OutputLimit),
		grown(c.DelayedSyncs, b.DelayedSyncs), 0}
}

// mark records the events between two looks. was is nil at the first look. It returns the longest stall among the
// events.
func (w *watch) mark(was, f *Figures) (longest time.Duration) {
	add := func(atMs int64, kind, format string, args ...any) {
		w.events = append(w.events, Event{atMs, kind, printable(fmt.Sprintf(format, args...))})
	}
	for i := len(f.Stalls) - 1; i >= 0; i-- {
		s := f.Stalls[i]
		if s.ID < w.stalls {
			continue
		}
		w.stalls = s.ID + 1
		if was != nil {
			longest = max(longest, s.Took)
		}
		if s.Took >= stallMark {
			add(s.EndMs-s.Took.Milliseconds(), "stall", "Stall: %s for %d ms", short(s.What), s.Took.Milliseconds())
		}
	}
	for _, c := range w.source.Changed() {
		add(c.AtMs, "config", "CONFIG SET %s", c.Name)
	}
	if was == nil {
		up, _ := strconv.ParseInt(f.Info["uptime_in_seconds"], 10, 64)
		add(f.AtMs-up*1000, "start", "Server start, process %s", f.Info["process_id"])
	} else {
		for _, m := range marksBetween(was.Info, f.Info) {
			add(f.AtMs, m.Kind, "%s", m.Text)
		}
	}
	w.events = newest(w.events, mostEvents)
	return longest
}

// marksBetween returns the events that the INFO fields of two looks show. AtMs is not set.
func marksBetween(was, now map[string]string) (marks []Event) {
	changed := func(field string) bool { return was[field] != now[field] }
	add := func(kind, format string, args ...any) {
		marks = append(marks, Event{0, kind, fmt.Sprintf(format, args...)})
	}
	switch {
	case changed("role") && now["role"] == "master":
		add("role", "Became a primary")
	case changed("role") || now["role"] == "slave" && (changed("master_host") || changed("master_port")):
		add("role", "Became a replica of %s:%s", now["master_host"], now["master_port"])
	case changed("master_link_status") && now["role"] == "slave":
		add("role", "The link to the primary is %s", now["master_link_status"])
	}
	if changed("rdb_last_save_time") || changed("rdb_saves") {
		add("save", "Saved")
	}
	if changed("rdb_last_bgsave_status") && now["rdb_last_bgsave_status"] == "err" {
		add("save", "A save failed")
	}
	if was["aof_rewrite_in_progress"] == "1" && now["aof_rewrite_in_progress"] == "0" {
		add("rewrite", "Rewrote the append-only file: %s", now["aof_last_bgrewrite_status"])
	}
	if changed("connected_slaves") {
		add("copy", "%s replicas connected", now["connected_slaves"])
	}
	return marks
}

// ask returns the reply to a command of the watch itself, as values for JSON, or nil without one.
func (w *watch) ask(args ...string) any {
	reply, err := w.source.Observe(args...)
	if err != nil {
		return nil
	}
	return readReply(reply)
}

// rowsOf returns the maps in a list.
func rowsOf(reply any) (rows []map[string]any) {
	list, _ := reply.([]any)
	for _, e := range list {
		if m, ok := e.(map[string]any); ok {
			rows = append(rows, m)
		}
	}
	return rows
}

func textIn(row map[string]any, name string) string { s, _ := row[name].(string); return s }
func wholeIn(row map[string]any, name string) int64 { n, _ := row[name].(int64); return n }
func floatIn(row map[string]any, name string) float64 {
	f, _ := row[name].(float64)
	return f
}

func (w *watch) stallLog() (all []Stall) {
	for _, row := range rowsOf(w.ask("STALLS", "GET", "16")) {
		all = append(all, Stall{ID: wholeIn(row, "id"), EndMs: wholeIn(row, "time"),
			Took: time.Duration(wholeIn(row, "usec")) * time.Microsecond, What: textIn(row, "what"), Addr: textIn(row, "addr")})
	}
	return all
}

func (w *watch) hotKey() (k HotKey) {
	for _, row := range rowsOf(w.ask("HOTKEYS", "GET", "COUNT", "1")) {
		k = HotKey{textIn(row, "key"), wholeIn(row, "db"), floatIn(row, "share"), floatIn(row, "reads") + floatIn(row,
			"writes")}
	}
	return k
}

func (w *watch) bigKeys() (all []BigKey) {
	types, _ := w.ask("BIGKEYS", "GET", "COUNT", "1").(map[string]any)
	for kind, list := range types {
		for _, row := range rowsOf(list) {
			all = append(all, BigKey{kind, textIn(row, "key"), wholeIn(row, "db"), wholeIn(row, "bytes"),
				wholeIn(row, "elements")})
		}
	}
	slices.SortFunc(all, func(a, b BigKey) int { return int(min(1<<30, b.Bytes) - min(1<<30, a.Bytes)) })
	return all
}
