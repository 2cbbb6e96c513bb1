package scenarios

import (
	"fmt"

	"spindle/bench/load"
	"spindle/bench/report"
)

// A typeTest is one of redis-benchmark's tests, run with our load. The load sends the same requests, but a known number
// of them.
type typeTest struct {
	workload
	filled *collection // a value of this type exists before the test
	drains bool        // a request removes an element, so the value has as many as there are requests
	keys   bool        // keys exist before the test, as for throughput
}

// shortList is the length of the list for LRANGE.
const shortList = 600

// collectionOf returns the collection of a type.
func collectionOf(name string) *collection {
	for i := range collections {
		if collections[i].name == name {
			return &collections[i]
		}
	}
	return nil
}

var typeTests = func() []typeTest {
	list, set, zset := collectionOf("list"), collectionOf("set"), collectionOf("zset")
	tests := []typeTest{
		{workload: workload{"PING", []string{"PING"}}},
		{workload: workload{"SET", setWords}, keys: true},
		{workload: workload{"GET", []string{"GET", "{key}"}}, keys: true},
		{workload: workload{"INCR", []string{"INCR", "n{key}"}}, keys: true},
		{workload: workload{"LPUSH", []string{"LPUSH", "list", "{value:32}"}}},
		{workload: workload{"RPUSH", []string{"RPUSH", "list", "{value:32}"}}},
		{workload: workload{"LPOP", []string{"LPOP", "big"}}, filled: list, drains: true},
		{workload: workload{"RPOP", []string{"RPOP", "big"}}, filled: list, drains: true},
		{workload: workload{"SADD", []string{"SADD", "set", member}}},
		{workload: workload{"HSET", []string{"HSET", "hash", member, "{value:32}"}}},
		{workload: workload{"SPOP", []string{"SPOP", "big"}}, filled: set, drains: true},
		{workload: workload{"ZADD", []string{"ZADD", "zset", "{number}", member}}},
		{workload: workload{"ZPOPMIN", []string{"ZPOPMIN", "big"}}, filled: zset, drains: true},
	}
	for _, n := range []int{100, 300, 500, 600} {
		tests = append(tests, typeTest{workload: workload{fmt.Sprintf("LRANGE, first %d", n),
			[]string{"LRANGE", "big", "0", fmt.Sprint(n - 1)}}, filled: list})
	}
	return append(tests,
		typeTest{workload: workload{"MSET (10 keys)", msetWords(10)}, keys: true},
		typeTest{workload: workload{"XADD", []string{"XADD", "stream", "*", "field", "{value:32}"}}})
}()

// drainRate is a guess of how many requests a second the faster server handles, by depth. A test gets as many elements
// as it would remove at this rate.
var drainRate = map[int]float64{1: 120e3, 16: 1e6, 64: 1.5e6}

