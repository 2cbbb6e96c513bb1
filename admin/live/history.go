package live

import (
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"spindle/internal/histogram"
)

// A second is the data of one look that go into the history.
type second struct {
	now, before map[string]string // fields of INFO, at this look and at the one before; before is nil at first
	span        float64           // seconds between the two
	cpu         float64           // percent of one core since the last look
	stall       time.Duration     // the longest stall that ended since the last look; 0: none
	latency     histogram.H       // of the replies since the last look
}

func (s *second) number(field string) float64 { return number(s.now, field) }

func number(info map[string]string, field string) float64 {
	n, err := strconv.ParseFloat(info[field], 64)
	if err != nil {
		return math.NaN()
	}
	return n
}

// rate returns by how much a counter has grown each second.
func (s *second) rate(field string) float64 {
	grown := s.number(field) - number(s.before, field)
	if s.before == nil || grown < 0 || s.span <= 0 { // CONFIG RESETSTAT
		return math.NaN()
	}
	return grown / s.span
}

// sum adds up the fields that exist.
func (s *second) sum(fields ...string) (sum float64) {
	for _, f := range fields {
		if n := s.number(f); n == n {
			sum += n
		}
	}
	return sum
}

// quantile returns a percentile of the latency in microseconds, or NaN if nothing was measured.
func (s *second) quantile(p float64) float64 {
	if s.latency.Total == 0 {
		return math.NaN()
	}
	return float64(s.latency.Percentile(p)) / 1e3
}

// A row is a series of the history.
type row struct {
	name  string
	peak  bool // a longer step keeps the maximum, otherwise the mean
	value func(s *second) float64
}

func field(name, of string) row {
	return row{name, false, func(s *second) float64 { return s.number(of) }}
}

func rate(name, of string) row {
	return row{name, false, func(s *second) float64 { return s.rate(of) }}
}

func purposes(name string, of ...string) row {
	fields := make([]string, len(of))
	for i, o := range of {
		fields[i] = "memory_purpose_" + o
	}
	return row{name, false, func(s *second) float64 { return s.sum(fields...) }}
}

// series are the series of the history. A value that was not measured is NaN, and a gap on the page.
var series = []row{
	field("ops", "instantaneous_ops_per_sec"),
	rate("in", "total_net_input_bytes"), rate("out", "total_net_output_bytes"),
	rate("replin", "total_net_repl_input_bytes"), rate("replout", "total_net_repl_output_bytes"),
	rate("hits", "keyspace_hits"), rate("misses", "keyspace_misses"), rate("errors", "total_error_replies"),
	rate("evicted", "evicted_keys"), rate("expired", "expired_keys"), rate("connects", "total_connections_received"),
	field("used", "used_memory"), field("rss", "used_memory_rss"),
	{"limit", false, func(s *second) float64 {
		if limit := s.number("maxmemory"); limit > 0 {
			return limit
		}
		return math.NaN()
	}},
	purposes("data", "keys", "values", "index", "other_data"), purposes("forclients", "clients"),
	purposes("forreplicas", "replication"), purposes("spare", "fragmentation", "empty_pages", "allocator"),
	purposes("runtime", "go_heap", "go_free", "go_stacks", "go_runtime", "program"),
	field("clients", "connected_clients"), field("blocked", "blocked_clients"),
	{"keys", false, func(s *second) (keys float64) {
		for name, value := range s.now { // also beyond 16 databases
			if strings.HasPrefix(name, "db") {
				n, _ := strconv.ParseFloat(pairs(value)["keys"], 64)
				keys += n
			}
		}
		return keys
	}},
	field("turn", "instantaneous_eventloop_duration_usec"),
	field("turns", "instantaneous_eventloop_cycles_per_sec"),
	{"stall", true, func(s *second) float64 {
		if s.stall == 0 {
			return math.NaN()
		}
		return float64(s.stall) / 1e3
	}},
	{"cpu", false, func(s *second) float64 { return s.cpu }},
	{"p50", false, func(s *second) float64 { return s.quantile(50) }},
	{"p99", false, func(s *second) float64 { return s.quantile(99) }},
	{"max", true, func(s *second) float64 {
		if s.latency.Total == 0 {
			return math.NaN()
		}
		return float64(s.latency.Max) / 1e3
	}},
	{"lag", true, func(s *second) float64 {
		most := math.NaN()
		for i := range int(max(0, s.sum("connected_slaves"))) {
			offset, err := strconv.ParseFloat(pairs(s.now["slave"+strconv.Itoa(i)])["offset"], 64)
			if behind := s.number("master_repl_offset") - offset; err == nil && !(behind <= most) {
				most = max(0, behind)
			}
		}
		return most
	}},
	field("dirty", "rdb_changes_since_last_save"), field("logsize", "aof_current_size"),
	field("unwritten", "aof_buffer_length"),
}

// A point has the values at a time, in Unix seconds.
type point struct {
	at     int64
	values []float32
}

// A ring keeps the newest points of a range, one for each step.
type ring struct {
	name   string
	step   int64 // seconds
	peaks  []bool
	points []point
	n      int // points ever added; the next goes to n % len(points)

	open   int64 // the unfinished step, in units of step
	sum    []float64
	counts []int
}

func newRing(name string, step int64, points int, peaks []bool) *ring {
	r := &ring{name: name, step: step, peaks: peaks, points: make([]point, points), sum: make([]float64, len(peaks)),
		counts: make([]int, len(peaks))}
	values := make([]float32, points*len(peaks))
	for i := range r.points {
		r.points[i].values = values[i*len(peaks) : (i+1)*len(peaks) : (i+1)*len(peaks)]
	}
	return r
}

