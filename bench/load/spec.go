// Package load is the bench's generator: one thread, many connections, requests built before they are needed.
//
// Owner: a process of its own (see [Start]), so that no other goroutine and no garbage collector stands between a reply
// and the clock. Closed loop: each connection sends a batch and waits for its replies; it measures what a server can
// do. Open loop: requests are due at fixed times whatever the server does, and latency counts from the time a request
// was due, sent or not. So a server that stalls for a second is charged for every request of that second: nothing is
// left out.
// Never: waits for one connection while another has work.
// Start at spec.go; loop.go is the thread, batch.go what it sends, reply.go how it counts, histogram.go where latency
// goes.
package load

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Spec is one run of load. It crosses to the generator's process as JSON.
type Spec struct {
	Address     string // host:port
	Connections int
	Pipeline    int     // requests a batch
	Rate        float64 // requests a second: open loop; 0: closed loop
	Mix         []Command
	Keys        KeySpace
	Deadlines   Deadlines

	Prelude   [][]string // requests that each connection sends first; an error reply ends the run
	Listeners int        // connections that are sent only ListenTo, and then a push for each request of the others
	ListenTo  []string   // closed loop: a connection's next batch waits until all listeners have had theirs

	Warmup   time.Duration // sent but not counted
	Duration time.Duration // counted; 0: until Requests
	Requests int64         // counted from the first; 0: until Duration
	Idle     int           // connections that say nothing, opened first
	Interval time.Duration // of Result.Timeline; 0: none
	Server   int           // process whose CPU clock is read at both ends of the counted time; 0: none
	Seed     uint64
	// Goes before every other process on its core, where we may: for a probe beside a load that leaves none of it.
	RealTime bool
}

// A Command is one request and how often it comes among the others.
//
// Words may hold {key} (a key: "key:" and 12 digits, 16 bytes), {member} (the digits alone), {value:n} (n bytes that
// begin with "v" and the key's digits, n ≥ 13, or n bytes always the same), {number} (12 digits, no leading zero) and
// {deadline} (see [Deadlines]). Every {key} and {member} of a request is another key; the rest go with the key before
// them.
type Command struct {
	Words  []string
	Weight int // 0 counts as 1
}

// Request is a Command of one weight: Request("SET", "{key}", "{value:32}").
func Request(words ...string) Command { return Command{Words: words, Weight: 1} }

func (c Command) String() string { return strings.Join(c.Words, " ") }

// A KeySpace is which keys are asked for.
type KeySpace struct {
	First, Count uint64
	Order        Order
}

// Order is how the next key is chosen.
type Order string

// Zipf is the law of rank^-0.99 that YCSB made usual: of a million keys, the first tenth get three quarters of the
// requests. Ranks are spread over the key space, so that neighbours are not hot together.
const (
	Uniform    Order = "uniform"
	Zipf       Order = "zipf"
	Sequential Order = "sequential"
)

// Deadlines are what {deadline} becomes: First + (key's number modulo Spread), Unix ms.
type Deadlines struct {
	FirstMs  int64
	SpreadMs int64
}

// A Result is what one run saw.
type Result struct {
	Requests  int64
	Elapsed   time.Duration
	ServerCPU time.Duration // of Spec.Server, over the same time
	Whole     Whole         // of a slice
	LoadCPU   time.Duration // of the generator
	Errors    int64
	FirstErr  string
	Nulls     int64
	Latency   Histogram
	SendDelay Histogram     // open loop: how late requests were sent; the generator's own share of latency
	Overrun   bool          // open loop: replies fell so far behind that the run was cut short
	Timeline  []Point       `json:",omitempty"`
	Began     int64         // Unix ns of the counted time's begin
	IdleOpen  time.Duration // what opening the idle connections took
}

// A Point is one interval of a timeline.
type Point struct {
	At       time.Duration // from the counted time's begin
	Requests int64
	Max      time.Duration
}

// PerSecond is the throughput.
func (r *Result) PerSecond() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// A Whole is a slice with what is not counted of it, from the end of the same server's slice before to the last reply.
type Whole struct {
	Requests  int64
	ServerCPU time.Duration
}

// NanosPerRequest is the server's CPU over the requests, of a slice over all of them.
func (r *Result) NanosPerRequest() float64 {
	requests, used := r.Requests, r.ServerCPU
	if r.Whole.Requests > 0 {
		requests, used = r.Whole.Requests, r.Whole.ServerCPU
	}
	if requests == 0 {
		return 0
	}
	return float64(used) / float64(requests)
}

// LoadShare is how busy the generator was; near 1 it, and not the server, was the limit.
func (r *Result) LoadShare() float64 { return r.LoadCPU.Seconds() / r.Elapsed.Seconds() }

// ServerShare is how busy the server was, 1 being one core.
func (r *Result) ServerShare() float64 { return r.ServerCPU.Seconds() / r.Elapsed.Seconds() }

var errNoEnd = errors.New("a run needs Duration or Requests")

// complete fills in what was left out and says what cannot be run.
func (s *Spec) complete() error {
	if s.Connections <= 0 {
		return fmt.Errorf("%d connections", s.Connections)
	}
	if s.Duration <= 0 && s.Requests <= 0 {
		return errNoEnd
	}
	if len(s.Mix) == 0 {
		return errors.New("a run needs a request")
	}
	if s.Listeners > 0 && (len(s.ListenTo) == 0 || s.Rate > 0) {
		return errors.New("listeners need a request of their own, and a closed loop")
	}
	s.Pipeline = max(s.Pipeline, 1)
	s.Keys.Count = max(s.Keys.Count, 1)
	if s.Keys.First+s.Keys.Count > 1e12 || s.Keys.Count > 1<<32 {
		return errors.New("keys have 12 digits, and there are at most 2^32 of them")
	}
	switch s.Keys.Order {
	case "":
		s.Keys.Order = Uniform
	case Uniform, Zipf, Sequential:
	default:
		return fmt.Errorf("no order of keys is called %q", s.Keys.Order)
	}
	for i := range s.Mix {
		if len(s.Mix[i].Words) == 0 {
			return errors.New("an empty request")
		}
		s.Mix[i].Weight = max(s.Mix[i].Weight, 1)
	}
	return nil
}
