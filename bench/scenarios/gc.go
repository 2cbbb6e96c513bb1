package scenarios

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"spindle/bench/load"
	"spindle/bench/report"
)

// A garbagePhase is one kind of request in the load.
type garbagePhase struct {
	name  string
	words []string
}

var garbagePhases = []garbagePhase{
	{"GET", []string{"GET", "{key}"}},
	{"SET", setWords},
	{"SET with TTL", append(append([]string(nil), setWords...), "EX", "1000")},
	{"INCR", []string{"INCR", "n{key}"}},
}

// garbage measures the cost of the Go runtime. It reads the collector's CPU time from its trace, and allocations per
// request from heap profiles.
func garbage(e *Env) (*report.Section, error) {
	backends := e.Backends()[:4]
	s := e.section("gc", backends,
		fmt.Sprintf("%s keys of 16 bytes with values of 32, 50 connections, pipeline 16, each phase counted for %v after "+
			"%v of warm-up.", report.Thousands(float64(e.ManyKeys)), e.Duration, e.Warmup),
		"The collector's CPU is the sum over GODEBUG=gctrace=1, idle marking included, and its share is of the server's "+
			"CPU in the whole load. Allocations are another server's, of which each is recorded (memprofilerate=1): those "+
			"between two heap profiles while all connections are at work are counted by their stacks, over the commands "+
			"between them. A profile begins with a collection, which also empties pools.")
	share, cycles, made := map[string]report.Sample{}, map[string]report.Sample{}, map[string]*[allocators]allocated{}
	err := e.alternate(backends, func(c Contender, _ int) error {
		trace, used, err := e.collections(c)
		if err != nil {
			return err
		}
		share[c.Name] = append(share[c.Name], float64(trace.cpu)/float64(used))
		cycles[c.Name] = append(cycles[c.Name], float64(trace.cycles))
		return e.allocations(c, func(p garbagePhase, by allocator, objects, bytes float64) {
			key := p.name + c.Name
			if made[key] == nil {
				made[key] = &[allocators]allocated{}
			}
			made[key][by].add(objects, bytes)
		})
	})
	if err != nil {
		return nil, err
	}
	t := report.Table{Title: "Go allocations for each request",
		Columns: []string{"request", "server", "requests'", "bytes", "gnet's list of events", "bytes", "duties'", "bytes"}}
	for _, p := range garbagePhases {
		for _, c := range backends {
			row := []string{p.name, c.Name}
			for _, by := range []allocator{byRequests, byGnetList, byDuties} {
				x := made[p.name+c.Name][by]
				row = append(row, x.objects.Text(fixed5), x.bytes.Text(fixed4))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	t.Notes = []string{"Requests' are those made for requests alone. A request that allocated would show 1 or " +
		"more, a batch of 16 that did 0.06. gnet makes a new list when as many connections are ready as it has room " +
		"for, and when fewer than half are. Duties come ten times a second, whatever is asked. What the admin address " +
		"allocates to answer this bench is not shown."}
	g := report.Table{Title: "Collector", Columns: []string{"server", "cycles", "share of CPU"}}
	for _, c := range backends {
		g.Rows = append(g.Rows, []string{c.Name, cycles[c.Name].Text(report.Number), share[c.Name].Text(report.Percent)})
		s.Figures = append(s.Figures, report.Figure{What: "GC's share of CPU under load, " + c.Name + ", " +
			report.Thousands(float64(e.ManyKeys)) + " keys", Target: "< 1 %", Reference: "–",
			Ours: share[c.Name].Text(report.Percent), Verdict: report.Judge(share[c.Name].Median(), 0.01, nan)})
	}
	for _, name := range []string{"GET", "SET"} {
		x := made[name+backends[0].Name]
		requests := x[byRequests].objects
		s.Figures = append(s.Figures, report.Figure{What: "allocations per " + name, Target: "0", Reference: "–",
			Ours: fmt.Sprintf("%s; beside it gnet's list of events %s, duties %s", requests.Text(fixed5),
				x[byGnetList].objects.Text(fixed5), x[byDuties].objects.Text(fixed5)),
			Verdict: report.Judge(requests.Median(), 0.0005, nan)})
	}
	s.Tables = append(s.Tables, t, g)
	return s, nil
}

// allocated has the allocations per request, with one value per run.
type allocated struct{ objects, bytes report.Sample }

func (a *allocated) add(objects, bytes float64) {
	a.objects, a.bytes = append(a.objects, objects), append(a.bytes, bytes)
}

// garbageServer starts a server with many keys.
func (e *Env) garbageServer(c Contender, godebug string) (*Server, error) {
	s, err := e.Begin(c, Start{Env: []string{"GODEBUG=" + godebug}})
	if err != nil {
		return nil, err
	}
	if err = s.Fill(fill(e.ManyKeys, 0, setWords...)); err == nil {
		err = s.Fill(fill(e.Keys, 0, "SET", "n{key}", "{number}"))
	}
	if err != nil {
		s.End()
		return nil, err
	}
	return s, nil
}

// underGarbageLoad loads s with each phase in turn while during runs. It returns the CPU time of s under load.
func (s *Server) underGarbageLoad(during func(p garbagePhase) error) (used time.Duration, err error) {
	for _, p := range garbagePhases {
		keys := s.env.ManyKeys
		if p.name == "INCR" {
			keys = s.env.Keys
		}
		runner, err := s.StartLoad(load.Spec{Connections: 50, Pipeline: 16, Duration: time.Hour,
			Mix: []load.Command{load.Request(p.words...)}, Keys: load.KeySpace{Count: keys}})
		if err != nil {
			return 0, err
		}
		time.Sleep(s.env.Warmup + 300*time.Millisecond)
		if err := during(p); err != nil {
			runner.Abandon()
			return 0, err
		}
		r, err := runner.Finish()
		if err != nil {
			return 0, err
		}
		if r.Errors > 0 {
			return 0, fmt.Errorf("%s was answered with %s", p.name, r.FirstErr)
		}
		used += r.ServerCPU
	}
	return used, nil
}

// collections returns the collector's trace under load, and the server's CPU time under load.
func (e *Env) collections(c Contender) (trace gcTrace, used time.Duration, err error) {
	s, err := e.garbageServer(c, "gctrace=1")
	if err != nil {
		return trace, 0, err
	}
	defer s.End()
	before, err := readTrace(s)
	if err != nil {
		return trace, 0, err
	}
	if used, err = s.underGarbageLoad(func(garbagePhase) error { time.Sleep(e.Duration); return nil }); err != nil {
		return trace, 0, err
	}
	after, err := readTrace(s)
	return gcTrace{after.cycles - before.cycles, after.cpu - before.cpu}, used, err
}

// allocations reports the allocations per request of each phase.
func (e *Env) allocations(c Contender, tell func(p garbagePhase, by allocator, objects, bytes float64)) error {
	s, err := e.garbageServer(c, "memprofilerate=1")
	if err != nil {
		return err
	}
	defer s.End()
	_, err = s.underGarbageLoad(func(p garbagePhase) error {
		made, requests, err := s.allocate(e.Duration)
		if err != nil {
			return err
		}
		if requests == 0 {
			return fmt.Errorf("/metrics has no growing spindle_total_commands_processed")
		}
		for by, x := range made {
			tell(p, allocator(by), x.objects/requests, x.bytes/requests)
		}
		return nil
	})
	return err
}

// allocate returns the server's allocations during a time, and the number of commands that it ran meanwhile.
func (s *Server) allocate(length time.Duration) (made allocations, requests float64, err error) {
	var at [2]struct {
		made     allocations
		requests float64
	}
	for i := range at {
		if i == 1 {
			time.Sleep(length)
		}
		metrics, err := s.Metrics()
		if err != nil {
			return made, 0, err
		}
		at[i].requests = metrics["spindle_total_commands_processed"]
		if at[i].made, err = s.Allocations(); err != nil {
			return made, 0, err
		}
	}
	return at[1].made.since(at[0].made), at[1].requests - at[0].requests, nil
}

func fixed5(v float64) string { return strconv.FormatFloat(v, 'f', 5, 64) }

func fixed4(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }

// A gcTrace is the sum of several lines of gctrace.
type gcTrace struct {
	cycles int
	cpu    time.Duration
}

func readTrace(s *Server) (t gcTrace, err error) {
	f, err := os.Open(filepath.Join(s.Dir, "log"))
	if err != nil {
		return t, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if cpu, ok := parseTrace(lines.Text()); ok {
			t.cycles++
			t.cpu += cpu
		}
	}
	return t, lines.Err()
}

var traceCPU = regexp.MustCompile(`^gc \d+ @.* ([0-9.+/]+) ms cpu,`)

// parseTrace sums up the CPU times in a line: "gc 3 @0.1s 2%: 0.01+0.3+0.005 ms clock, 0.06+0.14/0.25/0.1+0.02 ms cpu,
// 4->4->1 MB, …".
// Source: package runtime, GODEBUG gctrace.
func parseTrace(line string) (time.Duration, bool) {
	m := traceCPU.FindStringSubmatch(line)
	if m == nil {
		return 0, false
	}
	total := 0.0
	for part := range strings.FieldsFuncSeq(m[1], func(r rune) bool { return r == '+' || r == '/' }) {
		ms, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return 0, false
		}
		total += ms
	}
	return time.Duration(total * float64(time.Millisecond)), true
}