// add adds the values of a second.
func (r *ring) add(unix int64, values []float64) {
	if unix/r.step != r.open {
		r.close()
		r.open = unix / r.step
	}
	for i, v := range values {
		switch {
		case v != v:
			continue
		case !r.peaks[i] || r.counts[i] == 0:
			r.sum[i] += v
		default:
			r.sum[i] = max(r.sum[i], v)
		}
		r.counts[i]++
	}
	if r.step == 1 {
		r.close()
	}
}

// close makes a point of the finished step.
func (r *ring) close() {
	if r.open == 0 {
		return
	}
	p := &r.points[r.n%len(r.points)]
	p.at = r.open * r.step
	for i, sum := range r.sum {
		switch {
		case r.counts[i] == 0:
			sum = math.NaN()
		case !r.peaks[i]:
			sum /= float64(r.counts[i])
		}
		p.values[i], r.sum[i], r.counts[i] = float32(sum), 0, 0
	}
	r.n, r.open = r.n+1, 0
}

// appendJSON appends the points after the time since: {"step":1,"at":[…],"ops":[…],…}. A value that was not measured
// is null.
func (r *ring) appendJSON(b []byte, since int64, name func(i int) string) []byte {
	first := max(0, r.n-len(r.points))
	for first < r.n && r.points[first%len(r.points)].at <= since {
		first++
	}
	b = strconv.AppendInt(append(b, `{"step":`...), r.step, 10)
	b = append(b, `,"at":[`...)
	for i := first; i < r.n; i++ {
		b = strconv.AppendInt(comma(b), r.points[i%len(r.points)].at, 10)
	}
	b = append(b, ']')
	for j := range r.peaks {
		b = append(strconv.AppendQuote(append(b, ','), name(j)), ":["...)
		for i := first; i < r.n; i++ {
			if v := float64(r.points[i%len(r.points)].values[j]); v-v == 0 {
				b = strconv.AppendFloat(comma(b), v, 'g', 6, 32)
			} else {
				b = append(comma(b), "null"...)
			}
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// comma appends a comma unless the list is empty so far.
func comma(b []byte) []byte {
	if b[len(b)-1] == '[' {
		return b
	}
	return append(b, ',')
}

// A History is rings of fixed size: about 350 KB, whatever happens. In addition it has rings for commands, of 6 KB
// each.
//
//	minutes: … 598 599 |600      each second's look
//	hour:    … 10:41:10 |        the mean of ten seconds; the maximum of a peak
//	day:     … 10:41 10:42 |     the same of a minute
type History struct {
	mu       sync.Mutex
	rings    []*ring
	commands map[string]*commandHistory
	order    []string // the names in commands
	last     histogram.H
}

// Steps and lengths of the ranges.
const (
	fineStep, finePoints = 1, 600
	hourStep, hourPoints = 10, 360
	dayStep, dayPoints   = 60, 1440
	mostCommands         = 64 // that have a history
)

func newHistory() *History {
	peaks := make([]bool, len(series))
	for i, s := range series {
		peaks[i] = s.peak
	}
	return &History{commands: map[string]*commandHistory{}, rings: []*ring{
		newRing("minutes", fineStep, finePoints, peaks),
		newRing("hour", hourStep, hourPoints, peaks), newRing("day", dayStep, dayPoints, peaks),
	}}
}

// Add adds the look of a second.
func (h *History) Add(unix int64, s *second) {
	values := make([]float64, len(series))
	for i, row := range series {
		values[i] = row.value(s)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.rings {
		r.add(unix, values)
	}
}

// JSON returns the points of a range after the time since.
func (h *History) JSON(name string, since int64) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rings[0]
	for _, other := range h.rings {
		if other.name == name {
			r = other
		}
	}
	return r.appendJSON(make([]byte, 0, 64<<10), since, func(i int) string { return series[i].name })
}

// A commandHistory is the latency of one command in the last hour.
type commandHistory struct {
	*ring
	last histogram.H
}

// commandSeries are the series of a command. They are in microseconds, except for calls, which is per second.
var commandSeries = []string{"calls", "p50", "p99", "max"}

// latencies returns the latency of all replies since the last call. Every ten seconds it adds to the commands' own
// histories.
func (h *History) latencies(unix int64, all func(yield func(command string, h *histogram.H) bool)) histogram.H {
	h.mu.Lock()
	defer h.mu.Unlock()
	var sum histogram.H
	for name, now := range all {
		sum.Merge(now)
		if unix%hourStep != 0 {
			continue
		}
		c := h.commands[name]
		if c == nil {
			if len(h.commands) == mostCommands {
				continue
			}
			c = &commandHistory{ring: newRing(name, hourStep, hourPoints, []bool{false, false, false, true})}
			h.commands[name] = c
			h.order = append(h.order, name)
		}
		later := now.Since(&c.last)
		c.last = *now
		values := []float64{float64(later.Total) / hourStep, math.NaN(), math.NaN(), math.NaN()}
		if later.Total > 0 {
			values = []float64{values[0], float64(later.Percentile(50)) / 1e3, float64(later.Percentile(99)) / 1e3,
				float64(later.Max) / 1e3}
		}
		c.add(unix, values)
		c.close()
	}
	later := sum.Since(&h.last)
	h.last = sum
	return later
}

// CommandJSON returns the latency of a command after the time since, or nil if there is none.
func (h *History) CommandJSON(name string, since int64) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.commands[name]
	if c == nil {
		return nil
	}
	return c.appendJSON(make([]byte, 0, 16<<10), since, func(i int) string { return commandSeries[i] })
}
