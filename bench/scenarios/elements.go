package scenarios

import (
	"fmt"

	"spindle/bench/load"
	"spindle/bench/report"
)

// A filling is a load that makes n things. The memory is divided by n.
type filling struct {
	name   string
	of     string // what is counted
	n      uint64
	spec   load.Spec
	target float64 // the target of the design; 0 means Redis's figure
}

// smallHash makes a hash with a key of 16 bytes and 5 fields, with names of 2 bytes and values of 8.
var smallHash = []string{"HSET", "{key}", "f1", "{value:8}", "f2", "{value:8}", "f3", "{value:8}", "f4", "{value:8}",
	"f5", "{value:8}"}

func fillings(e *Env) []filling {
	n := elements(e.Keys)
	all := []filling{{"hash of 5 fields", "key", e.Keys, fill(e.Keys, 0, smallHash...), 120}}
	targets := map[string]float64{"set": 34, "hash": 60, "zset": 60}
	for i := range collections {
		c := &collections[i]
		all = append(all, filling{fmt.Sprintf("%s of %s elements", c.name, report.Thousands(float64(n))), "element", n,
			c.fillWith("big", 0, n), targets[c.name]})
	}
	return all
}

// elementMemory fills a fresh server with one value, or with many small hashes, and divides the growth of its memory by
// the number of elements.
func elementMemory(e *Env) (*report.Section, error) {
	contenders := e.Pair()
	s := e.section("elements", contenders,
		"A fresh server is filled, then asked, as for memory per key. The small hashes have keys of 16 bytes, and fields "+
			"of 2 bytes with values of 8. In the large values members, fields, list elements and what an entry holds are 14 "+
			"bytes; a hash's values are 16, scores are numbers of 13 digits, a stream's entries have one field.")
	type cost struct{ used, rss report.Sample }
	costs := map[string]*cost{}
	at := func(what, contender string) *cost {
		key := what + contender
		if costs[key] == nil {
			costs[key] = &cost{}
		}
		return costs[key]
	}
	all := fillings(e)
	err := e.alternate(contenders, func(c Contender, _ int) error {
		for _, f := range all {
			used, rss, err := e.grownBy(c, f.spec)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			x := at(f.name, c.Name)
			x.used, x.rss = append(x.used, used/float64(f.n)), append(x.rss, rss/float64(f.n))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	t := report.Table{Columns: []string{"value", "server", "used_memory B each", "RSS B each", "target", "verdict"}}
	for _, f := range all {
		base, ours := at(f.name, e.Reference.Name), at(f.name, "spindle")
		limit := f.target
		if limit == 0 {
			limit = base.used.Median()
		}
		verdict := report.Judge(ours.used.Median(), limit, base.used.Median())
		for _, c := range contenders {
			x, row := at(f.name, c.Name), []string{"", ""}
			if c.Kind == Spindle {
				row = []string{"≤ " + report.Number(limit), string(verdict)}
			}
			t.Rows = append(t.Rows, append([]string{f.name, c.Name, x.used.Text(report.Number), x.rss.Text(report.Number)},
				row...))
		}
		s.Figures = append(s.Figures, report.Figure{What: fmt.Sprintf("memory, %s, each %s", f.name, f.of),
			Target:    "≤ " + report.Number(limit) + " B",
			Reference: base.used.Short(report.Number) + " B", Ours: ours.used.Short(report.Number) + " B", Verdict: verdict})
	}
	s.Tables = append(s.Tables, t)
	return s, nil
}

// grownBy returns how much a fresh server's memory grows under a load.
func (e *Env) grownBy(c Contender, spec load.Spec) (used, rss float64, err error) {
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
	if err := s.Fill(spec); err != nil {
		return 0, 0, err
	}
	used1, err := s.number("used_memory")
	return float64(used1 - used0), float64(s.RSS() - rss0), err
}
