package scenarios

import (
	"fmt"
	"os"
	"os/exec"
	"time"

	"spindle/bench/load"
	"spindle/bench/report"
)

// A logTest measures SET with the append-only file and one setting of appendfsync.
type logTest struct {
	name        string
	fsync       string
	connections int
	pipeline    int
	limit       float64 // throughput, × redis
}

var logTests = []logTest{
	{"SET, always, 50 connections", "always", 50, 1, 1.3},
	{"SET, always, 500 connections", "always", 500, 1, 1.5},
	{"SET, everysec, 50 connections", "everysec", 50, 16, 2},
	{"SET, no, 50 connections", "no", 50, 16, 2},
}

// logArguments enable the append-only file and disable its rewrites.
var logArguments = []string{"--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"}

const (
	slowSync  = 5 * time.Millisecond // of both servers, by strace
	stuckSync = time.Second
)

// logs measures writes with the append-only file, on the real disk and with slow syncs. It also measures the load of
// such a file.
func logs(e *Env) (*report.Section, error) {
	contenders := e.Pair()
	s := e.section("aof", contenders,
		fmt.Sprintf("SET of %s keys of 16 bytes, values of 32, with the append-only file. Closed loop.",
			report.Thousands(float64(e.Keys))),
		"Each run starts and fills fresh servers. "+e.slicesText(),
		fmt.Sprintf("The slow disk is `strace --seccomp-bpf`, which holds every fsync and fdatasync of either server up by "+
			"%v, by %v in the probe of latency.", slowSync, stuckSync))
	m := matrix{}
	if err := e.logCells(contenders, m, "", Start{Args: logArguments}, logTests); err != nil {
		return nil, err
	}
	const slow = "slow disk: "
	if wrap := slowDisk(slowSync); wrap != nil {
		if err := e.logCells(contenders, m, slow, Start{Args: logArguments, Wrap: wrap}, logTests[:2]); err != nil {
			return nil, err
		}
	} else {
		s.Text = append(s.Text, "strace was not on PATH: nothing was measured on a slow disk.")
	}
	s.Tables = append(s.Tables, e.logTable(m, contenders, "", logTests), e.logTable(m, contenders, slow, logTests[:2]))
	for _, t := range logTests[:3] {
		base, ours := m.at(e.Reference.Name, cell{t.name, t.pipeline}), m.at("spindle", cell{t.name, t.pipeline})
		ratio := base.rps.Ratio(ours.rps)
		s.Figures = append(s.Figures, report.Figure{What: fmt.Sprintf("throughput of %s, pipeline %d", t.name, t.pipeline),
			Target: fmt.Sprintf("≥ %s × redis", report.Number(t.limit)), Reference: base.rps.Text(report.Thousands) + "/s",
			Ours:    fmt.Sprintf("%s/s, %s", ours.rps.Text(report.Thousands), report.Times(1/ratio)),
			Verdict: report.Judge(ratio, 1/t.limit, 1)})
	}
	if wrap := slowDisk(stuckSync); wrap != nil {
		f, err := e.stuckFigure(contenders, wrap)
		if err != nil {
			return nil, err
		}
		s.Figures = append(s.Figures, f)
	}
	f, err := e.logLoading(contenders)
	s.Figures = append(s.Figures, f)
	return s, err
}

// slowDisk returns a wrapper command that delays each sync of a server by a duration. It returns nil if strace is not
// installed. strace is the server's child, so that the started process is the server.
func slowDisk(by time.Duration) []string {
	if _, err := exec.LookPath("strace"); err != nil {
		return nil
	}
	return []string{"strace", "-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync",
		"-e", fmt.Sprintf("inject=fsync,fdatasync:delay_exit=%d", by.Microseconds())}
}

// logCells measures tests into m. Their names in m begin with prefix.
func (e *Env) logCells(contenders []Contender, m matrix, prefix string, start Start, tests []logTest) error {
	prepare := func(server *Server) error { return server.Fill(fill(e.Keys, 0, setWords...)) }
	ready := func(server *Server, at int) (load.Spec, error) {
		t := tests[at]
		_, err := server.Do("CONFIG", "SET", "appendfsync", t.fsync)
		return load.Spec{Connections: t.connections, Pipeline: t.pipeline, Warmup: e.Warmup, Duration: e.Duration,
			Mix: []load.Command{load.Request(setWords...)}, Keys: load.KeySpace{Count: e.Keys}}, err
	}
	// The fill is not measured, so it does not wait for the disk.
	start.Args = append(start.Args[:len(start.Args):len(start.Args)], "--appendfsync", "no")
	return e.sideBySide(contenders, start, prepare, len(tests), ready,
		func(server *Server, at int, slices []load.Result) error {
			m.at(server.Name, cell{prefix + tests[at].name, tests[at].pipeline}).add(slices)
			return nil
		})
}

