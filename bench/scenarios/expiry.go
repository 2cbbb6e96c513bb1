package scenarios

import (
	"fmt"
	"time"

	"spindle/bench/load"
	"spindle/bench/report"
)

const expiringKeys = 1_000_000

// expiry makes a million keys expire within a second while 50 clients read and write other keys.
func expiry(e *Env) (*report.Section, error) {
	contenders := e.Pair()
	n := min(uint64(expiringKeys), e.Keys)
	s := e.section("expiry", contenders,
		fmt.Sprintf("%s keys whose deadlines (PXAT) are spread over one second, beside as many without one. 50 connections "+
			"read and write those, closed loop, no pipelining; a probe reads 500 times a second in an open loop.",
			report.Thousands(float64(n))),
		"DBSIZE, asked every 20 ms, shows how many keys are still counted though their deadline has passed. \"Lag\" is "+
			"INFO's, from a key's deadline to its removal; \"all gone\" is from the last deadline.")
	type cost struct {
		sights
		overdue, gone, p50, p99, max, clients report.Sample
		curve                                 []load.Point // overdue keys, in Requests
	}
	costs := map[string]*cost{}
	for _, c := range contenders {
		costs[c.Name] = &cost{}
	}
	err := e.alternate(contenders, func(c Contender, _ int) error {
		x := costs[c.Name]
		server, err := e.Begin(c, Start{})
		if err != nil {
			return err
		}
		defer server.End()
		if err := server.Fill(fill(n, 0, setWords...)); err != nil {
			return err
		}
		first := time.Now().Add(4*time.Second + time.Duration(n)*4*time.Microsecond).Truncate(time.Millisecond)
		last := first.Add(999 * time.Millisecond)
		spec := fill(n, 1<<32, append(append([]string(nil), setWords...), "PXAT", "{deadline}")...)
		spec.Deadlines = load.Deadlines{FirstMs: first.UnixMilli(), SpreadMs: 1000}
		if err := server.Fill(spec); err != nil {
			return err
		}
		if count, err := server.Do("DBSIZE"); err != nil || count.Int != int64(2*n) ||
			time.Until(first) < 500*time.Millisecond {
			return fmt.Errorf("%d keys %v before the first deadline, want %d: %v", count.Int, time.Until(first), 2*n, err)
		}
		writes := load.Spec{Connections: 50, Duration: time.Hour, Warmup: 100 * time.Millisecond,
			Keys: load.KeySpace{Count: n},
			Mix:  []load.Command{load.Request("GET", "{key}"), load.Request(setWords...)}}
		var overdue float64
		var gone time.Duration
		var curve []load.Point
		sight, r, err := server.watchedWrites(writes, load.KeySpace{Count: n}, func() error {
			time.Sleep(time.Until(first))
			for {
				count, err := server.Do("DBSIZE")
				if err != nil {
					return err
				}
				now := time.Now()
				due := float64(min(now.Sub(first), time.Second)) / float64(time.Second) * float64(n)
				late := max(0, float64(count.Int)-float64(2*n)+due)
				overdue = max(overdue, late)
				curve = append(curve, load.Point{At: now.Sub(first), Requests: int64(late)})
				if count.Int == int64(n) {
					gone = now.Sub(last)
					return nil
				}
				if now.Sub(last) > 2*time.Minute {
					return fmt.Errorf("%d keys are left two minutes after their deadline", count.Int-int64(n))
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
		if err != nil {
			return err
		}
		x.add(sight)
		x.curve, x.overdue, x.gone = curve, append(x.overdue, overdue), append(x.gone, float64(gone))
		x.clients = append(x.clients, float64(r.Latency.Percentile(99.9)))
		info, err := server.Info()
		if err != nil {
			return err
		}
		for name, into := range map[string]*report.Sample{"expired_lag_p50_ms": &x.p50, "expired_lag_p99_ms": &x.p99,
			"expired_lag_max_ms": &x.max} {
			if ms, ok := info.Float(name); ok {
				*into = append(*into, ms*1e6)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	t := report.Table{Columns: append(append([]string{"server"}, sightColumns...), "clients' p99.9", "lag p50", "lag p99",
		"lag max", "most overdue", "all gone", "verdict")}
	base := costs[e.Reference.Name]
	for i, c := range contenders {
		x, verdict := costs[c.Name], ""
		if i > 0 && c.Kind == Spindle && x.gone.Median() > base.gone.Median() {
			verdict = string(report.Lost)
		}
		t.Rows = append(t.Rows, append(append([]string{c.Name}, x.cells()...), x.clients.Short(report.Duration),
			x.p50.Text(report.Duration), x.p99.Text(report.Duration), x.max.Text(report.Duration),
			x.overdue.Text(report.Thousands), x.gone.Text(report.Duration), verdict))
	}
	s.Tables = append(s.Tables, t)
	ours := costs["spindle"]
	s.Figures = append(s.Figures,
		report.Figure{What: "1 M keys expiring within one second: lag p99", Target: "< 100 ms",
			Reference: "all gone after " + base.gone.Text(report.Duration),
			Ours:      ours.p99.Text(report.Duration), Verdict: report.Judge(ours.p99.Max(), 100e6, nan)},
		turnTarget("1 M keys expiring within one second", time.Millisecond, &ours.sights))
	return s, e.plot(s, "expiry", "Keys past their deadline and still there", func(file string) error {
		var lines []report.Line
		for _, c := range contenders {
			line := report.Line{Name: c.Name}
			for _, p := range costs[c.Name].curve {
				line.X, line.Y = append(line.X, p.At.Seconds()), append(line.Y, float64(p.Requests))
			}
			lines = append(lines, line)
		}
		return report.Lines(file, "Overdue keys, the first deadline at 0, the last at 1 s, last run", "s",
			"keys", false, lines)
	})
}
