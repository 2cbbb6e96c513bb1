package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"spindle/bench/process"
	"spindle/bench/report"
)

// loading starts every server on the files of all servers that can write one. It does so on one core. It also does so
// on all cores, as at the start of a machine without other work.
func loading(e *Env) (*report.Section, error) {
	contenders := e.Pair()
	s := e.section("loading", contenders,
		fmt.Sprintf("Files of %s keys of 16 bytes with values of 32, written by SAVE. The time is from the start of the "+
			"process to the first answer that is not LOADING, less what the same server takes with no file. The file is in "+
			"the page cache.", report.Thousands(float64(e.ManyKeys))))
	writers := []Contender{e.Reference, e.Ours()}
	l := loads{e: e, costs: map[string]*loadCost{}, files: map[string]string{}, unreadable: map[string]string{}}
	for _, w := range writers {
		dir, err := e.writeFile(w)
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		l.files[w.Name] = dir
	}
	places := []string{oneCore, allCores}
	err := e.alternate(contenders, func(c Contender, _ int) error {
		for _, place := range places {
			if err := l.measure(c, writers, place); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, place := range places {
		for _, w := range writers {
			s.Tables = append(s.Tables, l.table(contenders, w, place))
			base, ours := l.at(e.Reference.Name, w.Name, place), l.at("spindle", w.Name, place)
			share := ours.took.Ratio(base.took)
			s.Figures = append(s.Figures, report.Figure{What: "loading a file of " + w.Name + ", " + place,
				Target: "≥ 3 × redis's speed", Reference: base.took.Text(report.Duration),
				Ours: ours.took.Text(report.Duration) + ", " + report.Times(1/share), Verdict: report.Judge(share, 1.0/3, 1)})
		}
	}
	return s, nil
}

// A server loads on one core, or on all cores.
const (
	oneCore  = "one core"
	allCores = "all cores"
)

type loadCost struct{ took, cpu, peak report.Sample }

// loads has the measurements of one run of the scenario.
type loads struct {
	e                 *Env
	costs             map[string]*loadCost
	files, unreadable map[string]string
}

func (l *loads) at(reader, writer, place string) *loadCost {
	key := reader + " reads " + writer + " on " + place
	if l.costs[key] == nil {
		l.costs[key] = &loadCost{}
	}
	return l.costs[key]
}

// measure starts c once on the file of each writer.
func (l *loads) measure(c Contender, writers []Contender, place string) error {
	e := l.e
	cpus := &e.ServerCPUs
	if place == allCores {
		cpus = &process.CPUs{}
	}
	began := time.Now()
	empty, err := e.Begin(c, Start{CPUs: cpus})
	if err != nil {
		return err
	}
	idle := time.Since(began)
	empty.End()
	for _, w := range writers {
		began := time.Now()
		server, err := e.Begin(c, Start{Dir: l.files[w.Name], CPUs: cpus, Wait: 10 * time.Minute})
		if err != nil {
			l.unreadable[c.Name+" reads "+w.Name] = err.Error()
			continue
		}
		took := time.Since(began) - idle
		x := l.at(c.Name, w.Name, place)
		cpu, err := process.CPUTime(server.PID)
		if err != nil {
			server.Stop()
			return err
		}
		x.took, x.cpu, x.peak = append(x.took, float64(took)), append(x.cpu, float64(cpu)),
			append(x.peak, float64(process.PeakRSS(server.PID)))
		count, err := server.Do("DBSIZE")
		server.Stop()
		if err == nil && count.Int != int64(e.ManyKeys) {
			err = fmt.Errorf("%d keys after loading the file of %s, not %d", count.Int, w.Name, e.ManyKeys)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *loads) table(contenders []Contender, w Contender, place string) report.Table {
	e := l.e
	t := report.Table{Title: fmt.Sprintf("File of %s, %s, on %s",
		w.Name, report.Megabytes(fileSize(filepath.Join(l.files[w.Name], "dump.rdb"))), place),
		Columns: []string{"server", "time", "keys/s", "× redis's speed", "CPU", "peak RSS", "verdict"}}
	base := l.at(e.Reference.Name, w.Name, place)
	for i, c := range contenders {
		x := l.at(c.Name, w.Name, place)
		if why, failed := l.unreadable[c.Name+" reads "+w.Name]; failed {
			t.Rows = append(t.Rows, []string{c.Name, "cannot read it: " + why})
			continue
		}
		speed, verdict := 1/x.took.Ratio(base.took), ""
		if i > 0 && c.Kind == Spindle && speed < 1 {
			verdict = string(report.Lost)
		}
		t.Rows = append(t.Rows, []string{c.Name, x.took.Text(report.Duration),
			report.Thousands(float64(e.ManyKeys) / x.took.Median() * 1e9), report.Number(speed),
			x.cpu.Short(report.Duration), x.peak.Short(report.Megabytes), verdict})
	}
	return t
}

// writeFile returns a folder with the dump.rdb of a filled server.
func (e *Env) writeFile(c Contender) (string, error) {
	s, err := e.Begin(c, Start{})
	if err != nil {
		return "", err
	}
	defer s.Stop()
	if err := s.Fill(fill(e.ManyKeys, 0, setWords...)); err != nil {
		return "", err
	}
	s.Client.SetTimeout(10 * time.Minute)
	_, err = s.Do("SAVE")
	return s.Dir, err
}

func fileSize(file string) float64 {
	info, err := os.Stat(file)
	if err != nil {
		return nan
	}
	return float64(info.Size())
}