func (e *Env) logTable(m matrix, contenders []Contender, prefix string, tests []logTest) report.Table {
	t := report.Table{Title: "The disk as it is", Columns: []string{"test", "pipeline", "server", "requests/s", "× redis",
		"CPU µs/request", "p50 µs", "p99", "p99.9", "max", "verdict"}}
	if prefix != "" {
		t.Title = fmt.Sprintf("A disk that takes %v longer to sync", slowSync)
	}
	for _, x := range tests {
		at := cell{prefix + x.name, x.pipeline}
		base := m.at(contenders[0].Name, at)
		if len(base.cpu) == 0 {
			continue
		}
		for i, c := range contenders {
			y := m.at(c.Name, at)
			speed, verdict := 1/base.rps.Ratio(y.rps), ""
			if i > 0 && c.Kind == Spindle && speed < 1 {
				verdict = string(report.Lost)
			}
			t.Rows = append(t.Rows, []string{x.name, fmt.Sprint(x.pipeline), c.Name, y.rps.Text(report.Thousands),
				report.Number(speed), y.cpu.Text(report.Micros),
				y.p50.Short(report.Micros), y.p99.Short(report.Micros), y.p999.Short(report.Micros),
				y.max.Short(report.Micros), verdict})
		}
	}
	return t
}

// stuckRate is the number of requests a second while the disk hangs.
const stuckRate = 2000

// stuckFigure measures the latency of SET with appendfsync everysec while each sync takes a second.
func (e *Env) stuckFigure(contenders []Contender, wrap []string) (report.Figure, error) {
	p99, longest := map[string]report.Sample{}, map[string]report.Sample{}
	start := Start{Args: append(logArguments[:len(logArguments):len(logArguments)], "--appendfsync", "everysec"),
		Wrap: wrap}
	err := e.alternate(contenders, func(c Contender, _ int) error {
		server, err := e.Begin(c, start)
		if err != nil {
			return err
		}
		defer server.End()
		r, err := server.Load(load.Spec{Connections: 10, Pipeline: 1, Rate: stuckRate, Warmup: time.Second,
			Duration: 5 * time.Second,
			Mix:      []load.Command{load.Request(setWords...)}, Keys: load.KeySpace{Count: e.Keys}})
		if err != nil {
			return err
		}
		p99[c.Name] = append(p99[c.Name], float64(r.Latency.Percentile(99)))
		longest[c.Name] = append(longest[c.Name], float64(r.Latency.Max()))
		return nil
	})
	base, ours := longest[e.Reference.Name], longest["spindle"]
	text := func(name string) string {
		return fmt.Sprintf("longest %s, p99 %s", longest[name].Text(report.Duration), p99[name].Short(report.Duration))
	}
	return report.Figure{What: fmt.Sprintf("SET, everysec, %d/s, while a sync takes %v", stuckRate, stuckSync),
		Target:    "≤ 1 ms",
		Reference: text(e.Reference.Name), Ours: text("spindle"),
		Verdict: report.Judge(ours.Median(), float64(time.Millisecond), base.Median())}, err
}

// logLoading starts every server with its own append-only file, on one core.
func (e *Env) logLoading(contenders []Contender) (report.Figure, error) {
	commands := e.ManyKeys / 2
	took := map[string]report.Sample{}
	start := Start{Args: append(logArguments[:len(logArguments):len(logArguments)], "--appendfsync", "no")}
	err := e.alternate(contenders, func(c Contender, _ int) error {
		began := time.Now()
		writer, err := e.Begin(c, start)
		if err != nil {
			return err
		}
		idle := time.Since(began)
		defer os.RemoveAll(writer.Dir)
		err = writer.Fill(fill(commands, 0, setWords...))
		if err == nil {
			err = writer.shutDown()
		}
		writer.Stop()
		if err != nil {
			return err
		}
		again := start
		again.Dir, again.Wait = writer.Dir, 10*time.Minute
		began = time.Now()
		reader, err := e.Begin(c, again)
		if err != nil {
			return err
		}
		defer reader.Stop()
		took[c.Name] = append(took[c.Name], float64(time.Since(began)-idle))
		count, err := reader.Do("DBSIZE")
		if err == nil && count.Int != int64(commands) {
			err = fmt.Errorf("%d keys after loading %d commands", count.Int, commands)
		}
		return err
	})
	base, ours := took[e.Reference.Name], took["spindle"]
	share := ours.Ratio(base)
	return report.Figure{What: fmt.Sprintf("loading an increment of %s SETs, one core",
		report.Thousands(float64(commands))), Target: "≥ 2 × redis's speed",
		Reference: base.Text(report.Duration), Ours: ours.Text(report.Duration) + ", " + report.Times(1/share),
		Verdict: report.Judge(share, 0.5, 1)}, err
}

// shutDown shuts the server down with SHUTDOWN, so that its file is complete. The caller then calls [Server.Stop].
func (s *Server) shutDown() error {
	_, _ = s.Client.Do("SHUTDOWN", "NOSAVE") // its reply is the closed connection
	select {
	case exit := <-s.done:
		s.done <- exit
		return nil
	case <-time.After(time.Minute):
		return fmt.Errorf("%s did not end within a minute", s.Name)
	}
}
