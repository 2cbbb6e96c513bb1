package scenarios

import (
	"fmt"

	"spindle/bench/report"
)

// A pace is a fixed number of requests a second over some connections.
type pace struct {
	connections int
	perSecond   float64
}

// String returns the pace in words.
func (p pace) String() string {
	if p.connections == 1 {
		return report.Thousands(p.perSecond) + "/s on 1 connection"
	}
	return fmt.Sprintf("%s/s on %d connections", report.Thousands(p.perSecond), p.connections)
}

// paces are far from what a server can do. At the lowest, each request wakes a server that sleeps.
var paces = []pace{{1, 100}, {1, 1000}, {1, 5000}, {1, 20_000}, {50, 100}, {50, 1000}, {50, 5000}, {50, 20_000}}

// rates measures the CPU of a request while the server is mostly idle.
func rates(e *Env) (*report.Section, error) {
	contenders := append(append([]Contender{e.Reference}, e.Also...),
		e.Ours().With("spindle gnet", "--reactor-backend", "gnet"),
		e.Ours().With("spindle epoll", "--reactor-backend", "epoll"),
		e.Ours().With("spindle io_uring", "--reactor-backend", "io_uring"))
	s := e.section("rates", contenders,
		fmt.Sprintf("Open loop, no pipelining, GET and SET 1:1 of %s keys, evenly spaced. Warmed up for %v, counted for %v.",
			report.Thousands(float64(e.Keys)), e.Warmup, e.Duration),
		"CPU is all of the server's, also what it uses while no client asks. So it holds the cost of a wake-up, and of the "+
			"server's own ticks.")
	all := points{}
	for _, p := range paces {
		if err := e.paced(all, contenders, p); err != nil {
			return nil, err
		}
	}
	t := report.Table{Title: "CPU of a request at a fixed rate",
		Columns: []string{"rate", "server", "CPU µs/request", "× " + e.Reference.Name, "p50 µs", "p99", "verdict"}}
	for _, p := range paces {
		base := all[e.Reference.Name][p]
		for i, c := range contenders {
			x := all[c.Name][p]
			ratio, verdict := x.cpu.Ratio(base.cpu), ""
			if i > 0 && c.Kind == Spindle && ratio > 1 {
				verdict = string(report.Lost)
			}
			t.Rows = append(t.Rows, []string{p.String(), c.Name, x.cpu.Text(report.Micros), report.Number(ratio),
				x.p50.Short(report.Micros), x.p99.Short(report.Micros), verdict})
		}
		ours := all["spindle gnet"][p]
		ratio := ours.cpu.Ratio(base.cpu)
		s.Figures = append(s.Figures, report.Figure{
			What: "CPU per request, " + p.String(), Target: "≤ 1.00 × " + e.Reference.Name,
			Reference: base.cpu.Text(report.Micros) + " µs",
			Ours:      fmt.Sprintf("%s µs, %s ×", ours.cpu.Text(report.Micros), report.Number(ratio)),
			Verdict:   report.Judge(ratio, 1, 1),
		})
	}
	s.Tables = append(s.Tables, t)
	return s, nil
}
