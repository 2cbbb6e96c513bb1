package scenarios

import (
	"fmt"
	"strings"
	"time"

	"spindle/bench/load"
	"spindle/bench/process"
	"spindle/bench/report"
)

// An attached has the figures of a replica.
type attached struct {
	cpu        report.Sample // ns of CPU time per applied command
	took       report.Sample // ns from REPLICAOF to link up
	grew, turn report.Sample // the primary's greatest RSS, relative to before, and its longest turn in ns
}

// replicas measures the cost of a command on a replica, and the duration of a full synchronisation.
func replicas(e *Env) (*report.Section, error) {
	contenders := e.Pair()
	applied := uint64(max(e.Duration.Seconds(), 0.1) * 1e6)
	s := e.section("replication", contenders,
		fmt.Sprintf("Applied commands: %s SETs, pipeline 16, go to one and the same primary of the reference. The replica "+
			"follows it on another core. Its CPU is divided by the commands.", report.Thousands(float64(applied))),
		fmt.Sprintf("Full synchronisation: a primary of %s keys of 16 bytes, values of 32. Each server follows its own "+
			"kind, with all cores and no repl-diskless-sync-delay. The time is from REPLICAOF to link up.",
			report.Thousands(float64(e.ManyKeys))))
	seen := map[string]*attached{}
	for _, c := range contenders {
		seen[c.Name] = &attached{}
	}
	err := e.alternate(contenders, func(c Contender, _ int) error {
		if err := e.applyOnce(c, applied, seen[c.Name]); err != nil {
			return err
		}
		return e.syncOnce(c, seen[c.Name])
	})
	if err != nil {
		return nil, err
	}
	t := report.Table{Columns: []string{"server", "CPU µs/applied command", "× redis", "full synchronisation",
		"× redis's time", "primary's memory", "longest turn", "verdict"}}
	base := seen[e.Reference.Name]
	for i, c := range contenders {
		x := seen[c.Name]
		cpu, took, verdict, turn := x.cpu.Ratio(base.cpu), x.took.Ratio(base.took), "", "–"
		if i > 0 && c.Kind == Spindle && (cpu > 1 || took > 1) {
			verdict = string(report.Lost)
		}
		if len(x.turn) > 0 {
			turn = x.turn.Text(report.Duration)
		}
		t.Rows = append(t.Rows, []string{c.Name, x.cpu.Text(report.Micros), report.Number(cpu), x.took.Text(report.Duration),
			report.Number(took),
			x.grew.Text(report.Times), turn, verdict})
	}
	s.Tables = append(s.Tables, t)
	ours := seen["spindle"]
	cpu, took := ours.cpu.Ratio(base.cpu), ours.took.Ratio(base.took)
	s.Figures = append(s.Figures,
		report.Figure{What: "CPU of an applied command at the replica", Target: "≤ 0.60 × redis",
			Reference: base.cpu.Text(report.Micros) + " µs",
			Ours:      fmt.Sprintf("%s µs, %s", ours.cpu.Text(report.Micros), report.Times(cpu)),
			Verdict:   report.Judge(cpu, 0.60, 1)},
		report.Figure{What: fmt.Sprintf("full synchronisation of %s keys", report.Thousands(float64(e.ManyKeys))),
			Target: "≤ 0.50 × redis", Reference: base.took.Text(report.Duration),
			Ours: ours.took.Text(report.Duration) + ", " + report.Times(took), Verdict: report.Judge(took, 0.50, 1)},
		report.Figure{What: "full synchronisation: the primary's memory", Target: "≤ 1.4 ×",
			Reference: base.grew.Text(report.Times),
			Ours:      ours.grew.Text(report.Times), Verdict: report.Judge(ours.grew.Median(), 1.4,
				max(1.4, base.grew.Median()))})
	return s, nil
}

// applyOnce makes c replicate a primary that gets writes.
func (e *Env) applyOnce(c Contender, commands uint64, x *attached) error {
	primary, err := e.Begin(e.Reference.With("primary"),
		Start{CPUs: &e.LoadCPUs, Args: []string{"--client-output-buffer-limit", "replica 0 0 0"}})
	if err != nil {
		return err
	}
	defer primary.End()
	replica, err := e.Begin(c, Start{})
	if err != nil {
		return err
	}
	defer replica.End()
	if _, err := replica.follow(primary, time.Minute); err != nil {
		return err
	}
	before, err := process.CPUTime(replica.PID)
	if err != nil {
		return err
	}
	if err := primary.Fill(load.Spec{Connections: 50, Pipeline: 16, Requests: int64(commands),
		Mix: []load.Command{load.Request(setWords...)}, Keys: load.KeySpace{Count: e.Keys}}); err != nil {
		return err
	}
	if err := replica.catchUp(primary, time.Minute); err != nil {
		return err
	}
	after, err := process.CPUTime(replica.PID)
	x.cpu = append(x.cpu, float64(after-before)/float64(commands))
	return err
}

// syncOnce makes c replicate a filled server of the same kind.
func (e *Env) syncOnce(c Contender, x *attached) error {
	all := &process.CPUs{}
	primary, err := e.Begin(c, Start{CPUs: all, Args: []string{"--repl-diskless-sync-delay", "0"}})
	if err != nil {
		return err
	}
	defer primary.End()
	if err := primary.Fill(fill(e.ManyKeys, 0, setWords...)); err != nil {
		return err
	}
	replica, err := e.Begin(c, Start{CPUs: all})
	if err != nil {
		return err
	}
	defer replica.End()
	if c.Kind == Spindle {
		if err := primary.ResetTurns(); err != nil {
			return err
		}
	}
	if err := process.ResetPeak(primary.PID); err != nil {
		return err
	}
	rss := process.RSS(primary.PID)
	took, err := replica.follow(primary, 10*time.Minute)
	if err != nil {
		return err
	}
	x.took = append(x.took, float64(took))
	x.grew = append(x.grew, float64(process.PeakRSS(primary.PID))/float64(rss))
	if c.Kind == Spindle {
		turns, err := primary.Turns()
		if err != nil {
			return err
		}
		x.turn = append(x.turn, float64(turns.CPU))
	}
	return nil
}

// follow makes s a replica of primary. It returns how long the link took to come up.
func (s *Server) follow(primary *Server, limit time.Duration) (time.Duration, error) {
	host, port, _ := strings.Cut(primary.Address, ":")
	if _, err := s.Do("REPLICAOF", host, port); err != nil {
		return 0, err
	}
	return s.until(limit, 5*time.Millisecond, "the link with its primary", func() (bool, error) {
		info, err := s.Info()
		if err != nil && strings.Contains(err.Error(), "LOADING") {
			return false, nil
		}
		return info["master_link_status"] == "up", err
	})
}

// catchUp waits until s has applied everything that primary has sent.
func (s *Server) catchUp(primary *Server, limit time.Duration) error {
	want, err := primary.number("master_repl_offset")
	if err != nil {
		return err
	}
	_, err = s.until(limit, 5*time.Millisecond, "the primary's offset", func() (bool, error) {
		got, err := s.number("slave_repl_offset")
		return got >= want, err
	})
	return err
}
