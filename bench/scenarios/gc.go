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

// garbage asks what the Go runtime costs: the collector's CPU, by its own trace, and allocations per request, by /metrics.
func garbage(e *Env) (*report.Section, error) {
	backends := e.Backends()[:3]
	s := e.section("gc", backends,
		fmt.Sprintf("%s keys of 16 bytes with values of 32, 50 connections, pipeline 16, each phase counted for %v after %v of warm-up.", report.Thousands(float64(e.ManyKeys)), e.Duration, e.Warmup),
		"The collector's CPU is the sum over GODEBUG=gctrace=1, idle marking included, without the cycles that a heap profile begins with, and its share is of the server's CPU in the whole load. Every allocation is recorded (memprofilerate=1): those between two heap profiles while all connections are at work are counted by their stacks, over the commands between them.")
	type phase struct {
		name  string
		words []string
	}
	type made struct{ objects, bytes report.Sample } // for each request
	phases := []phase{{"GET", []string{"GET", "{key}"}}, {"SET", setWords}, {"SET with TTL", append(append([]string(nil), setWords...), "EX", "1000")}, {"INCR", []string{"INCR", "n{key}"}}}
	all, share, cycles := map[string]*[allocators]made{}, map[string]report.Sample{}, map[string]report.Sample{}
	err := e.alternate(backends, func(c Contender, _ int) error {
		server, err := e.Begin(c, Start{Env: []string{"GODEBUG=gctrace=1,memprofilerate=1"}})
		if err != nil {
			return err
		}
		defer server.End()
		if err := server.Fill(fill(e.ManyKeys, 0, setWords...)); err != nil {
			return err
		}
		if err := server.Fill(fill(e.Keys, 0, "SET", "n{key}", "{number}")); err != nil {
			return err
		}
		trace0, err := readTrace(server)
		if err != nil {
			return err
		}
		var used time.Duration
		for _, p := range phases {
			keys := e.ManyKeys
			if p.name == "INCR" {
				keys = e.Keys
			}
			runner, err := server.StartLoad(load.Spec{Connections: 50, Pipeline: 16, Duration: time.Hour, Mix: []load.Command{load.Request(p.words...)}, Keys: load.KeySpace{Count: keys}})
			if err != nil {
				return err
			}
			time.Sleep(e.Warmup + 300*time.Millisecond)
			under, requests, err := server.allocate(e.Duration)
			if err != nil {
				runner.Abandon()
				return err
			}
			r, err := runner.Finish()
			if err != nil {
				return err
			}
			if r.Errors > 0 {
				return fmt.Errorf("%s answered %s with %s", c.Name, p.name, r.FirstErr)
			}
			if requests == 0 {
				return fmt.Errorf("%s: /metrics has no growing spindle_total_commands_processed", c.Name)
			}
			key := p.name + c.Name
			if all[key] == nil {
				all[key] = &[allocators]made{}
			}
			for by, x := range under {
				to := &all[key][by]
				to.objects, to.bytes = append(to.objects, x.objects/requests), append(to.bytes, x.bytes/requests)
			}
			used += r.ServerCPU
		}
		trace1, err := readTrace(server)
		if err != nil {
			return err
		}
		share[c.Name] = append(share[c.Name], float64(trace1.cpu-trace0.cpu)/float64(used))
		cycles[c.Name] = append(cycles[c.Name], float64(trace1.cycles-trace0.cycles))
		return nil
	})
	if err != nil {
		return nil, err
	}
	t := report.Table{Title: "Go allocations for each request", Columns: []string{"request", "server", "requests'", "bytes", "gnet's list of events", "bytes", "duties'", "bytes"}}
	for _, p := range phases {
		for _, c := range backends {
			row := []string{p.name, c.Name}
			for _, by := range []allocator{byRequests, byGnetList, byDuties} {
				x := all[p.name+c.Name][by]
				row = append(row, x.objects.Text(fixed5), x.bytes.Text(fixed4))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	t.Notes = []string{"Requests' are those made on behalf of nobody else. A request that allocated would show 1 or more, a batch of 16 that did 0.06. gnet makes its list anew when as many connections are ready as it has room for, and when fewer than half are. Duties come ten times a second, whatever is asked. What the admin address allocates to answer this bench is not shown."}
	g := report.Table{Title: "Collector", Columns: []string{"server", "cycles", "share of CPU"}}
	for _, c := range backends {
		g.Rows = append(g.Rows, []string{c.Name, cycles[c.Name].Text(report.Number), share[c.Name].Text(report.Percent)})
		s.Figures = append(s.Figures, report.Figure{What: "GC's share of CPU under load, " + c.Name + ", " + report.Thousands(float64(e.ManyKeys)) + " keys", Target: "< 1 %", Reference: "–",
			Ours: share[c.Name].Text(report.Percent), Verdict: report.Judge(share[c.Name].Median(), 0.01, nan)})
	}
	for _, name := range []string{"GET", "SET"} {
		x := all[name+backends[0].Name]
		own := x[byRequests].objects
		s.Figures = append(s.Figures, report.Figure{What: "allocations per " + name, Target: "0", Reference: "–",
			Ours: fmt.Sprintf("%s; beside it gnet's list of events %s, duties %s", own.Text(fixed5), x[byGnetList].objects.Text(fixed5), x[byDuties].objects.Text(fixed5)), Verdict: report.Judge(own.Median(), 0.0005, nan)})
	}
	s.Tables = append(s.Tables, t, g)
	return s, nil
}

// allocate is what the server allocates for some time, and how many commands it runs meanwhile.
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

// A gcTrace is what gctrace lines add up to.
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
		if cpu, ok := parseTrace(lines.Text()); ok && !strings.HasSuffix(lines.Text(), "(forced)") {
			t.cycles++
			t.cpu += cpu
		}
	}
	return t, lines.Err()
}

var traceCPU = regexp.MustCompile(`^gc \d+ @.* ([0-9.+/]+) ms cpu,`)

// parseTrace adds up a line's CPU: "gc 3 @0.1s 2%: 0.01+0.3+0.005 ms clock, 0.06+0.14/0.25/0.1+0.02 ms cpu, 4->4->1 MB, …".
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
