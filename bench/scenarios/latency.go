package scenarios

import (
	"fmt"
	"math"

	"spindle/bench/load"
	"spindle/bench/report"
)

// latencyRates has numbers of requests a second, without pipelining. At the lowest rate a server mostly sleeps. The
// highest rate is more than Redis can handle on one core here.
var latencyRates = []float64{10, 50, 500, 10_000, 30_000, 50_000, 70_000, 90_000, 110_000}

// judged is the least number of requests from which a p99 gets a verdict.
const judged = 1000

// latency sends requests at fixed rates, and measures latency from the intended time.
func latency(e *Env) (*report.Section, error) {
	contenders := append(append([]Contender{e.Reference}, e.Also...),
		e.Ours().With("spindle gnet", "--reactor-backend", "gnet"),
		e.Ours().With("spindle epoll", "--reactor-backend", "epoll"))
	s := e.section("latency", contenders,
		fmt.Sprintf("Open loop, 50 connections, no pipelining, GET and SET 1:1 of %s keys, evenly spaced. Warmed up for "+
			"%v, counted for %v.", report.Thousands(float64(e.Keys)), e.Warmup, e.Duration),
		"\"Sent late\" is the generator's own delay (p99.9): latency cannot be less certain than that, and a ⚠ says that "+
			"it is more than half of p99. \"Overrun\": the server did not keep up, the run was cut short. CPU is all of the "+
			"server's, also what it uses while nobody asks.")
	type point struct {
		p50, p90, p99, p999, max, late, cpu report.Sample
		overrun                             int
	}
	points := map[string]*point{}
	at := func(c string, rate float64) *point {
		key := fmt.Sprint(c, rate)
		if points[key] == nil {
			points[key] = &point{}
		}
		return points[key]
	}
	err := e.alternate(contenders, func(c Contender, _ int) error {
		server, err := e.Begin(c, Start{})
		if err != nil {
			return err
		}
		defer server.End()
		if err := server.Fill(fill(e.Keys, 0, setWords...)); err != nil {
			return err
		}
		for _, rate := range latencyRates {
			r, err := server.Load(load.Spec{Connections: 50, Rate: rate, Warmup: e.Warmup, Duration: e.Duration,
				Keys: load.KeySpace{Count: e.Keys},
				Mix:  []load.Command{load.Request("GET", "{key}"), load.Request(setWords...)}})
			if err != nil {
				return err
			}
			p := at(c.Name, rate)
			if r.Overrun || r.Latency.Count() < int64(rate*r.Elapsed.Seconds()*0.9) {
				p.overrun++
			}
			p.p50 = append(p.p50, float64(r.Latency.Percentile(50)))
			p.p90 = append(p.p90, float64(r.Latency.Percentile(90)))
			p.p99 = append(p.p99, float64(r.Latency.Percentile(99)))
			p.p999 = append(p.p999, float64(r.Latency.Percentile(99.9)))
			p.max = append(p.max, float64(r.Latency.Max()))
			p.late = append(p.late, float64(r.SendDelay.Percentile(99.9)))
			p.cpu = append(p.cpu, r.NanosPerRequest())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	t := report.Table{Title: "Latency from the intended time, µs",
		Columns: []string{"requests/s", "server", "p50", "p90", "p99", "p99.9", "max", "sent late", "CPU µs/request",
			"overrun", "verdict"}}
	for _, rate := range latencyRates {
		base := at(e.Reference.Name, rate)
		for i, c := range contenders {
			p := at(c.Name, rate)
			overrun, verdict := "", ""
			if p.overrun > 0 {
				overrun = fmt.Sprintf("%d of %d", p.overrun, e.Runs)
			}
			if i > 0 && c.Kind == Spindle && rate*e.Duration.Seconds() >= judged && p.p99.Median() > base.p99.Median() {
				verdict = string(report.Lost)
			}
			late := p.late.Short(report.Micros)
			if p.late.Median() > p.p99.Median()/2 {
				late += " ⚠"
			}
			t.Rows = append(t.Rows, []string{report.Thousands(rate), c.Name, p.p50.Text(report.Micros),
				p.p90.Short(report.Micros), p.p99.Text(report.Micros),
				p.p999.Text(report.Micros), p.max.Text(report.Micros), late, p.cpu.Short(report.Micros), overrun, verdict})
		}
	}
	t.Notes = []string{fmt.Sprintf("The verdict compares the medians of p99, where a run has %d requests and more.",
		judged)}
	s.Tables = append(s.Tables, t)
	return s, e.plot(s, "latency", "p99 by rate", func(file string) error {
		var lines []report.Line
		for _, c := range contenders {
			line := report.Line{Name: c.Name + " p99"}
			for _, rate := range latencyRates {
				if v := at(c.Name, rate).p99.Median(); !math.IsNaN(v) {
					line.X, line.Y = append(line.X, rate/1e3), append(line.Y, v/1e3)
				}
			}
			lines = append(lines, line)
		}
		return report.Lines(file, "Latency in an open loop, p99", "thousand requests a second", "µs", true, lines)
	})
}
