package scenarios

import (
	"fmt"
	"net"
	"syscall"
	"time"

	"spindle/bench/load"
	"spindle/bench/process"
	"spindle/bench/report"
)

// connections compares 1,000 busy connections with and without 10,000 idle ones.
func connections(e *Env) (*report.Section, error) {
	idle, busy := 10_000, 1_000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil, err
	}
	if room := int(limit.Max) - busy - 500; room < idle {
		idle = max(0, room)
	}
	contenders := e.Pair()
	contenders = append(contenders[:len(contenders)-1], e.Ours().With("spindle", "--reactor-backend", "gnet"),
		e.Ours().With("spindle epoll", "--reactor-backend", "epoll"))
	for i := range contenders {
		contenders[i] = contenders[i].With(contenders[i].Name, "--maxclients", fmt.Sprint(idle+busy+100))
	}
	s := e.section("connections", contenders,
		fmt.Sprintf("%s connections that have never said anything, and %s that ask GET and SET 1:1 in a closed loop "+
			"without pipelining. Warmed up for %v, counted for %v.", report.Thousands(float64(idle)),
			report.Thousands(float64(busy)), e.Warmup, e.Duration),
		"Memory of an idle connection is what the server's own resident memory grew by; the kernel's socket buffers are "+
			"not in it.")
	type cost struct {
		sights
		rss, used, alone, beside, cpuAlone, cpuBeside, p99Alone, p99Beside report.Sample
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
		if err := server.Fill(fill(e.Keys, 0, setWords...)); err != nil {
			return err
		}
		spec := load.Spec{Connections: busy, Warmup: e.Warmup, Duration: e.Duration, Keys: load.KeySpace{Count: e.Keys},
			Mix: []load.Command{load.Request("GET", "{key}"), load.Request(setWords...)}}
		// The idle connections come first, so that their measured memory includes nothing of the busy ones.
		used0, err := server.number("used_memory")
		if err != nil {
			return err
		}
		rss0 := server.RSS()
		crowd, err := server.StartLoad(load.Spec{Connections: 1, Rate: 1, Duration: time.Hour, Idle: idle,
			Mix: []load.Command{load.Request("PING")}})
		if err != nil {
			return err
		}
		left := false
		defer func() {
			if !left {
				crowd.Abandon()
			}
		}()
		connected := func(want func(int64) bool) error {
			_, err := server.until(time.Minute, 100*time.Millisecond, "all connections", func() (bool, error) {
				n, err := server.number("connected_clients")
				return want(n), err
			})
			return err
		}
		if err := connected(func(n int64) bool { return n >= int64(idle) }); err != nil {
			return err
		}
		used1, err := server.number("used_memory")
		if err != nil {
			return err
		}
		x.rss = append(x.rss, float64(server.RSS()-rss0)/float64(max(1, idle)))
		x.used = append(x.used, float64(used1-used0)/float64(max(1, idle)))
		w, err := server.watch(load.KeySpace{Count: e.Keys})
		if err != nil {
			return err
		}
		defer w.abandon()
		r, err := server.Load(spec)
		if err != nil {
			return err
		}
		sight, err := w.end()
		if err != nil {
			return err
		}
		x.add(sight)
		x.beside, x.cpuBeside, x.p99Beside = append(x.beside, r.PerSecond()), append(x.cpuBeside, r.NanosPerRequest()),
			append(x.p99Beside, float64(r.Latency.Percentile(99)))
		crowd.Abandon()
		left = true
		if err := connected(func(n int64) bool { return n < 10 }); err != nil {
			return err
		}
		if r, err = server.Load(spec); err != nil {
			return err
		}
		x.alone, x.cpuAlone, x.p99Alone = append(x.alone, r.PerSecond()), append(x.cpuAlone, r.NanosPerRequest()),
			append(x.p99Alone, float64(r.Latency.Percentile(99)))
		return nil
	})
	if err != nil {
		return nil, err
	}
	t := report.Table{Columns: append([]string{"server", "RSS/idle conn.", "used_memory/idle conn.", "requests/s alone",
		"beside idle", "CPU µs alone", "beside idle", "p99 µs alone", "beside idle"}, append(sightColumns, "verdict")...)}
	base := costs[e.Reference.Name]
	for i, c := range contenders {
		x, verdict := costs[c.Name], ""
		if i > 0 && c.Kind == Spindle && (x.cpuBeside.Ratio(base.cpuBeside) > 1 || x.rss.Median() > base.rss.Median()) {
			verdict = string(report.Lost)
		}
		t.Rows = append(t.Rows, append([]string{c.Name, x.rss.Text(report.Thousands), x.used.Text(report.Thousands),
			x.alone.Short(report.Thousands), x.beside.Text(report.Thousands),
			x.cpuAlone.Short(report.Micros), x.cpuBeside.Text(report.Micros), x.p99Alone.Short(report.Micros),
			x.p99Beside.Short(report.Micros)}, append(x.cells(), verdict)...))
	}
	t.Notes = []string{"Lost here: more CPU a request beside the idle ones, or more resident memory for each of them."}
	s.Tables = append(s.Tables, t)
	return s, e.newConnections(s, contenders)
}

