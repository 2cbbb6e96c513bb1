package scenarios

import (
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"spindle/bench/load"
	"spindle/bench/process"
	"spindle/bench/report"
)

// A workload is a request whose cost is measured.
type workload struct {
	name  string
	words []string
}

// workloads has the requests with a target in the design, and two similar ones. INCR has its own keys, which hold
// numbers.
var workloads = []workload{
	{"GET", []string{"GET", "{key}"}},
	{"SET", setWords},
	{"INCR", []string{"INCR", "n{key}"}},
	{"MSET", msetWords(10)},
}

func msetWords(n int) []string {
	words := []string{"MSET"}
	for range n {
		words = append(words, "{key}", "{value:32}")
	}
	return words
}

var pipelines = []int{1, 16, 64}

// A cell is one workload at one depth. A cost has the figures of all its runs.
type cell struct {
	workload string
	pipeline int
}

type cost struct {
	cpu, rps, p50, p99, p999, max report.Sample
	server, load                  report.Sample
}

// add adds the slices of one run. There is one latency per run, and one value per slice of everything else.
func (c *cost) add(slices []load.Result) {
	var latency load.Histogram
	for i := range slices {
		r := &slices[i]
		c.cpu = append(c.cpu, r.NanosPerRequest())
		c.rps = append(c.rps, r.PerSecond())
		c.server = append(c.server, r.ServerShare())
		c.load = append(c.load, r.LoadShare())
		latency.Merge(&r.Latency)
	}
	c.p50 = append(c.p50, float64(latency.Percentile(50)))
	c.p99 = append(c.p99, float64(latency.Percentile(99)))
	c.p999 = append(c.p999, float64(latency.Percentile(99.9)))
	c.max = append(c.max, float64(latency.Max()))
}

// A matrix has all costs, by contender and cell.
type matrix map[string]map[cell]*cost

func (m matrix) at(contender string, c cell) *cost {
	if m[contender] == nil {
		m[contender] = map[cell]*cost{}
	}
	if m[contender][c] == nil {
		m[contender][c] = &cost{}
	}
	return m[contender][c]
}

func throughput(e *Env) (*report.Section, error) {
	contenders := append(append([]Contender{e.Reference}, e.Also...), e.Backends()...)
	s := e.section("throughput", contenders,
		fmt.Sprintf("Closed loop, 50 connections, %s keys of 16 bytes asked for uniformly, values of 32 bytes; MSET sets "+
			"10 keys.", report.Thousands(float64(e.Keys))),
		"Each run starts and fills fresh servers. "+e.slicesText())
	m, err := e.measure(contenders, workloads, pipelines, nil)
	if err != nil {
		return nil, err
	}
	for _, p := range pipelines {
		s.Tables = append(s.Tables, e.costTable(m, contenders, workloads, p))
	}
	s.Figures = e.costFigures(m)
	return s, e.costPlots(s, m, contenders)
}

// measure runs every cell on every contender, Runs times.
func (e *Env) measure(contenders []Contender, workloads []workload, pipelines []int,
	cpus *process.CPUs) (matrix, error) {
	m := matrix{}
	fills := func(s *Server) error {
		if err := s.Fill(fill(e.Keys, 0, setWords...)); err != nil {
			return err
		}
		return s.Fill(fill(e.Keys, 0, "SET", "n{key}", "{number}"))
	}
	cells := e.cells(len(workloads), func(i int) string { return workloads[i].name }, pipelines)
	ready := func(_ *Server, at int) (load.Spec, error) {
		return load.Spec{Connections: 50, Pipeline: cells[at][1], Warmup: e.Warmup, Duration: e.Duration,
			Mix: []load.Command{load.Request(workloads[cells[at][0]].words...)}, Keys: load.KeySpace{Count: e.Keys}}, nil
	}
	return m, e.sideBySide(contenders, Start{CPUs: cpus}, fills, len(cells), ready,
		func(s *Server, at int, slices []load.Result) error {
			m.at(s.Name, cell{workloads[cells[at][0]].name, cells[at][1]}).add(slices)
			return nil
		})
}

// slicesText returns a description of how sideBySide measures.
func (e *Env) slicesText() string {
	slices := e.slices()
	return fmt.Sprintf("All servers run at once and are measured cell by cell, in slices that take turns: %d of %v for "+
		"each of them in a run, the first after %v of warm-up, the others after %v. CPU, its spread and its ratio are of "+
		"slices: a ratio is the median of the ratios of slices that followed each other. The CPU is all that a server used "+
		"from the end of its slice before, over all requests since.",
		slices.Count, e.Duration/time.Duration(slices.Count), e.Warmup, min(e.Warmup, slices.Settle))
}

// cells returns the pairs of a workload's index and a depth that were requested, workload by workload.
func (e *Env) cells(n int, name func(int) string, pipelines []int) (cells [][2]int) {
	for i := range n {
		for _, p := range pipelines {
			if e.Only == nil || e.Only.MatchString(fmt.Sprint(name(i), " ", p)) {
				cells = append(cells, [2]int{i, p})
			}
		}
	}
	return cells
}

