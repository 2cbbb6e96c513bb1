package scenarios

import (
	"fmt"
	"io"
	"net"

	"spindle/bench/load"
	"spindle/bench/report"
	"spindle/protocol/respclient"
)

// A session is a state of a connection in which GET is measured.
type session struct {
	name    string
	prelude [][]string // of each connection
	monitor bool       // a MONITOR is connected meanwhile
}

const aclRules = 1000

var manySessions = []session{
	{name: "GET"},
	{name: "GET, tracked", prelude: [][]string{{"HELLO", "3"}, {"CLIENT", "TRACKING", "ON"}}},
	{name: "GET, a user of 1,000 rules", prelude: [][]string{{"AUTH", "bench", "secret"}}},
	{name: "GET, beside a MONITOR", monitor: true},
}

// sessions measures how much a session's state adds to the cost of a GET.
func sessions(e *Env) (*report.Section, error) {
	contenders := e.Pair()
	for i := range contenders {
		contenders[i] = contenders[i].With(contenders[i].Name, "--tracking-table-max-keys", "0")
	}
	s := e.section("sessions", contenders,
		fmt.Sprintf("GET of %s keys of 16 bytes with values of 32, asked for uniformly. Closed loop, 50 connections.",
			report.Thousands(float64(e.Keys))),
		fmt.Sprintf("Tracked connections have read every key once before the counted time, and no client writes. The user "+
			"has %d rules for keys, of which the last matches.", aclRules),
		"The table's memory is what used_memory grew by when one connection read all keys.",
		"Each run starts and fills fresh servers. "+e.slicesText())
	var all []workload
	for _, x := range manySessions {
		all = append(all, workload{x.name, []string{"GET", "{key}"}})
	}
	m, depths, table := matrix{}, []int{1, 16}, map[string]report.Sample{}
	prepare := func(server *Server) error {
		if err := server.Fill(fill(e.Keys, 0, setWords...)); err != nil {
			return err
		}
		rules := []any{"ACL", "SETUSER", "bench", "on", ">secret", "+@all"}
		for i := range aclRules - 1 {
			rules = append(rules, fmt.Sprintf("~other%d:*", i))
		}
		if _, err := server.Do(append(rules, "~key:*")...); err != nil {
			return err
		}
		used, err := server.number("used_memory")
		if err != nil {
			return err
		}
		// These connections are closed again, but the tracking table keeps the keys that they have read.
		if err := server.Fill(tracked(fill(e.Keys, 0, "GET", "{key}"))); err != nil {
			return err
		}
		now, err := server.number("used_memory")
		table[server.Name] = append(table[server.Name], float64(now-used)/float64(e.Keys))
		return err
	}
	cells := e.cells(len(all), func(i int) string { return all[i].name }, depths)
	var monitors []net.Conn
	ready := func(server *Server, at int) (load.Spec, error) {
		x := &manySessions[cells[at][0]]
		spec := load.Spec{Connections: 50, Pipeline: cells[at][1], Warmup: e.Warmup, Duration: e.Duration, Prelude: x.prelude,
			Mix: []load.Command{load.Request("GET", "{key}")}, Keys: load.KeySpace{Count: e.Keys}}
		if !x.monitor {
			return spec, nil
		}
		c, err := server.monitor()
		monitors = append(monitors, c)
		return spec, err
	}
	err := e.sideBySide(contenders, Start{}, prepare, len(cells), ready,
		func(server *Server, at int, seen []load.Result) error {
			for _, c := range monitors {
				c.Close()
			}
			monitors = nil
			m.at(server.Name, cell{all[cells[at][0]].name, cells[at][1]}).add(seen)
			return nil
		})
	if err != nil {
		return nil, err
	}
	for _, p := range depths {
		s.Tables = append(s.Tables, e.costTable(m, contenders, all, p))
	}
	s.Figures = append(s.Figures, m.figure(contenders[0].Name, "spindle", cell{"GET, tracked", 16},
		"CPU per GET, tracked, pipeline 16", 0.60))
	plain, ruled := m.at("spindle", cell{"GET", 16}).cpu, m.at("spindle", cell{"GET, a user of 1,000 rules", 16}).cpu
	ratio := ruled.Ratio(plain)
	s.Figures = append(s.Figures,
		report.Figure{What: "CPU per GET, a user of 1,000 rules, pipeline 16",
			Target: "≤ 1.03 × that of a user with all rights", Reference: "–",
			Ours:    fmt.Sprintf("%s µs, %s ×", ruled.Text(report.Micros), report.Number(ratio)),
			Verdict: report.Judge(ratio, 1.03, nan)},
		m.figure(contenders[0].Name, "spindle", cell{"GET, beside a MONITOR", 16},
			"CPU per GET beside a MONITOR, pipeline 16", 1))
	base, ours := table[e.Reference.Name], table["spindle"]
	share := ours.Ratio(base)
	s.Figures = append(s.Figures, report.Figure{What: fmt.Sprintf("memory of a tracked key, %s keys, one client",
		report.Thousands(float64(e.Keys))), Target: "≤ 0.8 × redis",
		Reference: base.Text(report.Number) + " B", Ours: fmt.Sprintf("%s B, %s ×", ours.Text(report.Number),
			report.Number(share)), Verdict: report.Judge(share, 0.8, 1)})
	return s, nil
}

// tracked returns spec with a single connection, which has sent CLIENT TRACKING.
func tracked(spec load.Spec) load.Spec {
	spec.Connections, spec.Prelude = 1, [][]string{{"HELLO", "3"}, {"CLIENT", "TRACKING", "ON"}}
	return spec
}

// monitor opens a connection that runs MONITOR, and drops the received lines until it is closed.
func (s *Server) monitor() (net.Conn, error) {
	c, err := net.Dial("tcp", s.Address)
	if err != nil {
		return nil, err
	}
	client := respclient.New(c)
	v, err := client.Do("MONITOR")
	if err == nil {
		err = v.Err()
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	go func() { _, _ = io.Copy(io.Discard, c) }() // until it is closed
	return c, nil
}
