package scenarios

import (
	"fmt"
	"slices"

	"spindle/bench/load"
	"spindle/bench/report"
)

// valueSizes has lengths of values, in KB.
var valueSizes = []int{1, 4, 16, 64, 256}

// longestBatch is the maximum number of KB in flight on a connection, so that 50 batches are sent several times in a
// slice.
const longestBatch = 1 << 10

// valuesTogether is the total number of bytes of all values of one size.
const valuesTogether = 64 << 20

// values measures GET and SET by the length of the value.
func values(e *Env) (*report.Section, error) {
	epoll := e.Ours().With("spindle epoll", "--reactor-backend", "epoll")
	contenders := append(e.Pair(), epoll)
	s := e.section("values", contenders,
		fmt.Sprintf("Closed loop, 50 connections, as many keys as make %s of values. Batches of more than %d KB are left "+
			"out: what is under way would take a good part of a slice.", report.Megabytes(valuesTogether), longestBatch),
		"Each run starts fresh servers. "+e.slicesText()+" A cell begins with all keys set.")
	var workloads []workload
	for _, kb := range valueSizes {
		value := fmt.Sprintf("{value:%d}", kb<<10)
		workloads = append(workloads, workload{fmt.Sprintf("GET, %d KB", kb), []string{"GET", "{key}"}},
			workload{fmt.Sprintf("SET, %d KB", kb), []string{"SET", "{key}", value}})
	}
	m, pipelines := matrix{}, []int{1, 16}
	cells := slices.DeleteFunc(e.cells(len(workloads), func(i int) string { return workloads[i].name }, pipelines),
		func(c [2]int) bool {
			return valueSizes[c[0]/2]*c[1] > longestBatch
		})
	ready := func(server *Server, at int) (load.Spec, error) {
		kb := valueSizes[cells[at][0]/2]
		keys := uint64(valuesTogether / (kb << 10))
		spec := load.Spec{Connections: 50, Pipeline: cells[at][1], Warmup: e.Warmup, Duration: e.Duration,
			Mix: []load.Command{load.Request(workloads[cells[at][0]].words...)}, Keys: load.KeySpace{Count: keys}}
		if _, err := server.Do("FLUSHALL"); err != nil {
			return spec, err
		}
		if err := server.untilFreed(); err != nil {
			return spec, err
		}
		set := fill(keys, 0, "SET", "{key}", fmt.Sprintf("{value:%d}", kb<<10))
		set.Pipeline = 1 // each connection would hold a batch of 128 values
		return spec, server.Fill(set)
	}
	none := func(*Server) error { return nil }
	err := e.sideBySide(contenders, Start{}, none, len(cells), ready,
		func(server *Server, at int, seen []load.Result) error {
			m.at(server.Name, cell{workloads[cells[at][0]].name, cells[at][1]}).add(seen)
			return nil
		})
	if err != nil {
		return nil, err
	}
	for _, p := range pipelines {
		s.Tables = append(s.Tables, e.costTable(m, contenders, workloads, p))
		for _, ours := range []string{"spindle", epoll.Name} {
			s.Figures = append(s.Figures, typeFigure(m, contenders[0].Name, ours, "GET and SET of long values", workloads, p, 1))
		}
	}
	return s, nil
}
