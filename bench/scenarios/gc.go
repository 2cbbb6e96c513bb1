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
		"The collector's CPU is the sum over GODEBUG=gctrace=1, idle marking included, and its share is of the server's CPU in the whole load. Allocations are the growth of go_memstats_mallocs_total between two scrapes of /metrics while all connections are at work, less what a scrape alone costs, over the commands counted between them.")
	type phase struct {
		name  string
		words []string
	}
	phases := []phase{{"GET", []string{"GET", "{key}"}}, {"SET", setWords}, {"SET with TTL", append(append([]string(nil), setWords...), "EX", "1000")}, {"INCR", []string{"INCR", "n{key}"}}}
	allocs, bytes, share, cycles := map[string]report.Sample{}, map[string]report.Sample{}, map[string]report.Sample{}, map[string]report.Sample{}
	err := e.alternate(backends, func(c Contender, _ int) error {
		server, err := e.Begin(c, Start{Env: []string{"GODEBUG=gctrace=1"}})
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
			alone, err := server.scrapes(0)
			if err != nil {
				return err
			}
			runner, err := server.StartLoad(load.Spec{Connections: 50, Pipeline: 16, Duration: time.Hour, Mix: []load.Command{load.Request(p.words...)}, Keys: load.KeySpace{Count: keys}})
			if err != nil {
				return err
			}
			time.Sleep(e.Warmup + 300*time.Millisecond)
			under, err := server.scrapes(e.Duration)
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
			requests := under["spindle_total_commands_processed"]
			if requests == 0 {
				return fmt.Errorf("%s: /metrics has no growing spindle_total_commands_processed", c.Name)
			}
			key := p.name + c.Name
			allocs[key] = append(allocs[key], (under["go_memstats_mallocs_total"]-alone["go_memstats_mallocs_total"])/requests)
			bytes[key] = append(bytes[key], (under["go_memstats_alloc_bytes_total"]-alone["go_memstats_alloc_bytes_total"])/requests)
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
	t := report.Table{Title: "Go allocations", Columns: []string{"request", "server", "allocations/request", "bytes/request"}}
	for _, p := range phases {
		for _, c := range backends {
			t.Rows = append(t.Rows, []string{p.name, c.Name, allocs[p.name+c.Name].Text(fixed4), bytes[p.name+c.Name].Text(report.Number)})
		}
	}
	t.Notes = []string{"The server's periodic duties are in these figures; a request that allocated would show 1 or more, a batch of 16 that did 0.06."}
	g := report.Table{Title: "Collector", Columns: []string{"server", "cycles", "share of CPU"}}
	for _, c := range backends {
		g.Rows = append(g.Rows, []string{c.Name, cycles[c.Name].Text(report.Number), share[c.Name].Text(report.Percent)})
		s.Figures = append(s.Figures, report.Figure{What: "GC's share of CPU under load, " + c.Name + ", " + report.Thousands(float64(e.ManyKeys)) + " keys", Target: "< 1 %", Reference: "–",
			Ours: share[c.Name].Text(report.Percent), Verdict: report.Judge(share[c.Name].Median(), 0.01, nan)})
	}
	for _, name := range []string{"GET", "SET"} {
		x := allocs[name+backends[0].Name]
		s.Figures = append(s.Figures, report.Figure{What: "allocations per " + name, Target: "0", Reference: "–", Ours: x.Text(fixed4), Verdict: report.Judge(x.Median(), 0.0005, nan)})
	}
	s.Tables = append(s.Tables, t, g)
	return s, nil
}

// scrapes is what every metric grew by from one scrape to the next.
func (s *Server) scrapes(apart time.Duration) (map[string]float64, error) {
	first, err := s.Metrics()
	if err != nil {
		return nil, err
	}
	time.Sleep(apart)
	second, err := s.Metrics()
	for name := range second {
		second[name] -= first[name]
	}
	return second, err
}

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
		if cpu, ok := parseTrace(lines.Text()); ok {
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