// types measures every test of redis-benchmark -q at three depths.
func types(e *Env) (*report.Section, error) {
	epoll := e.Ours().With("spindle epoll", "--reactor-backend", "epoll")
	contenders := append(e.Pair(), epoll)
	s := e.section("types", contenders,
		fmt.Sprintf("The tests of `redis-benchmark -q`, sent by our load: closed loop, 50 connections, keys and members "+
			"from %s, values of 32 bytes. LRANGE reads a list of %d elements of 14 bytes.",
			report.Thousands(float64(e.Keys)), shortList),
		"Each run starts fresh servers. "+e.slicesText()+
			" Every cell begins with an empty keyspace and nothing left to be freed. LPOP, RPOP, SPOP and ZPOPMIN take all of "+
			"a value instead, as large as the fastest server might take in that time, a part of it a slice; what they take in "+
			"a slice's first "+sliceSettle.String()+" is not counted.")
	m := matrix{}
	none := func(*Server) error { return nil }
	cells := e.cells(len(typeTests), func(i int) string { return typeTests[i].name }, pipelines)
	ready := func(server *Server, at int) (load.Spec, error) {
		return server.readyTypeTest(&typeTests[cells[at][0]], cells[at][1])
	}
	err := e.sideBySide(contenders, Start{}, none, len(cells), ready,
		func(server *Server, at int, slices []load.Result) error {
			t, p := &typeTests[cells[at][0]], cells[at][1]
			for i := range slices {
				if n := slices[i].Nulls; t.drains && n > 0 {
					return fmt.Errorf("%s: %s at pipeline %d: %d requests found nothing to take", server.Name, t.name, p, n)
				}
			}
			m.at(server.Name, cell{t.name, p}).add(slices)
			return nil
		})
	if err != nil {
		return nil, err
	}
	var all, single []workload
	for _, t := range typeTests {
		all = append(all, t.workload)
		if t.isSingle() {
			single = append(single, t.workload)
		}
	}
	for _, p := range pipelines {
		s.Tables = append(s.Tables, e.costTable(m, contenders, all, p))
		for _, ours := range []string{"spindle", epoll.Name} {
			s.Figures = append(s.Figures, typeFigure(m, contenders[0].Name, ours, "any type's test", all, p, 1))
		}
	}
	for _, ours := range []string{"spindle", epoll.Name} {
		s.Figures = append(s.Figures, typeFigure(m, contenders[0].Name, ours, "any command on one element", single, 16, 0.6))
	}
	return s, nil
}

// isSingle reports whether a request is about one key and one element. PING has none, and LRANGE and MSET have many.
func (t *typeTest) isSingle() bool {
	return t.words[0] != "PING" && t.words[0] != "LRANGE" && t.words[0] != "MSET"
}

// readyTypeTest prepares the server for one cell and returns the cell's load.
func (s *Server) readyTypeTest(t *typeTest, pipeline int) (spec load.Spec, err error) {
	e := s.env
	if _, err := s.Do("FLUSHALL"); err != nil {
		return spec, err
	}
	if err := s.untilFreed(); err != nil { // otherwise this cell would be charged for freeing the last one's data
		return spec, err
	}
	spec = load.Spec{Connections: 50, Pipeline: pipeline, Warmup: e.Warmup, Duration: e.Duration,
		Mix: []load.Command{load.Request(t.words...)}, Keys: load.KeySpace{Count: e.Keys}}
	switch {
	case t.drains:
		n := elements(uint64(drainRate[pipeline] * e.Duration.Seconds()))
		spec.Warmup, spec.Duration, spec.Requests = min(e.Warmup, sliceSettle), 0, int64(n)
		return spec, s.fillCollection(t.filled, "big", 0, n)
	case t.filled != nil:
		return spec, s.fillCollection(t.filled, "big", 0, shortList)
	case t.keys:
		if err := s.Fill(fill(e.Keys, 0, setWords...)); err != nil {
			return spec, err
		}
		return spec, s.Fill(fill(e.Keys, 0, "SET", "n{key}", "{number}"))
	}
	return spec, nil
}

// typeFigure returns the figure of the test with the worst ratio to Redis, at one depth.
func typeFigure(m matrix, reference, ours, of string, tests []workload, pipeline int, limit float64) report.Figure {
	worst, name := 0.0, ""
	for _, w := range tests {
		at := cell{w.name, pipeline}
		if ratio := m.at(ours, at).cpu.Ratio(m.at(reference, at).cpu); ratio > worst {
			worst, name = ratio, w.name
		}
	}
	at := cell{name, pipeline}
	return report.Figure{What: fmt.Sprintf("CPU per request of %s, pipeline %d, %s; the worst: %s",
		of, pipeline, ours, name), Target: fmt.Sprintf("≤ %s × redis", report.Number(limit)),
		Reference: m.at(reference, at).cpu.Text(report.Micros) + " µs",
		Ours:      fmt.Sprintf("%s µs, %s ×", m.at(ours, at).cpu.Text(report.Micros), report.Number(worst)),
		Verdict:   report.Judge(worst, limit, 1)}
}
