package scenarios

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"spindle/bench/load"
	"spindle/bench/process"
	"spindle/bench/report"
)

// saves has the measurements of one contender's runs.
type saves struct {
	sights
	before          sights // the same load without a save
	wall, quiet     report.Sample
	growth, size    report.Sample
	fork            report.Sample
	rpsBefore, rps  report.Sample
	verdicts        []string
	timeline        []load.Point
	saveAt, saveEnd time.Duration // on the timeline
}

// bgsave measures saves while every key is being overwritten as fast as the server can.
func bgsave(e *Env) (*report.Section, error) {
	contenders := e.Pair()
	s := e.section("bgsave", contenders,
		fmt.Sprintf("%s keys of 16 bytes with values of 32. Writers: closed loop, 50 connections, pipeline 16, SET of "+
			"existing keys at random. A probe on its own connection reads 500 times a second in an open loop.",
			report.Thousands(float64(e.ManyKeys))),
		"BGSAVE begins a second after the writers. Memory is the peak of the server's resident memory over what it was "+
			"just before, for Redis with what INFO says that the child had copied (rdb_last_cow_size). Saver and server share "+
			"the core.",
		"The file is then given to redis-check-rdb and to the reference server, which must find the same number of keys "+
			"and, in 1,000 of them, the value that belongs to the key. A second save with no writers must load there with the "+
			"same DEBUG DIGEST.")
	all := map[string]*saves{}
	for _, c := range contenders {
		all[c.Name] = &saves{}
	}
	err := e.alternate(contenders, func(c Contender, _ int) error { return e.saveOnce(c, all[c.Name]) })
	if err != nil {
		return nil, err
	}
	t := report.Table{Title: "While saving", Columns: append(append([]string{"server"}, sightColumns...), "fork", "memory",
		"wall time", "wall, no writers", "file", "SET/s before", "SET/s meanwhile")}
	b := report.Table{Title: "The same load before the save", Columns: append([]string{"server"}, sightColumns...)}
	f := report.Table{Title: "The file", Columns: []string{"server", "readers"}}
	for _, c := range contenders {
		x := all[c.Name]
		t.Rows = append(t.Rows, append(append([]string{c.Name}, x.cells()...), x.fork.Text(report.Duration),
			x.growth.Text(report.Times), x.wall.Text(report.Duration),
			x.quiet.Text(report.Duration), x.size.Short(report.Megabytes), x.rpsBefore.Short(report.Thousands),
			x.rps.Short(report.Thousands)))
		b.Rows = append(b.Rows, append([]string{c.Name}, x.before.cells()...))
		for i, v := range x.verdicts {
			f.Rows = append(f.Rows, []string{fmt.Sprintf("%s, run %d", c.Name, i+1), v})
		}
	}
	s.Tables = append(s.Tables, t, b, f)
	ref, ours := all[e.Reference.Name], all["spindle"]
	wall := ours.wall.Ratio(ref.wall)
	s.Figures = append(s.Figures, turnTarget("BGSAVE under full write load: longest turn", time.Millisecond, &ours.sights),
		report.Figure{What: "BGSAVE under full write load: memory", Target: "≤ 1.4 ×",
			Reference: ref.growth.Text(report.Times), Ours: ours.growth.Text(report.Times),
			Verdict: report.Judge(ours.growth.Max(), 1.4, ref.growth.Max())},
		report.Figure{What: "BGSAVE under full write load: wall time", Target: "≤ 0.5 × redis",
			Reference: ref.wall.Text(report.Duration),
			Ours:      ours.wall.Text(report.Duration) + ", " + report.Times(wall), Verdict: report.Judge(wall, 0.5, 1)})
	s.Figures[0].Reference = "fork " + ref.fork.Text(report.Duration)
	return s, e.plot(s, "bgsave", "Latency of a probe around a BGSAVE under full write load", func(file string) error {
		var lines []report.Line
		for _, c := range contenders {
			line := report.Line{Name: c.Name}
			x := all[c.Name]
			for _, p := range x.timeline {
				line.X = append(line.X, (p.At - x.saveAt).Seconds())
				line.Y = append(line.Y, float64(p.Max)/1e6)
			}
			lines = append(lines, line)
		}
		return report.Lines(file, "Probe's worst latency in each 0.1 s; BGSAVE at 0, last run", "s", "ms", true, lines)
	})
}

