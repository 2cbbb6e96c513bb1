// Package load is the bench's generator: one thread, many connections, requests built before they are needed.
//
// Owner: its own process (see [Start]), so that no other goroutine and no garbage collector delays the clock. In a
// closed loop each connection sends a batch and waits for its replies. That measures a server's capacity. In an open
// loop requests are due at fixed times, and latency counts from the due time, even if a request is sent later. So a
// stall of a second is included in the latency of every request of that second.
// Never: waits for one connection while another has work.
// Start at spec.go; loop.go is the thread, batch.go its requests, reply.go the counting, histogram.go the latencies.
package load

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Spec is one run of load. The generator's process gets it as JSON.
type Spec struct {
	Address     string // host:port
	Connections int
	Pipeline    int     // requests a batch
	Rate        float64 // requests a second in an open loop; 0 means a closed loop
	Mix         []Command
	Keys        KeySpace
	Deadlines   Deadlines

	Prelude   [][]string // requests that each connection sends first; an error reply ends the run
	Listeners int        // connections that only send ListenTo, and get a push for each request of the others
	ListenTo  []string   // in a closed loop, the next batch waits until all listeners have their pushes

	Warmup   time.Duration // requests are sent but not measured
	Duration time.Duration // the measured time; if 0, the run ends after Requests
	Requests int64         // the number of requests to measure; if 0, the run ends after Duration
	Idle     int           // connections without requests, opened first
	Interval time.Duration // the interval of Result.Timeline; 0 means no timeline
	Server   int           // the process whose CPU clock is read, at both ends of the measured time; 0 means none
	Seed     uint64
	// RealTime makes the generator run before every other process on its core, if permitted. It is for a probe next to
	// a load that uses the whole core.
	RealTime bool
}

// A Command is one request, with its weight in the mix.
//
// Words may contain placeholders. {key} is a key: "key:" and 12 digits, 16 bytes. {member} is only the digits.
// {value:n} is n bytes. If n ≥ 13, these are "v", the key's digits and a filler; otherwise always the same bytes.
// {number} is 12 digits without a leading zero. {deadline}: see [Deadlines]. Every {key} and {member} of a request is a
// different key; the other placeholders use the key before them.
type Command struct {
	Words  []string
	Weight int // 0 counts as 1
}

// Request returns a Command of weight one, as in Request("SET", "{key}", "{value:32}").
func Request(words ...string) Command { return Command{Words: words, Weight: 1} }

func (c Command) String() string { return strings.Join(c.Words, " ") }

// A KeySpace is the set of keys in requests.
type KeySpace struct {
	First, Count uint64
	Order        Order
}

// An Order is the way in which the next key is chosen.
type Order string

// Zipf is the distribution rank^-0.99 of YCSB. Of a million keys, the first tenth gets three quarters of the requests.
// Ranks are scattered over the key space, so that hot keys are not neighbours.
const (
	Uniform    Order = "uniform"
	Zipf       Order = "zipf"
	Sequential Order = "sequential"
)

// Deadlines gives the values of {deadline}: FirstMs + (the key's number modulo Spread), in Unix ms.
type Deadlines struct {
	FirstMs  int64
	SpreadMs int64
}

// A Result holds the figures of one run.
type Result struct {
	Requests  int64
	Elapsed   time.Duration
	ServerCPU time.Duration // the CPU time of Spec.Server, over the same time
	Whole     Whole         // only for a slice
	LoadCPU   time.Duration // the CPU time of the generator
	Errors    int64
	FirstErr  string
	Nulls     int64
	Latency   Histogram
	SendDelay Histogram     // in an open loop: how late requests were sent, the generator's part of latency
	Overrun   bool          // in an open loop: replies came so late that the run was aborted
	Timeline  []Point       `json:",omitempty"`
	Began     int64         // the begin of the measured time, in Unix ns
	IdleOpen  time.Duration // the time to open the idle connections
}

// A Point is one interval of a timeline.
type Point struct {
	At       time.Duration // since the begin of the measured time
	Requests int64
	Max      time.Duration
}

// PerSecond returns the throughput.
func (r *Result) PerSecond() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// A Whole is a slice with its unmeasured parts: from the end of the same server's last slice to the last reply.
type Whole struct {
	Requests  int64
	ServerCPU time.Duration
}

// NanosPerRequest returns the server's CPU time per request. For a slice it uses the slice's Whole.
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

// LoadShare returns the generator's share of one core. Near 1 the generator was the limit, not the server.
func (r *Result) LoadShare() float64 { return r.LoadCPU.Seconds() / r.Elapsed.Seconds() }

// ServerShare returns the server's share of one core.
func (r *Result) ServerShare() float64 { return r.ServerCPU.Seconds() / r.Elapsed.Seconds() }

var errNoEnd = errors.New("a run needs Duration or Requests")

// complete sets missing fields, and refuses an invalid Spec.
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
		return errors.New("listeners need their own request, and a closed loop")
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
