package scenarios

import (
	"fmt"
	"path/filepath"
	"time"

	"spindle/bench/load"
	"spindle/bench/process"
	"spindle/bench/report"
)

// typeSaves has the measurements of one contender's runs with one type.
type typeSaves struct {
	sights
	wall, growth, fork, size, rps report.Sample
	verdicts                      []string
}

// bgsaveTypes measures the save of one value of many elements, for each type, while clients write to the value.
func bgsaveTypes(e *Env) (*report.Section, error) {
	contenders := e.Pair()
	n := elements(e.ManyKeys)
	s := e.section("bgsave-types", contenders,
		fmt.Sprintf("A fresh server with one value of %s elements of 14 bytes. Writers: closed loop, 50 connections, "+
			"pipeline 16. List: LSET all over it, with a push and a pop now and then. Set: members removed and added. Hash "+
			"and sorted set: known members with other values and scores. Stream: XADD. A probe reads 500 times a second in an "+
			"open loop.", report.Thousands(float64(n))),
		"BGSAVE begins a second after the writers. Memory is the peak of resident memory over what it was just before, for "+
			"Redis with what INFO says that the child had copied. Saver and server share the core.",
		"A second save with no writers is given to redis-check-rdb, and must load in the reference with the same DEBUG "+
			"DIGEST. A small set's and a stream's form are 7.2's: an older reference refuses files with them.")
	all := map[string]*typeSaves{}
	at := func(c *collection, contender string) *typeSaves {
		key := c.name + contender
		if all[key] == nil {
			all[key] = &typeSaves{}
		}
		return all[key]
	}
	err := e.alternate(contenders, func(who Contender, _ int) error {
		for i := range collections {
			c := &collections[i]
			if err := e.saveTypeOnce(who, c, n, at(c, who.Name)); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	t := report.Table{Title: "While saving", Columns: append(append([]string{"type", "server"}, sightColumns...), "fork",
		"memory", "wall time", "file", "writes/s meanwhile")}
	f := report.Table{Title: "The file", Columns: []string{"type", "server", "readers"}}
	for i := range collections {
		c := &collections[i]
		for _, who := range contenders {
			x := at(c, who.Name)
			t.Rows = append(t.Rows, append(append([]string{c.name, who.Name}, x.cells()...), x.fork.Text(report.Duration),
				x.growth.Text(report.Times), x.wall.Text(report.Duration),
				x.size.Short(report.Megabytes), x.rps.Short(report.Thousands)))
			for run, v := range x.verdicts {
				f.Rows = append(f.Rows, []string{c.name, fmt.Sprintf("%s, run %d", who.Name, run+1), v})
			}
		}
		ref, ours := at(c, e.Reference.Name), at(c, "spindle")
		what := fmt.Sprintf("BGSAVE of a %s of %s elements under writes", c.name, report.Thousands(float64(n)))
		turn := turnTarget(what+": longest turn", time.Millisecond, &ours.sights)
		turn.Reference = "fork " + ref.fork.Text(report.Duration)
		s.Figures = append(s.Figures, turn, report.Figure{What: what + ": memory", Target: "≤ 1.4 ×",
			Reference: ref.growth.Text(report.Times),
			Ours:      ours.growth.Text(report.Times), Verdict: report.Judge(ours.growth.Max(), 1.4, ref.growth.Max())})
	}
	s.Tables = append(s.Tables, t, f)
	return s, nil
}

func (e *Env) saveTypeOnce(who Contender, c *collection, n uint64, x *typeSaves) error {
	s, err := e.Begin(who, Start{})
	if err != nil {
		return err
	}
	defer s.End()
	s.Client.SetTimeout(10 * time.Minute)
	if err := s.fillCollection(c, "big", 0, n); err != nil {
		return err
	}
	writes := load.Spec{Connections: 50, Pipeline: 16, Warmup: 500 * time.Millisecond, Duration: time.Hour,
		Mix: c.writes(n), Keys: load.KeySpace{Count: n}}
	var took time.Duration
	var peak0, peak int64
	sight, r, err := s.watchedWrites(writes, load.KeySpace{First: 999_999_000_000, Count: 1}, func() error {
		time.Sleep(min(time.Second, e.Duration))
		if err := process.ResetPeak(s.PID); err != nil {
			return err
		}
		peak0 = process.PeakRSS(s.PID)
		began := time.Now()
		err := s.save()
		took, peak = time.Since(began), process.PeakRSS(s.PID)
		return err
	})
	if err != nil {
		return err
	}
	x.add(sight)
	x.rps = append(x.rps, r.PerSecond())
	x.wall = append(x.wall, float64(took))
	if who.Kind == Redis { // the parent's peak does not include the child's copies
		copied, err := s.number("rdb_last_cow_size")
		if err != nil {
			return err
		}
		peak += copied
		usec, err := s.number("latest_fork_usec")
		if err != nil {
			return err
		}
		x.fork = append(x.fork, float64(usec)*1e3)
	}
	x.growth = append(x.growth, float64(peak)/float64(peak0))
	if err := s.save(); err != nil {
		return err
	}
	file := filepath.Join(s.Dir, "dump.rdb")
	x.size = append(x.size, fileSize(file))
	digest, err := s.Do("DEBUG", "DIGEST")
	if err != nil {
		return err
	}
	x.verdicts = append(x.verdicts, e.checkFile(file)+"; "+e.loadedBy(file, 1, digest.Text))
	return nil
}