func (e *Env) saveOnce(c Contender, x *saves) error {
	s, err := e.Begin(c, Start{})
	if err != nil {
		return err
	}
	defer s.End()
	keys := load.KeySpace{Count: e.ManyKeys}
	if err := s.Fill(fill(e.ManyKeys, 0, setWords...)); err != nil {
		return err
	}
	writes := load.Spec{Connections: 50, Pipeline: 16, Warmup: 500 * time.Millisecond, Duration: time.Hour,
		Mix: []load.Command{load.Request(setWords...)}, Keys: keys}

	// This run has no save, for comparison.
	sight, r, err := s.watchedWrites(writes, keys, func() error { time.Sleep(e.Duration); return nil })
	if err != nil {
		return err
	}
	x.before.add(sight)
	x.rpsBefore = append(x.rpsBefore, r.PerSecond())

	var began, ended time.Time
	var peak0, peak int64
	sight, r, err = s.watchedWrites(writes, keys, func() error {
		time.Sleep(time.Second)
		if err := process.ResetPeak(s.PID); err != nil {
			return err
		}
		peak0 = process.PeakRSS(s.PID)
		began = time.Now()
		err := s.save()
		ended = time.Now()
		peak = process.PeakRSS(s.PID)
		time.Sleep(500 * time.Millisecond)
		return err
	})
	if err != nil {
		return err
	}
	x.add(sight)
	x.rps = append(x.rps, r.PerSecond())
	x.wall = append(x.wall, float64(ended.Sub(began)))
	if c.Kind == Redis { // the parent's peak does not include the child's copies
		copied, err := s.number("rdb_last_cow_size")
		if err != nil {
			return err
		}
		peak += copied
	}
	x.growth = append(x.growth, float64(peak)/float64(peak0))
	x.timeline = sight.Probe.Timeline
	x.saveAt, x.saveEnd = began.Sub(time.Unix(0, sight.Probe.Began)), ended.Sub(time.Unix(0, sight.Probe.Began))
	if c.Kind == Redis {
		usec, err := s.number("latest_fork_usec")
		if err != nil {
			return err
		}
		x.fork = append(x.fork, float64(usec)*1e3)
	}
	file := filepath.Join(s.Dir, "dump.rdb")
	x.size = append(x.size, fileSize(file))
	verdict := e.checkFile(file) + "; " + e.loadedBy(file, e.ManyKeys, "")

	began = time.Now()
	if err := s.save(); err != nil {
		return err
	}
	x.quiet = append(x.quiet, float64(time.Since(began)))
	digest, err := s.Do("DEBUG", "DIGEST")
	if err != nil {
		verdict += "; no digest to compare: " + err.Error()
	} else {
		verdict += "; without writers: " + e.loadedBy(file, e.ManyKeys, digest.Text)
	}
	x.verdicts = append(x.verdicts, verdict)
	return nil
}

// watchedWrites runs do under the given load and watches the server.
func (s *Server) watchedWrites(writes load.Spec, keys load.KeySpace, do func() error) (sight Sight,
	r *load.Result, err error) {
	writers, err := s.StartLoad(writes)
	if err != nil {
		return sight, nil, err
	}
	time.Sleep(writes.Warmup + 100*time.Millisecond)
	w, err := s.watch(keys)
	if err != nil {
		writers.Abandon()
		return sight, nil, err
	}
	if err := do(); err != nil {
		w.abandon()
		writers.Abandon()
		return sight, nil, err
	}
	sight, err = w.end()
	if err != nil {
		writers.Abandon()
		return sight, nil, err
	}
	runner, err := writers.Finish()
	if err == nil && runner.Errors > 0 {
		err = fmt.Errorf("%s answered writers with %s", s.Name, runner.FirstErr)
	}
	return sight, runner, err
}

// save runs BGSAVE and waits for its end.
func (s *Server) save() error {
	if _, err := s.Do("BGSAVE"); err != nil {
		return err
	}
	_, err := s.until(10*time.Minute, 50*time.Millisecond, "the end of BGSAVE", func() (bool, error) {
		n, err := s.number("rdb_bgsave_in_progress")
		return n == 0, err
	})
	if err != nil {
		return err
	}
	info, err := s.Info()
	if err == nil && info["rdb_last_bgsave_status"] != "ok" {
		err = fmt.Errorf("%s: BGSAVE ended with %s; the log ends: %s", s.Name, info["rdb_last_bgsave_status"], s.logTail())
	}
	return err
}

// checkFile runs redis-check-rdb on a file.
func (e *Env) checkFile(file string) string {
	path, err := exec.LookPath("redis-check-rdb")
	if err != nil {
		return "redis-check-rdb is not on PATH"
	}
	out, err := exec.CommandContext(e.Context, path, file).CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return "redis-check-rdb refuses it: " + lines[len(lines)-1]
	}
	return "redis-check-rdb accepts it"
}

// loadedBy starts redis-server on the file and compares the data. It compares the number of keys, and then the digest.
// Without a digest, it compares the values of 1,000 keys.
func (e *Env) loadedBy(file string, keys uint64, digest string) string {
	s, err := e.Begin(e.Reference, Start{Dir: filepath.Dir(file), Wait: 10 * time.Minute})
	if err != nil {
		return e.Reference.Name + " does not load it: " + err.Error()
	}
	defer s.Stop()
	count, err := s.Do("DBSIZE")
	if err != nil {
		return err.Error()
	}
	if count.Int != int64(keys) {
		return fmt.Sprintf("%s finds %d keys of %d", e.Reference.Name, count.Int, keys)
	}
	if digest != "" {
		s.Client.SetTimeout(10 * time.Minute)
		got, err := s.Do("DEBUG", "DIGEST")
		switch {
		case err != nil:
			return err.Error()
		case got.Text != digest:
			return fmt.Sprintf("%s's DEBUG DIGEST differs: %s, not %s", e.Reference.Name, got.Text, digest)
		}
		return e.Reference.Name + " loads it with an equal DEBUG DIGEST"
	}
	for i := range uint64(1000) {
		n := fmt.Sprintf("%012d", i*keys/1000)
		v, err := s.Do("GET", "key:"+n)
		if err != nil {
			return err.Error()
		}
		if !strings.HasPrefix(v.Text, "v"+n) || len(v.Text) != 32 {
			return fmt.Sprintf("%s finds %q under key:%s", e.Reference.Name, v.Text, n)
		}
	}
	return e.Reference.Name + " loads all keys, samples right"
}
