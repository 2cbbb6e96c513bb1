package scenarios

import (
	"fmt"
	"time"

	"spindle/bench/report"
)

// A wholeCase is one command that reads or writes all of a large value, or much of it, in one turn.
type wholeCase struct {
	name    string
	prepare [][]any // before each call, not counted
	act     []any
	payload bool // the last argument is DUMP's payload of "set"
}

// wholeCalls is the number of calls of each command on a server. The values are the same each time.
const wholeCalls = 5

func wholeCases(n int64) []wholeCase {
	victim := func(source string) [][]any { return [][]any{{"COPY", source, "victim", "REPLACE"}} }
	gone := [][]any{{"UNLINK", "victim"}}
	all := []wholeCase{
		{name: "SINTERSTORE", prepare: gone, act: []any{"SINTERSTORE", "victim", "set", "set2"}},
		{name: "SUNIONSTORE", prepare: gone, act: []any{"SUNIONSTORE", "victim", "set", "set2"}},
		{name: "SDIFFSTORE", prepare: gone, act: []any{"SDIFFSTORE", "victim", "set", "set2"}},
		{name: "ZINTERSTORE", prepare: gone, act: []any{"ZINTERSTORE", "victim", 2, "zset", "zset2"}},
		{name: "ZUNIONSTORE", prepare: gone, act: []any{"ZUNIONSTORE", "victim", 2, "zset", "zset2"}},
		{name: "ZRANGESTORE of half", prepare: gone, act: []any{"ZRANGESTORE", "victim", "zset", 0, n/2 - 1}},
		{name: "SORT ALPHA STORE", prepare: gone, act: []any{"SORT", "list", "ALPHA", "STORE", "victim"}},
		{name: "SORT BY nosort STORE", prepare: gone, act: []any{"SORT", "list", "BY", "nosort", "STORE", "victim"}},
		{name: "BITOP AND of two strings of 64 MB", prepare: gone, act: []any{"BITOP", "AND", "victim", "bits", "bits2"}},
		{name: "LTRIM to half", prepare: victim("list"), act: []any{"LTRIM", "victim", 0, n/2 - 1}},
		{name: "LREM of what is not there", prepare: victim("list"), act: []any{"LREM", "victim", 0, "x"}},
		{name: "SPOP of half", prepare: victim("set"), act: []any{"SPOP", "victim", n / 2}},
		{name: "ZREMRANGEBYRANK of half", prepare: victim("zset"), act: []any{"ZREMRANGEBYRANK", "victim", 0, n/2 - 1}},
		{name: "XTRIM to half", prepare: victim("stream"), act: []any{"XTRIM", "victim", "MAXLEN", n / 2}},
		{name: "DUMP of a set", act: []any{"DUMP", "set"}},
		{name: "RESTORE of a set", prepare: gone, act: []any{"RESTORE", "victim", 0}, payload: true},
	}
	for i := range collections {
		name := collections[i].name
		all = append(all, wholeCase{name: "COPY of a " + name, prepare: gone, act: []any{"COPY", name, "victim"}})
	}
	return all
}

// whole measures commands whose turn takes time proportional to a value, because their effect must be visible at once.
func whole(e *Env) (*report.Section, error) {
	contenders := e.Pair()
	n := elements(e.Keys)
	s := e.section("whole", contenders,
		fmt.Sprintf("One server, values of %s elements of 14 bytes; second operands share half of theirs. Commands that "+
			"store find no value at their destination, those that shorten get a copy each time. Each is called %d times by a "+
			"client, and no other client is there; before each call the server has freed what was let go. Replies and "+
			"payloads, as of SPOP, DUMP and RESTORE, are part of what is waited for, not of the turn.",
			report.Thousands(float64(n)), wholeCalls),
		"\"Answered after\" is what the client waits. All of these are one turn here, and one command of the only thread "+
			"in Redis: others wait for as long.")
	type cost struct{ took, turn report.Sample }
	costs := map[string]*cost{}
	at := func(name, contender string) *cost {
		key := name + contender
		if costs[key] == nil {
			costs[key] = &cost{}
		}
		return costs[key]
	}
	cases := wholeCases(int64(n))
	err := e.alternate(contenders, func(who Contender, _ int) error {
		return e.wholeOnce(who, n, cases, func(name string, took time.Duration, turns Turns) {
			x := at(name, who.Name)
			x.took = append(x.took, float64(took))
			if turns.HasCPU {
				x.turn = append(x.turn, float64(turns.CPU))
			}
		})
	})
	if err != nil {
		return nil, err
	}
	t := report.Table{Columns: []string{"command", "server", "answered after", "× redis", "longest turn, CPU", "verdict"}}
	for i := range cases {
		name := cases[i].name
		base := at(name, e.Reference.Name).took
		for _, who := range contenders {
			x := at(name, who.Name)
			ratio, verdict := x.took.Ratio(base), ""
			if who.Kind == Spindle {
				verdict = string(report.Judge(ratio, 1, 1))
				s.Figures = append(s.Figures, report.Figure{What: "answer, " + name, Target: "≤ 1 × redis",
					Reference: base.Text(report.Duration),
					Ours:      fmt.Sprintf("%s, %s ×", x.took.Text(report.Duration), report.Number(ratio)),
					Verdict:   report.Verdict(verdict)})
			}
			t.Rows = append(t.Rows, []string{name, who.Name, x.took.Text(report.Duration), report.Number(ratio),
				x.turn.Text(report.Duration), verdict})
		}
	}
	s.Tables = append(s.Tables, t)
	return s, nil
}

// wholeOnce fills one server and calls every case.
func (e *Env) wholeOnce(who Contender, n uint64, cases []wholeCase,
	seen func(name string, took time.Duration, turns Turns)) error {
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
	for _, key := range []string{"bits", "bits2"} {
		if err := s.setBig(key, min(64*int(n), 64<<20)); err != nil {
			return err
		}
	}
	dump, err := s.Do("DUMP", "set")
	if err != nil {
		return err
	}
	for i := range cases {
		for range wholeCalls {
			took, turns, err := s.callWhole(&cases[i], dump.Text)
			if err != nil {
				return fmt.Errorf("%s: %w", cases[i].name, err)
			}
			seen(cases[i].name, took, turns)
		}
	}
	return nil
}

// callWhole prepares a case and calls it once.
func (s *Server) callWhole(c *wholeCase, payload string) (took time.Duration, turns Turns, err error) {
	for _, args := range c.prepare {
		if _, err := s.Do(args...); err != nil {
			return 0, turns, err
		}
	}
	if err := s.untilFreed(); err != nil {
		return 0, turns, err
	}
	if err := s.ResetTurns(); err != nil {
		return 0, turns, err
	}
	args := c.act
	if c.payload {
		args = append(args[:len(args):len(args)], payload)
	}
	began := time.Now()
	if _, err := s.Do(args...); err != nil {
		return 0, turns, err
	}
	took = time.Since(began)
	turns, err = s.Turns()
	return took, turns, err
}
