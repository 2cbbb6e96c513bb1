package scenarios

import (
	"fmt"
	"math"

	"spindle/bench/report"
)

// latencyPaces begin where a server mostly sleeps. The last one is more than Redis can handle on one core here.
var latencyPaces = []pace{{50, 10}, {50, 50}, {50, 500}, {50, 10_000}, {50, 30_000}, {50, 50_000}, {50, 70_000},
	{50, 90_000}, {50, 110_000}}

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
			"server's, also what it uses while no client asks.")
	all := points{}
	if err := e.paced(all, contenders, latencyPaces...); err != nil {
		return nil, err
	}
	t := report.Table{Title: "Latency from the intended time, µs",
		Columns: []string{"requests/s", "server", "p50", "p90", "p99", "p99.9", "max", "sent late", "CPU µs/request",
			"overrun", "verdict"}}
	for _, at := range latencyPaces {
		base, rate := all[e.Reference.Name][at], at.perSecond
		for i, c := range contenders {
			p := all[c.Name][at]
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
			for _, at := range latencyPaces {
				if v := all[c.Name][at].p99.Median(); !math.IsNaN(v) {
					line.X, line.Y = append(line.X, at.perSecond/1e3), append(line.Y, v/1e3)
				}
			}
			lines = append(lines, line)
		}
		return report.Lines(file, "Latency in an open loop, p99", "thousand requests a second", "µs", true, lines)
	})
}
