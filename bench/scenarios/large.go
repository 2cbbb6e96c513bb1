package scenarios

import (
	"fmt"
	"math/rand/v2"
	"time"

	"spindle/bench/load"
	"spindle/bench/report"
)

// A largeCase is a load on one large value.
type largeCase struct {
	name        string
	prepare     func(*Server) error
	mix         []load.Command
	members     uint64
	requests    int64 // requests to send; 0 means as many as there is time for
	connections int
}

// overlap determines the common part of two sets: one element in overlap is in both.
const overlap = 100

func largeCases(e *Env) []largeCase {
	n, few := elements(e.ManyKeys), elements(e.Keys)
	big := func(name string) func(*Server) error {
		return func(s *Server) error { return s.fillCollection(collectionOf(name), "big", 0, n) }
	}
	in := func(what string) string { return fmt.Sprintf("%s in %s", what, report.Thousands(float64(n))) }
	stream := func(s *Server) error {
		if err := big("stream")(s); err != nil {
			return err
		}
		_, err := s.Do("XGROUP", "CREATE", "big", "g", "0")
		return err
	}
	return []largeCase{
		{name: in("ZRANK"), prepare: big("zset"), mix: []load.Command{load.Request("ZRANK", "big", member)}, members: n,
			connections: 50},
		{name: in("ZRANGE of 10 by rank"), prepare: big("zset"),
			mix:     anywhere(n, func(at string, end string) load.Command { return load.Request("ZRANGE", "big", at, end) }),
			members: n, connections: 50},
		{name: in("LINDEX"), prepare: big("list"), mix: anywhere(n,
			func(at string, _ string) load.Command { return load.Request("LINDEX", "big", at) }), members: n, connections: 50},
		{name: in("LRANGE of 10"), prepare: big("list"),
			mix:     anywhere(n, func(at string, end string) load.Command { return load.Request("LRANGE", "big", at, end) }),
			members: n, connections: 50},
		{name: fmt.Sprintf("SINTER of two sets of %s, %s in both", report.Thousands(float64(few)),
			report.Thousands(float64(few/overlap))), connections: 1, prepare: func(s *Server) error {
			set := collectionOf("set")
			if err := s.fillCollection(set, "a", 0, few); err != nil {
				return err
			}
			return s.fillCollection(set, "b", few-few/overlap, few)
		}, mix: []load.Command{load.Request("SINTER", "a", "b")}, members: 1},
		{name: "BITCOUNT of " + report.Megabytes(float64(e.bigString())), connections: 1,
			prepare: func(s *Server) error { return s.setBig("big", e.bigString()) },
			mix:     []load.Command{load.Request("BITCOUNT", "big")}, members: 1},
		{name: "XADD to " + report.Thousands(float64(n)), prepare: big("stream"),
			mix: []load.Command{load.Request("XADD", "big", "*", "f", member)}, members: n, connections: 50},
		{name: in("XREADGROUP of 10"), prepare: stream, mix: []load.Command{load.Request("XREADGROUP", "GROUP", "g",
			"{member}", "COUNT", "10", "STREAMS", "big", ">")},
			members: 100, requests: int64(max(1, n/20)), connections: 50}, // half of the entries, for a hundred consumers
	}
}

// anywhere returns requests for ten elements at random places among n. The places are the same on every server.
func anywhere(n uint64, request func(at, end string) load.Command) (mix []load.Command) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 256 {
		at := rng.Uint64N(max(1, n-10))
		mix = append(mix, request(fmt.Sprint(at), fmt.Sprint(at+9)))
	}
	return mix
}

// bigString returns the length of the longest string: Redis's maximum, or less in a trial with few keys.
func (e *Env) bigString() int {
	if e.ManyKeys < 100_000 {
		return 1 << 20
	}
	return bigString
}

// large measures costs that depend on the size of a value.
func large(e *Env) (*report.Section, error) {
	contenders := e.Pair()
	s := e.section("large", contenders,
		"A fresh server is filled with one value, elements of 14 bytes. Closed loop, no pipelining, 50 connections, 1 for "+
			"SINTER and BITCOUNT. Ranks, places and members are all over the value, the same for every server.",
		fmt.Sprintf("Warmed up for %v, counted for %v; XREADGROUP instead reads half of the stream once.",
			e.Warmup, e.Duration))
	cases := largeCases(e)
	m := matrix{}
	err := e.alternate(contenders, func(c Contender, _ int) error {
		for i := range cases {
			r, err := e.largeOnce(c, &cases[i])
			if err != nil {
				return fmt.Errorf("%s: %w", cases[i].name, err)
			}
			m.at(c.Name, cell{cases[i].name, 1}).add([]load.Result{*r})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var all []workload
	for i := range cases {
		all = append(all, workload{name: cases[i].name})
		at := cell{cases[i].name, 1}
		base, ours := m.at(e.Reference.Name, at).cpu, m.at("spindle", at).cpu
		ratio := ours.Ratio(base)
		s.Figures = append(s.Figures, report.Figure{What: "CPU per request, " + cases[i].name, Target: "≤ 1 × redis",
			Reference: base.Text(report.Micros) + " µs",
			Ours:      fmt.Sprintf("%s µs, %s ×", ours.Text(report.Micros), report.Number(ratio)),
			Verdict:   report.Judge(ratio, 1, 1)})
	}
	t := e.costTable(m, contenders, all, 1)
	t.Title = "Large values"
	s.Tables = append(s.Tables, t)
	return s, nil
}

func (e *Env) largeOnce(c Contender, l *largeCase) (*load.Result, error) {
	s, err := e.Begin(c, Start{})
	if err != nil {
		return nil, err
	}
	defer s.End()
	s.Client.SetTimeout(10 * time.Minute)
	if err := l.prepare(s); err != nil {
		return nil, err
	}
	spec := load.Spec{Connections: l.connections, Warmup: e.Warmup, Duration: e.Duration, Mix: l.mix,
		Keys: load.KeySpace{Count: l.members}}
	if l.requests > 0 {
		spec.Warmup, spec.Duration, spec.Requests = 0, 0, l.requests
	}
	r, err := s.Load(spec)
	if err == nil && r.Nulls > 0 {
		err = fmt.Errorf("%s: %d of %d requests found nothing", s.Name, r.Nulls, r.Requests)
	}
	return r, err
}
