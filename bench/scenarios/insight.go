package scenarios

import (
	"fmt"

	"spindle/bench/report"
)

// insight compares a default server, which observes itself, with a server without that. costTable compares with the
// first contender, so the server without insight comes first.
func insight(e *Env) (*report.Section, error) {
	off := e.Ours().With("spindle, insight off", "--hot-keys", "no", "--big-keys", "no", "--reply-latency", "no",
		"--stall-threshold", "0")
	contenders := []Contender{off, e.Ours().With("spindle, insight on"), e.Reference}
	s := e.section("insight", contenders,
		fmt.Sprintf("GET and SET of %s keys of 16 bytes, values of 32 bytes. Closed loop, 50 connections.",
			report.Thousands(float64(e.Keys))),
		"× redis is here × spindle with insight off: hot-keys, big-keys, reply-latency and stall-threshold.",
		"Each run starts and fills fresh servers. "+e.slicesText())
	some := workloads[:2]
	m, err := e.measure(contenders, some, pipelines, nil)
	if err != nil {
		return nil, err
	}
	for _, p := range pipelines {
		s.Tables = append(s.Tables, e.costTable(m, contenders, some, p))
	}
	return s, nil
}
