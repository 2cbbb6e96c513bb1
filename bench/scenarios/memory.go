package scenarios

import (
	"fmt"

	"spindle/bench/report"
)

// A shape is a kind of key, with the design's limit for its bytes.
type shape struct {
	name   string
	words  []string
	target float64
}

var shapes = []shape{
	{"16 B key, 32 B value", setWords, 69},
	{"the same with a TTL", append(append([]string(nil), setWords...), "EX", "100000"), 77},
	{"16 B key, integer value", []string{"SET", "{key}", "{number}"}, 45},
}

// memory fills a fresh server with one shape of key, and divides the growth of its memory by the number of keys.
func memory(e *Env) (*report.Section, error) {
	contenders := e.Pair()
	sizes := []uint64{e.Keys}
	if e.ManyKeys > e.Keys {
		sizes = append(sizes, e.ManyKeys)
	}
	s := e.section("memory", contenders,
		"A fresh server is filled with SET, then asked. used_memory is INFO's, RSS the kernel's anonymous resident memory; "+
			"both are what they grew by, over DBSIZE.",
		"Keys are set in ascending order; both sides hash them.")
	type cost struct{ used, rss report.Sample }
	costs := map[string]*cost{}
	at := func(shape string, keys uint64, c string) *cost {
		key := fmt.Sprint(shape, keys, c)
		if costs[key] == nil {
			costs[key] = &cost{}
		}
		return costs[key]
	}
	err := e.alternate(contenders, func(c Contender, _ int) error {
		for _, keys := range sizes {
			for _, shape := range shapes {
				used, rss, err := e.bytesPerKey(c, shape, keys)
				if err != nil {
					return fmt.Errorf("%s, %d keys: %w", shape.name, keys, err)
				}
				x := at(shape.name, keys, c.Name)
				x.used, x.rss = append(x.used, used), append(x.rss, rss)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, keys := range sizes {
		t := report.Table{Title: report.Thousands(float64(keys)) + " keys",
			Columns: []string{"shape", "server", "used_memory B/key", "RSS B/key", "target", "verdict"}}
		for _, shape := range shapes {
			base := at(shape.name, keys, e.Reference.Name)
			for i, c := range contenders {
				x, verdict, target := at(shape.name, keys, c.Name), "", ""
				if i > 0 && c.Kind == Spindle {
					target = "≤ " + report.Number(shape.target)
					verdict = string(report.Judge(x.used.Median(), shape.target, base.used.Median()))
				}
				t.Rows = append(t.Rows, []string{shape.name, c.Name, x.used.Text(report.Number), x.rss.Text(report.Number),
					target, verdict})
			}
			ours := at(shape.name, keys, "spindle")
			s.Figures = append(s.Figures, report.Figure{What: fmt.Sprintf("memory, %s, %s keys", shape.name,
				report.Thousands(float64(keys))),
				Target: fmt.Sprintf("≤ %.0f B", shape.target), Reference: base.used.Short(report.Number) + " B",
				Ours:    ours.used.Short(report.Number) + " B",
				Verdict: report.Judge(ours.used.Median(), shape.target, base.used.Median())})
		}
		s.Tables = append(s.Tables, t)
	}
	return s, nil
}

func (e *Env) bytesPerKey(c Contender, shape shape, keys uint64) (used, rss float64, err error) {
	s, err := e.Begin(c, Start{})
	if err != nil {
		return 0, 0, err
	}
	defer s.End()
	used0, err := s.number("used_memory")
	if err != nil {
		return 0, 0, err
	}
	rss0 := s.RSS()
	if err := s.Fill(fill(keys, 0, shape.words...)); err != nil {
		return 0, 0, err
	}
	count, err := s.Do("DBSIZE")
	if err != nil {
		return 0, 0, err
	}
	if count.Int != int64(keys) {
		return 0, 0, fmt.Errorf("%d keys after %d were set", count.Int, keys)
	}
	used1, err := s.number("used_memory")
	if err != nil {
		return 0, 0, err
	}
	return float64(used1-used0) / float64(keys), float64(s.RSS()-rss0) / float64(keys), nil
}