// newcomers is the number of connections that are opened one after the other.
const newcomers = 20_000

// newConnections measures connections that send one PING: their cost, and the time to the first reply while other
// clients are served.
func (e *Env) newConnections(s *report.Section, contenders []Contender) error {
	cpu, p99, longest := map[string]report.Sample{}, map[string]report.Sample{}, map[string]report.Sample{}
	err := e.alternate(contenders, func(c Contender, _ int) error {
		server, err := e.Begin(c, Start{})
		if err != nil {
			return err
		}
		defer server.End()
		if err := server.Fill(fill(e.Keys, 0, setWords...)); err != nil {
			return err
		}
		before, err := process.CPUTime(server.PID)
		if err != nil {
			return err
		}
		if _, err := server.firstReplies(newcomers); err != nil {
			return err
		}
		after, err := process.CPUTime(server.PID)
		if err != nil {
			return err
		}
		cpu[c.Name] = append(cpu[c.Name], float64(after-before)/newcomers)
		others, err := server.StartLoad(load.Spec{Connections: 50, Rate: 20_000, Duration: time.Hour,
			Mix: []load.Command{load.Request("GET", "{key}")}, Keys: load.KeySpace{Count: e.Keys}})
		if err != nil {
			return err
		}
		defer others.Abandon()
		time.Sleep(e.Warmup)
		took, err := server.firstReplies(newcomers / 10)
		if err != nil {
			return err
		}
		p99[c.Name] = append(p99[c.Name], float64(took.Percentile(99)))
		longest[c.Name] = append(longest[c.Name], float64(took.Max()))
		return nil
	})
	if err != nil {
		return err
	}
	t := report.Table{Title: "New connections: connect, PING, close",
		Columns: []string{"server", "CPU µs", "× redis", "first reply beside 20,000 GETs a second: p99 µs", "max"}}
	base := cpu[e.Reference.Name]
	for _, c := range contenders {
		t.Rows = append(t.Rows, []string{c.Name, cpu[c.Name].Text(report.Micros), report.Number(cpu[c.Name].Ratio(base)),
			p99[c.Name].Text(report.Micros), longest[c.Name].Text(report.Micros)})
	}
	t.Notes = []string{fmt.Sprintf("%s connections, one after the other, and a tenth of them beside the GETs. The time "+
		"is from the begin of connecting to the reply.", report.Thousands(newcomers))}
	s.Tables = append(s.Tables, t)
	ours := p99["spindle"]
	s.Figures = append(s.Figures, report.Figure{What: "first reply of a new connection beside others, p99",
		Target: "≤ 1 ms", Reference: p99[e.Reference.Name].Text(report.Duration),
		Ours: ours.Text(report.Duration), Verdict: report.Judge(ours.Median(), 1e6, nan)})
	return nil
}

// firstReplies opens n connections one after the other, and returns the times to their first replies.
func (s *Server) firstReplies(n int) (took load.Histogram, err error) {
	reply := make([]byte, 16)
	for range n {
		began := time.Now()
		c, err := net.Dial("tcp", s.Address)
		if err != nil {
			return took, err
		}
		if _, err = c.Write([]byte("PING\r\n")); err == nil {
			_, err = c.Read(reply)
		}
		took.Record(time.Since(began), 1)
		if c.Close(); err != nil {
			return took, fmt.Errorf("%s: a new connection: %w", s.Name, err)
		}
	}
	return took, nil
}
