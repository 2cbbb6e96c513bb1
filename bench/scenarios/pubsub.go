package scenarios

import (
	"fmt"
	"strings"
	"time"

	"spindle/bench/load"
	"spindle/bench/report"
)

// An audience is a number of subscribers of one channel, with limits for the cost of PUBLISH.
type audience struct {
	subscribers, publishers int
	limit                   map[int]float64 // by depth
}

// audiences have as many publishers as a server on one core can serve. With many subscribers there are few publishers,
// so that most of the time is spent on receivers.
var audiences = []audience{
	{0, 50, map[int]float64{1: 0.95, 16: 0.60}},
	{1, 50, map[int]float64{1: 0.95, 16: 0.60}},
	{100, 4, map[int]float64{1: 0.95, 16: 0.60}},
	{10_000, 1, map[int]float64{1: 0.95, 16: 0.60}},
}

func (a *audience) name() string {
	return "PUBLISH to " + report.Thousands(float64(a.subscribers))
}

// crowd is the number of subscribers for which servers are measured one after the other. The load's process cannot open
// enough connections for all servers at once.
const crowd = 5000

const channel = "channel:of:bench"

// pubsub measures the cost of PUBLISH by the number of subscribers. It also measures the memory of a subscriber beyond
// its connection.
func pubsub(e *Env) (*report.Section, error) {
	contenders := e.Pair()
	for i := range contenders {
		contenders[i] = contenders[i].With(contenders[i].Name, "--maxclients", "11000")
	}
	s := e.section("pubsub", contenders,
		"PUBLISH of 32 bytes. A publisher's next batch goes out when all subscribers have had the last one. The CPU of a "+
			"request is that of the command and all its deliveries.",
		"Each run starts fresh servers. "+e.slicesText()+" With 10,000 subscribers servers are measured one after the other.",
		"The memory of a subscriber is that of 10,000 subscribers while they hear messages, less that of 10,000 "+
			"connections that have said nothing.")
	var all []workload
	for i := range audiences {
		all = append(all, workload{audiences[i].name(), []string{"PUBLISH", channel, "{value:32}"}})
	}
	m, depths := matrix{}, []int{1, 16}
	spec := func(c [2]int) load.Spec {
		a := &audiences[c[0]]
		return load.Spec{Connections: a.publishers, Pipeline: c[1], Warmup: e.Warmup, Duration: e.Duration,
			Listeners: a.subscribers, ListenTo: []string{"SUBSCRIBE", channel},
			Mix: []load.Command{load.Request(all[c[0]].words...)}}
	}
	seen := func(server *Server, c [2]int, results []load.Result) {
		m.at(server.Name, cell{all[c[0]].name, c[1]}).add(results)
	}
	var together, apart [][2]int
	for _, c := range e.cells(len(all), func(i int) string { return all[i].name }, depths) {
		if audiences[c[0]].subscribers > crowd {
			apart = append(apart, c)
		} else {
			together = append(together, c)
		}
	}
	none := func(*Server) error { return nil }
	ready := func(_ *Server, at int) (load.Spec, error) { return spec(together[at]), nil }
	err := e.sideBySide(contenders, Start{}, none, len(together), ready,
		func(server *Server, at int, results []load.Result) error {
			seen(server, together[at], results)
			return nil
		})
	if err != nil {
		return nil, err
	}
	for _, at := range apart {
		err := e.alternate(contenders, func(c Contender, _ int) error {
			server, err := e.Begin(c, Start{})
			if err != nil {
				return err
			}
			defer server.End()
			r, err := server.Load(spec(at))
			if err == nil {
				seen(server, at, []load.Result{*r})
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for _, p := range depths {
		s.Tables = append(s.Tables, e.costTable(m, contenders, all, p))
	}
	for i, w := range all {
		for _, p := range depths {
			s.Figures = append(s.Figures, m.figure(contenders[0].Name, "spindle", cell{w.name, p},
				fmt.Sprintf("CPU of %s subscribers, pipeline %d", strings.TrimSpace(w.name), p), audiences[i].limit[p]))
		}
	}
	return s, e.subscriberMemory(s, contenders)
}

// subscriberMemory measures the memory of 10,000 subscribers beyond their connections.
func (e *Env) subscriberMemory(s *report.Section, contenders []Contender) error {
	const subscribers = 10_000
	silent := load.Spec{Connections: 1, Rate: 1, Duration: time.Hour, Idle: subscribers,
		Mix: []load.Command{load.Request("PING")}}
	hearing := load.Spec{Connections: 1, Duration: time.Hour, Listeners: subscribers,
		ListenTo: []string{"SUBSCRIBE", channel},
		Mix:      []load.Command{load.Request("PUBLISH", channel, "{value:32}")}}
	grown := map[string]report.Sample{}
	err := e.alternate(contenders, func(c Contender, _ int) error {
		without, err := e.memoryUnder(c, silent)
		if err != nil {
			return err
		}
		with, err := e.memoryUnder(c, hearing)
		grown[c.Name] = append(grown[c.Name], float64(with-without)/subscribers)
		return err
	})
	if err != nil {
		return err
	}
	base, ours := grown[e.Reference.Name], grown["spindle"]
	s.Figures = append(s.Figures, report.Figure{What: "memory of a subscriber beyond its connection", Target: "≤ 2,048 B",
		Reference: base.Text(report.Thousands) + " B",
		Ours:      ours.Text(report.Thousands) + " B", Verdict: report.Judge(ours.Median(), 2048, nan)})
	return nil
}

// memoryUnder returns how much a fresh server's resident memory grows when the whole load is connected and running.
func (e *Env) memoryUnder(c Contender, spec load.Spec) (int64, error) {
	server, err := e.Begin(c, Start{})
	if err != nil {
		return 0, err
	}
	defer server.End()
	before := server.RSS()
	crowd, err := server.StartLoad(spec)
	if err != nil {
		return 0, err
	}
	defer crowd.Abandon()
	_, err = server.until(time.Minute, 100*time.Millisecond, "all connections", func() (bool, error) {
		n, err := server.number("connected_clients")
		return n >= int64(spec.Idle+spec.Listeners), err
	})
	if err != nil {
		return 0, err
	}
	time.Sleep(e.Duration)
	return server.RSS() - before, nil
}
