package scenarios

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"spindle/bench/report"
)

// A sortCase is one SORT of one list.
type sortCase struct {
	key  string
	n    int
	kind string
	args []any // after the key
}

// sortCalls is the least number of elements that all calls of one case sort together.
const sortCalls = 2_000_000

var sortKinds = []struct {
	name   string
	number func(r *rand.Rand, n int) string
}{
	{"integers", func(r *rand.Rand, n int) string { return strconv.Itoa(r.IntN(n)) }},
	{"fractions", func(r *rand.Rand, _ int) string { return strconv.FormatFloat(1000*r.Float64(), 'f', 6, 64) }},
}

func sortCases(keys uint64) (cases []sortCase) {
	for _, kind := range sortKinds {
		for _, n := range []int{1000, 100_000, 1_000_000} {
			if uint64(n) > max(keys, 1000) {
				continue
			}
			key := fmt.Sprint(kind.name, n)
			cases = append(cases, sortCase{key, n, kind.name, nil}, sortCase{key, n, kind.name, []any{"LIMIT", 0, 10}})
		}
	}
	return cases
}

func (c *sortCase) name() string {
	limit := ""
	if len(c.args) > 0 {
		limit = ", LIMIT 0 10"
	}
	return fmt.Sprintf("%s %s%s", report.Thousands(float64(c.n)), c.kind, limit)
}

// sorting measures SORT of lists of numbers. It uses the server's own statistics of the command.
func sorting(e *Env) (*report.Section, error) {
	contenders := e.Pair()
	s := e.section("sort", contenders,
		"SORT of lists of numbers in random order, called by one client. Integers are random ones below the number of "+
			"elements, fractions have six decimals.",
		"The figure is the mean of what the server itself books for a call (INFO commandstats): reading the replies has no "+
			"part in it.")
	cases := sortCases(e.Keys)
	took := map[string]report.Sample{}
	err := e.alternate(contenders, func(who Contender, run int) error {
		return e.sortOnce(who, run, cases, func(c *sortCase, mean time.Duration) {
			took[c.name()+who.Name] = append(took[c.name()+who.Name], float64(mean))
		})
	})
	if err != nil {
		return nil, err
	}
	t := report.Table{Columns: []string{"elements", "server", "a call", "× redis", "verdict"}}
	for i := range cases {
		name := cases[i].name()
		base := took[name+e.Reference.Name]
		for _, who := range contenders {
			x := took[name+who.Name]
			ratio, verdict := x.Ratio(base), ""
			if who.Kind == Spindle {
				verdict = string(report.Judge(ratio, 1, 1))
				s.Figures = append(s.Figures, report.Figure{What: "SORT, " + name, Target: "≤ 1 × redis",
					Reference: base.Text(report.Duration),
					Ours:      fmt.Sprintf("%s, %s ×", x.Text(report.Duration), report.Number(ratio)),
					Verdict:   report.Verdict(verdict)})
			}
			t.Rows = append(t.Rows, []string{name, who.Name, x.Text(report.Duration), report.Number(ratio), verdict})
		}
	}
	s.Tables = append(s.Tables, t)
	return s, nil
}

// sortOnce fills one server with the lists and calls every case. In one run all contenders get the same lists.
func (e *Env) sortOnce(who Contender, run int, cases []sortCase, seen func(c *sortCase, mean time.Duration)) error {
	s, err := e.Begin(who, Start{})
	if err != nil {
		return err
	}
	defer s.End()
	s.Client.SetTimeout(10 * time.Minute)
	filled := map[string]bool{}
	for i := range cases {
		c := &cases[i]
		if !filled[c.key] {
			filled[c.key] = true
			if err := s.fillNumbers(c, rand.New(rand.NewPCG(uint64(run), uint64(c.n)))); err != nil {
				return err
			}
		}
		if _, err := s.Do("CONFIG", "RESETSTAT"); err != nil {
			return err
		}
		calls := max(2, sortCalls/c.n/10)
		for range calls {
			if _, err := s.Do(append([]any{"SORT", c.key}, c.args...)...); err != nil {
				return fmt.Errorf("%s: %w", c.name(), err)
			}
		}
		mean, err := s.meanCall("sort")
		if err != nil {
			return err
		}
		seen(c, mean)
	}
	return nil
}

func (s *Server) fillNumbers(c *sortCase, r *rand.Rand) error {
	for _, kind := range sortKinds {
		if kind.name != c.kind {
			continue
		}
		for left := c.n; left > 0; left -= 1000 {
			args := []any{"RPUSH", c.key}
			for range min(left, 1000) {
				args = append(args, kind.number(r, c.n))
			}
			if _, err := s.Do(args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// meanCall returns the average duration of a command's calls since CONFIG RESETSTAT, from the server's statistics.
func (s *Server) meanCall(name string) (time.Duration, error) {
	calls, took, err := s.booked(name)
	if err != nil {
		return 0, err
	}
	return took / time.Duration(calls), nil
}

// booked returns the number of calls of a command since CONFIG RESETSTAT, at least 1, and their total duration.
func (s *Server) booked(name string) (calls int64, took time.Duration, err error) {
	v, err := s.Do("INFO", "commandstats")
	if err != nil {
		return 0, 0, err
	}
	line := parseInfo(v.Text)["cmdstat_"+name]
	var usec int64
	if _, err := fmt.Sscanf(line, "calls=%d,usec=%d", &calls, &usec); err != nil || calls == 0 {
		return 0, 0, fmt.Errorf("commandstats of %s: %q", name, line)
	}
	return calls, time.Duration(usec) * time.Microsecond, nil
}