// costTable compares the contenders at one pipeline depth. The first contender is the base of comparison.
func (e *Env) costTable(m matrix, contenders []Contender, workloads []workload, pipeline int) report.Table {
	t := report.Table{Title: fmt.Sprintf("Pipeline %d", pipeline),
		Columns: []string{"command", "server", "CPU µs/request", "× redis", "requests/s", "p50 µs", "p99", "p99.9", "max",
			"server busy", "load busy", "verdict"}}
	for _, w := range workloads {
		at := cell{w.name, pipeline}
		base := m.at(contenders[0].Name, at)
		if len(base.cpu) == 0 {
			continue // not requested
		}
		for i, c := range contenders {
			x := m.at(c.Name, at)
			ratio := x.cpu.Ratio(base.cpu)
			server, busy := report.Percent(x.server.Median()), report.Percent(x.load.Median())
			switch {
			case x.load.Median() > 0.95:
				busy += " ⚠"
			case x.server.Median() < 0.9 && len(e.ServerCPUs) > 0: // other processes used the cores
				server += " ⚠"
			}
			verdict := ""
			if i > 0 && c.Kind == Spindle && ratio > 1 {
				verdict = string(report.Lost)
			}
			t.Rows = append(t.Rows, []string{w.name, c.Name, x.cpu.Text(report.Micros), report.Number(ratio),
				x.rps.Text(report.Thousands),
				x.p50.Short(report.Micros), x.p99.Short(report.Micros), x.p999.Short(report.Micros), x.max.Short(report.Micros),
				server, busy, verdict})
		}
	}
	return t
}

// A costTarget is a target of the design, as a share of the reference's CPU time.
type costTarget struct {
	pipeline int
	server   string
	get, set float64
}

// costTargets and costTargetsValkey have the targets beside Redis and beside Valkey.
var (
	costTargets = []costTarget{{64, "spindle gnet", 0.33, 0.33}, {16, "spindle gnet", 0.45, 0.45},
		{1, "spindle gnet", 0.92, 0.92}, {1, "spindle epoll", 0.92, 0.92}}
	costTargetsValkey = []costTarget{{64, "spindle gnet", 0.55, 0.40}, {16, "spindle gnet", 0.75, 0.60},
		{1, "spindle gnet", 0.92, 0.92}, {1, "spindle io_uring", 0.70, 0.70}}
)

func (e *Env) costFigures(m matrix) (figures []report.Figure) {
	targets := costTargets
	if e.Reference.Name == "valkey" {
		targets = costTargetsValkey
	}
	for _, target := range targets {
		for _, w := range []string{"GET", "SET"} {
			share := target.get
			if w == "SET" {
				share = target.set
			}
			at := cell{w, target.pipeline}
			base, ours := m.at(e.Reference.Name, at), m.at(target.server, at)
			ratio := ours.cpu.Ratio(base.cpu)
			figures = append(figures, report.Figure{
				What:      fmt.Sprintf("CPU per %s, pipeline %d, %s", w, target.pipeline, target.server),
				Target:    fmt.Sprintf("≤ %.2f × redis", share),
				Reference: base.cpu.Text(report.Micros) + " µs",
				Ours:      fmt.Sprintf("%s µs, %s ×", ours.cpu.Text(report.Micros), report.Number(ratio)),
				Verdict:   report.Judge(ratio, share, 1),
			})
		}
	}
	return figures
}

func (e *Env) costPlots(s *report.Section, m matrix, contenders []Contender) error {
	for _, p := range pipelines {
		var groups []string
		for _, w := range workloads {
			groups = append(groups, w.name)
		}
		var lines []report.Line
		for _, c := range contenders {
			line := report.Line{Name: c.Name}
			for _, w := range workloads {
				line.Y = append(line.Y, m.at(c.Name, cell{w.name, p}).cpu.Median()/1e3)
			}
			lines = append(lines, line)
		}
		title := "CPU per request at pipeline " + strconv.Itoa(p)
		err := e.plot(s, "cpu-p"+strconv.Itoa(p), title, func(file string) error {
			return report.Bars(file, title, "µs", groups, lines)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// plot draws one picture and adds it to the section, unless pictures are disabled.
func (e *Env) plot(s *report.Section, name, caption string, draw func(file string) error) error {
	if e.PlotDir == "" {
		return nil
	}
	name += "." + e.PlotForm
	if err := draw(filepath.Join(e.PlotDir, name)); err != nil {
		return fmt.Errorf("plot %s: %w", name, err)
	}
	s.Plots = append(s.Plots, report.Plot{File: e.PlotBase + "/" + name, Caption: caption})
	return nil
}

// ioThreads lets the server and the load use all cores, because a second thread on one core can only cost more.
func ioThreads(e *Env) (*report.Section, error) {
	var contenders []Contender
	for _, n := range []string{"1", "2"} {
		contenders = append(contenders, e.Reference.With("redis io-threads "+n, "--io-threads", n,
			"--io-threads-do-reads", "yes"))
	}
	for _, n := range []string{"1", "2"} {
		for _, backend := range []string{"gnet", "epoll", "netpoll"} {
			contenders = append(contenders, e.Ours().With("spindle "+backend+" io-threads "+n, "--reactor-backend", backend,
				"--io-threads", n))
		}
	}
	free := *e
	free.ServerCPUs, free.LoadCPUs = nil, nil
	s := free.section("io-threads", contenders,
		"Server and load share all cores: on a machine of two the load takes its part of both, so these figures compare "+
			"servers with each other and are no server's best.",
		"Closed loop, 50 connections. "+e.slicesText())
	m, err := free.measure(contenders, workloads[:2], pipelines, &free.ServerCPUs)
	if err != nil {
		return nil, err
	}
	for _, p := range pipelines {
		s.Tables = append(s.Tables, free.costTable(m, contenders, workloads[:2], p))
	}
	return s, nil
}
