package dashboard

import (
	"bufio"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A sample is the content of a proxy's /metrics at one time. Counters count since the start of the process.
type sample struct {
	at       time.Time
	instance string
	requests counters             // of clients
	servers  map[string]*counters // by the server's address
	failures float64              // calls that no server answered
	retries  float64
	clients  float64
	owed     float64 // replies that clients wait for
}

// counters are a number of calls and the time they took.
type counters struct {
	calls   float64
	seconds float64
	failed  float64             // error replies
	queue   float64             // calls that wait for their reply
	below   map[float64]float64 // calls by the upper bound of their time in seconds, cumulative
}

// mostCounted is the largest figure that is accepted, so that no sum or rate becomes infinite.
const mostCounted = 1e18

// mostServers is the maximum number of servers that are read from one proxy's figures.
const mostServers = 4096

// readSample reads the text format of Prometheus and skips unknown metrics. It returns an error only if reading fails.
//
// Source: the documentation of the text format, 0.0.4: name{label="value"} value.
func readSample(from io.Reader) (*sample, error) {
	s := &sample{at: time.Now(), servers: map[string]*counters{}, requests: counters{below: map[float64]float64{}}}
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		name, ok := strings.CutPrefix(lines.Text(), "spindle_proxy_")
		if !ok {
			continue
		}
		name, labels, rest := cutLabels(name)
		digits, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		v, err := strconv.ParseFloat(digits, 64)
		if err != nil || !(v >= 0 && v < mostCounted) {
			continue // every metric read here is a count or a duration
		}
		s.note(name, labels, v)
	}
	return s, lines.Err()
}

// cutLabels splits a line into its name, its labels and the rest.
func cutLabels(line string) (name string, labels map[string]string, rest string) {
	at := strings.IndexAny(line, "{ ")
	if at < 0 || line[at] == ' ' {
		name, rest, _ = strings.Cut(line, " ")
		return name, nil, rest
	}
	name, rest, labels = line[:at], line[at+1:], map[string]string{}
	for {
		key, value, ok := strings.Cut(strings.TrimLeft(rest, ", "), `="`)
		if !ok || strings.HasPrefix(key, "}") {
			_, rest, _ = strings.Cut(rest, "}")
			return name, labels, rest
		}
		var text strings.Builder
		end := 0
		for ; end < len(value) && value[end] != '"'; end++ {
			if value[end] == '\\' && end+1 < len(value) {
				if end++; value[end] == 'n' {
					text.WriteByte('\n')
					continue
				}
			}
			text.WriteByte(value[end])
		}
		labels[key], rest = text.String(), value[min(end+1, len(value)):]
	}
}

// note stores one value in the sample.
func (s *sample) note(name string, labels map[string]string, v float64) {
	c := &s.requests
	if at := labels["shard"]; at != "" {
		if c = s.servers[at]; c == nil && len(s.servers) < mostServers {
			c = &counters{below: map[float64]float64{}}
			s.servers[at] = c
		}
		if c == nil {
			return
		}
	}
	switch name {
	case "request_seconds_count", "shard_seconds_count":
		c.calls = v
	case "request_seconds_sum", "shard_seconds_sum":
		c.seconds = v
	case "request_seconds_bucket", "shard_seconds_bucket":
		if bound, err := strconv.ParseFloat(labels["le"], 64); err == nil && bound > 0 {
			c.below[bound] = v
		}
	case "shard_errors_total":
		c.failed = v
	case "shard_queue":
		c.queue = v
	case "failures_total":
		s.failures = v
	case "retries_total":
		s.retries = v
	case "clients":
		s.clients = v
	case "owed_replies":
		s.owed = v
	}
}

// A traffic is a rate of calls per second over the last interval. Times are in µs, and are 0 without calls.
type traffic struct {
	Calls  float64 `json:"calls"`
	Errors float64 `json:"errors"`
	Queue  int64   `json:"queue"` // calls that wait for their reply now
	MeanUs float64 `json:"mean_us"`
	P50Us  float64 `json:"p50_us"`
	P99Us  float64 `json:"p99_us"`
}

// A span is the increase of counters over an interval. The spans of several proxies can be added up.
type span struct {
	calls, seconds, failed float64 // failed: error replies
	callRate, failRate     float64 // a second
	queue                  float64
	within                 map[float64]float64 // calls by the upper bound of their time
}

// add adds the increase between two samples of one process. before may be nil: then the counters began at zero.
func (s *span) add(before, after *counters, took time.Duration) {
	if before == nil {
		before = &counters{}
	}
	s.queue += after.queue
	calls, failed := max(0, after.calls-before.calls), max(0, after.failed-before.failed)
	s.calls += calls
	s.failed += failed
	s.seconds += max(0, after.seconds-before.seconds)
	s.callRate += calls / took.Seconds()
	s.failRate += failed / took.Seconds()
	if s.within == nil {
		s.within = map[float64]float64{}
	}
	lower := 0.0
	for _, bound := range slices.Sorted(maps.Keys(after.below)) {
		upTo := max(lower, after.below[bound]-before.below[bound])
		s.within[bound] += upTo - lower
		lower = upTo
	}
}

// traffic converts a span to rates and quantiles.
func (s *span) traffic() *traffic {
	t := &traffic{Calls: round(s.callRate), Errors: round(s.failRate), Queue: int64(s.queue)}
	if s.calls > 0 {
		t.MeanUs = round(s.seconds / s.calls * 1e6)
		bounds := slices.Sorted(maps.Keys(s.within))
		t.P50Us, t.P99Us = round(s.quantile(bounds, 0.5)*1e6), round(s.quantile(bounds, 0.99)*1e6)
	}
	return t
}

// quantile estimates a quantile in seconds. It supposes that the calls between two bounds are spread evenly.
func (s *span) quantile(bounds []float64, q float64) float64 {
	total := 0.0
	for _, bound := range bounds {
		total += s.within[bound]
	}
	below, last := 0.0, 0.0
	for _, bound := range bounds {
		here := s.within[bound]
		if here > 0 && below+here >= q*total {
			if math.IsInf(bound, 1) {
				return last
			}
			return last + (bound-last)*(q*total-below)/here
		}
		below, last = below+here, bound
	}
	return 0
}

// round rounds to one decimal place.
func round(f float64) float64 { return math.Round(f*10) / 10 }
