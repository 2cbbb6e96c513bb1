package scenarios

import (
	"fmt"
	"time"

	"spindle/bench/load"
	"spindle/bench/process"
	"spindle/bench/report"
)

// longReadCases returns commands that read all of a large value, or all keys.
func longReadCases() [][]any {
	return [][]any{
		{"KEYS", "*"}, {"SMEMBERS", "set"}, {"SINTER", "set", "set2"}, {"SUNION", "set", "set2"}, {"SDIFF", "set", "set2"},
		{"HGETALL", "hash"}, {"LRANGE", "list", 0, -1}, {"ZRANGE", "zset", 0, -1, "WITHSCORES"},
		{"ZUNION", 2, "zset", "zset2"}, {"XRANGE", "stream", "-", "+"}, {"SORT", "list", "ALPHA"}, {"DUMP", "hash"},
		{"DEBUG", "DIGEST"}, {"MEMORY", "USAGE", "set", "SAMPLES", 0}, {"BITCOUNT", "bits"},
	}
}

// longReadCalls is the number of calls of each command while the probe sends requests.
const longReadCalls = 5

// longReadLimit is the longest wait that is allowed for the probe.
const longReadLimit = 2 * time.Millisecond

// longReads measures commands that read many elements, while a probe sends requests.
func longReads(e *Env) (*report.Section, error) {
	inline := e.Ours().With("spindle, in the turn", "--long-read-elements", "0")
	contenders := append(e.Pair(), inline)
	n := elements(e.Keys)
	s := e.section("longreads", contenders,
		fmt.Sprintf("One server, values of %s elements of 14 bytes and as many keys. A client calls each command %d times. "+
			"A probe reads a key that is not there 500 times a second in an open loop. CPU is the server's for a call.",
			report.Thousands(float64(n)), longReadCalls))
	type cost struct {
		sights
		took, work report.Sample
	}
	costs := map[string]*cost{}
	at := func(name, contender string) *cost {
		key := name + contender
		if costs[key] == nil {
			costs[key] = &cost{}
		}
		return costs[key]
	}
	cases := longReadCases()
	err := e.alternate(contenders, func(who Contender, _ int) error {
		return e.longReadsOnce(who, n, cases, func(name string, sight Sight, took, work time.Duration) {
			x := at(name, who.Name)
			x.add(sight)
			x.took, x.work = append(x.took, float64(took)), append(x.work, float64(work))
		})
	})
	if err != nil {
		return nil, err
	}
	t := report.Table{Columns: append(append([]string{"command", "server"}, sightColumns...), "answered after", "CPU")}
	wait := report.Figure{What: "the probe's longest wait, beside the worst command",
		Target: "≤ " + report.Took(longReadLimit)}
	work := report.Figure{What: "CPU of the worst command", Target: "≤ 1.2 × in the turn"}
	var longest, most float64
	for _, args := range cases {
		name := fmt.Sprint(args[0])
		for _, who := range contenders {
			x := at(name, who.Name)
			t.Rows = append(t.Rows, append(append([]string{name, who.Name}, x.cells()...), x.took.Text(report.Duration),
				x.work.Text(report.Duration)))
		}
		ref, ours, turn := at(name, e.Reference.Name), at(name, "spindle"), at(name, inline.Name)
		if x := ours.max.Median(); x > longest {
			longest = x
			wait.Reference, wait.Ours = ref.max.Text(report.Duration), name+" "+ours.max.Text(report.Duration)
			wait.Verdict = report.Judge(x, float64(longReadLimit), ref.max.Median())
		}
		if x := ours.work.Ratio(turn.work); x > most {
			most = x
			work.Reference = ref.work.Text(report.Duration)
			work.Ours = fmt.Sprintf("%s %s, %s", name, ours.work.Text(report.Duration), report.Times(x))
			work.Verdict = report.Judge(x, 1.2, nan)
		}
	}
	s.Tables, s.Figures = append(s.Tables, t), append(s.Figures, wait, work)
	return s, nil
}

// longReadsOnce fills one server and calls every command.
func (e *Env) longReadsOnce(who Contender, n uint64, cases [][]any,
	seen func(name string, sight Sight, took, work time.Duration)) error {
	s, err := e.Begin(who, Start{})
	if err != nil {
		return err
	}
	defer s.End()
	s.Client.SetTimeout(10 * time.Minute)
	for i := range collections {
		if err := s.fillCollection(&collections[i], collections[i].name, 0, n); err != nil {
			return err
		}
	}
	for _, name := range []string{"set", "zset"} {
		if err := s.fillCollection(collectionOf(name), name+"2", n/2, n); err != nil {
			return err
		}
	}
	if err := s.setBig("bits", min(64*int(n), 64<<20)); err != nil {
		return err
	}
	if _, err := s.Do("DEBUG", "POPULATE", n, "key", 14); err != nil {
		return err
	}
	for _, args := range cases {
		sight, took, work, err := s.watchLongRead(args)
		if err != nil {
			return fmt.Errorf("%v: %w", args[0], err)
		}
		seen(fmt.Sprint(args[0]), sight, took, work)
	}
	return nil
}

// watchLongRead calls a command several times and watches the server. took and work are per call.
func (s *Server) watchLongRead(args []any) (sight Sight, took, work time.Duration, err error) {
	w, err := s.watch(load.KeySpace{First: 999_999_000_000, Count: 1})
	if err != nil {
		return sight, 0, 0, err
	}
	defer w.abandon()
	before, err := process.CPUTime(s.PID)
	if err != nil {
		return sight, 0, 0, err
	}
	began := time.Now()
	for range longReadCalls {
		if _, err := s.Do(args...); err != nil {
			return sight, 0, 0, err
		}
	}
	took = time.Since(began) / longReadCalls
	after, err := process.CPUTime(s.PID)
	if err != nil {
		return sight, 0, 0, err
	}
	sight, err = w.end()
	return sight, took, (after - before) / longReadCalls, err
}
