package scenarios

import (
	"bytes"
	"fmt"
	"time"

	"spindle/bench/load"
	"spindle/bench/report"
)

// A freeing is one way to free much memory at once. prepare fills the server. act frees, and returns when the server
// reports that the memory is freed.
type freeing struct {
	name    string
	prepare func(*Server) error
	act     func(*Server) error
	keeps   bool             // its replacement is as large, so memory does not shrink
	from    func() time.Time // when the freeing could begin; if nil, when act begins
}

const bigString = 512 << 20

func freeings(e *Env) []freeing {
	keys := func(s *Server) error { return s.Fill(fill(e.ManyKeys, 0, setWords...)) }
	big := func(s *Server) error { return s.setBig("big", bigString) }
	empty := func(s *Server) error { return s.untilEmpty() }
	do := func(args ...any) func(*Server) error {
		return func(s *Server) error {
			_, err := s.Do(args...)
			return err
		}
	}
	then := func(steps ...func(*Server) error) func(*Server) error {
		return func(s *Server) error {
			for _, step := range steps {
				if err := step(s); err != nil {
					return err
				}
			}
			return nil
		}
	}
	unlink := []string{"UNLINK"}
	for range 100 {
		unlink = append(unlink, "{key}")
	}
	n := report.Thousands(float64(e.ManyKeys))
	var deadline time.Time
	return []freeing{
		{name: n + " keys, UNLINK of 100 at a time", prepare: keys, act: then(func(s *Server) error {
			spec := fill(e.ManyKeys, 0, unlink...)
			spec.Pipeline, spec.Requests = 4, int64(e.ManyKeys/100)
			return s.Fill(spec)
		}, empty)},
		{name: n + " keys, overwritten by 64 bytes", prepare: keys, keeps: true,
			act: func(s *Server) error { return s.Fill(fill(e.ManyKeys, 0, "SET", "{key}", "{value:64}")) }},
		{name: n + " keys, expiring within a second", from: func() time.Time { return deadline },
			prepare: func(s *Server) error {
				deadline = time.Now().Add(3*time.Second + time.Duration(e.ManyKeys)*4*time.Microsecond)
				spec := fill(e.ManyKeys, 0, append(append([]string(nil), setWords...), "PXAT", "{deadline}")...)
				spec.Deadlines = load.Deadlines{FirstMs: deadline.UnixMilli(), SpreadMs: 1000}
				return s.Fill(spec)
			}, act: then(func(*Server) error { time.Sleep(time.Until(deadline)); return nil }, empty)},
		{name: n + " keys, FLUSHALL ASYNC", prepare: keys, act: then(do("FLUSHALL", "ASYNC"), empty)},
		{name: "512 MB string, UNLINK", prepare: big, act: then(do("UNLINK", "big"), empty)},
		{name: "512 MB string, overwritten by SET", prepare: big, act: then(do("SET", "big", "small"), do("DEL", "big"))},
		{name: "512 MB string, expiring", prepare: big, act: then(do("PEXPIRE", "big", "20"), empty)},
		{name: "512 MB string, FLUSHALL ASYNC", prepare: big, act: then(do("FLUSHALL", "ASYNC"), empty)},
	}
}

func lazyfree(e *Env) (*report.Section, error) {
	contenders := e.Pair()
	s := e.section("lazyfree", contenders,
		"Each case fills a fresh server, frees, and watches until a second after the keys are gone. A probe reads a key "+
			"that is not there 500 times a second in an open loop. Settings are the defaults of each server.",
		"\"Memory back\" is the time from the first command, or the first deadline, until used_memory and RSS are within a "+
			"tenth of what the filling had added, at most 20 s; \"left\" is what RSS still had of it then.")
	type cost struct {
		sights
		gone, usedBack, rssBack, left report.Sample
	}
	costs := map[string]*cost{}
	cases := freeings(e)
	err := e.alternate(contenders, func(c Contender, _ int) error {
		for _, f := range cases {
			key := f.name + c.Name
			if costs[key] == nil {
				costs[key] = &cost{}
			}
			x := costs[key]
			if err := e.freeOnce(c, f, &x.sights, &x.gone, &x.usedBack, &x.rssBack, &x.left); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	t := report.Table{Columns: append(append([]string{"case", "server"}, sightColumns...), "gone after",
		"used_memory back", "RSS back", "RSS left")}
	for _, f := range cases {
		for _, c := range contenders {
			x := costs[f.name+c.Name]
			row := append([]string{f.name, c.Name}, x.cells()...)
			t.Rows = append(t.Rows, append(row, x.gone.Text(report.Duration), x.usedBack.Text(report.Duration),
				x.rssBack.Text(report.Duration), x.left.Text(report.Percent)))
		}
		s.Figures = append(s.Figures, turnTarget(f.name, time.Millisecond, &costs[f.name+"spindle"].sights))
	}
	s.Tables = append(s.Tables, t)
	return s, nil
}

func (e *Env) freeOnce(c Contender, f freeing, seen *sights, gone, usedBack, rssBack, left *report.Sample) error {
	s, err := e.Begin(c, Start{})
	if err != nil {
		return err
	}
	defer s.End()
	s.Client.SetTimeout(10 * time.Minute)
	used0, err := s.number("used_memory")
	if err != nil {
		return err
	}
	rss0 := s.RSS()
	if err := f.prepare(s); err != nil {
		return err
	}
	used1, err := s.number("used_memory")
	if err != nil {
		return err
	}
	rss1 := s.RSS()
	w, err := s.watch(load.KeySpace{First: 999_999_000_000, Count: 1})
	if err != nil {
		return err
	}
	defer w.abandon()
	began := time.Now()
	if err := f.act(s); err != nil {
		return err
	}
	if f.from != nil {
		began = f.from()
	}
	*gone = append(*gone, float64(time.Since(began)))
	if !f.keeps {
		usedAt, rssAt := time.Duration(0), time.Duration(0)
		for time.Since(began) < 20*time.Second && (usedAt == 0 || rssAt == 0) {
			used, err := s.number("used_memory")
			if err != nil {
				return err
			}
			if usedAt == 0 && used-used0 < (used1-used0)/10 {
				usedAt = time.Since(began)
			}
			if rssAt == 0 && s.RSS()-rss0 < (rss1-rss0)/10 {
				rssAt = time.Since(began)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if usedAt > 0 {
			*usedBack = append(*usedBack, float64(usedAt))
		}
		if rssAt > 0 {
			*rssBack = append(*rssBack, float64(rssAt))
		}
		*left = append(*left, float64(s.RSS()-rss0)/float64(max(1, rss1-rss0)))
	}
	time.Sleep(time.Second)
	sight, err := w.end()
	if err == nil {
		seen.add(sight)
	}
	return err
}

func (s *Server) untilEmpty() error {
	_, err := s.until(5*time.Minute, 20*time.Millisecond, "an empty keyspace", func() (bool, error) {
		count, err := s.Do("DBSIZE")
		return count.Int == 0, err
	})
	return err
}

// setBig sends a value of n bytes without having all of it in memory.
func (s *Server) setBig(key string, n int) error {
	conn := s.Client.Conn()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n", len(key), key, n); err != nil {
		return err
	}
	piece := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for sent := 0; sent < n; {
		m := min(n-sent, len(piece))
		if _, err := conn.Write(piece[:m]); err != nil {
			return err
		}
		sent += m
	}
	if _, err := conn.Write([]byte("\r\n")); err != nil {
		return err
	}
	v, err := s.Client.Receive()
	if err == nil {
		err = v.Err()
	}
	return err
}
