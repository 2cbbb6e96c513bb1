package scenarios

import (
	"fmt"
	"syscall"
	"time"

	"spindle/bench/load"
	"spindle/bench/report"
)

// connections compares 1,000 busy connections alone and beside 10,000 idle ones.
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
	contenders = append(contenders[:len(contenders)-1], e.Ours().With("spindle", "--reactor-backend", "gnet"), e.Ours().With("spindle epoll", "--reactor-backend", "epoll"))
	for i := range contenders {
		contenders[i] = contenders[i].With(contenders[i].Name, "--maxclients", fmt.Sprint(idle+busy+100))
	}
	s := e.section("connections", contenders,
		fmt.Sprintf("%s connections that have never said anything, and %s that ask GET and SET 1:1 in a closed loop without pipelining. Warmed up for %v, counted for %v.", report.Thousands(float64(idle)), report.Thousands(float64(busy)), e.Warmup, e.Duration),
		"Memory of an idle connection is what the server's own resident memory grew by; the kernel's socket buffers are not in it.")
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
		// Nothing of the busy ones may be in the idle ones' memory: the idle come first.
		used0, err := server.number("used_memory")
		if err != nil {
			return err
		}
		rss0 := server.RSS()
		crowd, err := server.StartLoad(load.Spec{Connections: 1, Rate: 1, Duration: time.Hour, Idle: idle, Mix: []load.Command{load.Request("PING")}})
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
		x.beside, x.cpuBeside, x.p99Beside = append(x.beside, r.PerSecond()), append(x.cpuBeside, r.NanosPerRequest()), append(x.p99Beside, float64(r.Latency.Percentile(99)))
		crowd.Abandon()
		left = true
		if err := connected(func(n int64) bool { return n < 10 }); err != nil {
			return err
		}
		if r, err = server.Load(spec); err != nil {
			return err
		}
		x.alone, x.cpuAlone, x.p99Alone = append(x.alone, r.PerSecond()), append(x.cpuAlone, r.NanosPerRequest()), append(x.p99Alone, float64(r.Latency.Percentile(99)))
		return nil
	})
	if err != nil {
		return nil, err
	}
	t := report.Table{Columns: append([]string{"server", "RSS/idle conn.", "used_memory/idle conn.", "requests/s alone", "beside idle", "CPU µs alone", "beside idle", "p99 µs alone", "beside idle"}, append(sightColumns, "verdict")...)}
	base := costs[e.Reference.Name]
	for i, c := range contenders {
		x, verdict := costs[c.Name], ""
		if i > 0 && c.Kind == Spindle && (x.cpuBeside.Ratio(base.cpuBeside) > 1 || x.rss.Median() > base.rss.Median()) {
			verdict = string(report.Lost)
		}
		t.Rows = append(t.Rows, append([]string{c.Name, x.rss.Text(report.Thousands), x.used.Text(report.Thousands), x.alone.Short(report.Thousands), x.beside.Text(report.Thousands),
			x.cpuAlone.Short(report.Micros), x.cpuBeside.Text(report.Micros), x.p99Alone.Short(report.Micros), x.p99Beside.Short(report.Micros)}, append(x.cells(), verdict)...))
	}
	t.Notes = []string{"Lost here: more CPU a request beside the idle ones, or more resident memory for each of them."}
	s.Tables = append(s.Tables, t)
	return s, nil
}
