package scenarios

import (
	"fmt"
	"time"

	"spindle/bench/load"
	"spindle/bench/report"
)

// A letting is one way in which a value becomes unreachable. The value is at the key "victim".
type letting struct {
	name string
	act  [][]any
	gone func(*Server) (bool, error) // if nil, the value is gone when the replies have come
}

// resting frees nothing. It shows how long turns take on this machine in any case.
var resting = letting{name: "nothing"}

func lettings() []letting {
	absent := func(s *Server) (bool, error) {
		v, err := s.Do("EXISTS", "victim")
		return v.Int == 0, err
	}
	return []letting{
		{"DEL", [][]any{{"DEL", "victim"}}, nil},
		{"UNLINK", [][]any{{"UNLINK", "victim"}}, nil},
		{"expiry", [][]any{{"PEXPIRE", "victim", 20}}, absent},
		{"overwrite by SET", [][]any{{"SET", "victim", "x"}}, nil},
		{"RENAME onto it", [][]any{{"SET", "other", "x"}, {"RENAME", "other", "victim"}}, nil},
		{"FLUSHALL", [][]any{{"FLUSHALL"}}, nil},
	}
}

// letGoLimit is the design's limit for a turn that drops a value of any size.
const letGoLimit = 100 * time.Microsecond

// letGoTimes is how many times spindle drops a value in each way.
const letGoTimes = 5

// letGo measures how values of many elements are dropped, of each type in each way.
func letGo(e *Env) (*report.Section, error) {
	contenders := e.Pair()
	n := elements(e.ManyKeys)
	s := e.section("letgo", contenders,
		fmt.Sprintf("A server a type, with one value of %s elements of 14 bytes. For each way a COPY of it is let go; "+
			"FLUSHALL, the last, takes the value and a copy. A probe reads a key that is not there 500 times a second in an "+
			"open loop. Settings are the defaults of each server.", report.Thousands(float64(n))),
		fmt.Sprintf("Watching begins before the command, when nothing is left to be freed from the one before, and ends %v "+
			"after it; INFO is not asked meanwhile, because that is a turn too. Spindle is sent MEMORY PURGE halfway, because "+
			"it would give empty pages back only five seconds later. \"Answered after\" is what the client waits that sends "+
			"the command; of an expiry, when the key is gone, less its 20 ms.", e.Duration),
		fmt.Sprintf("\"Nothing\" is the control: before each way the same server is watched for as long with the copy made "+
			"and nothing let go. Spindle lets go %d times in each way. The target is held against each way's median, because "+
			"the control's longest turns show what this machine adds to one turn or another; and turns over the target may "+
			"not be many more than the control's (twice as many and two), nor any three times as long as the longest of those.",
			letGoTimes))
	type cost struct {
		sights
		took report.Sample
	}
	costs := map[string]*cost{}
	at := func(c *collection, l letting, contender string) *cost {
		key := c.name + l.name + contender
		if costs[key] == nil {
			costs[key] = &cost{}
		}
		return costs[key]
	}
	ways := lettings()
	err := e.alternate(contenders, func(who Contender, _ int) error {
		for i := range collections {
			c := &collections[i]
			err := e.letGoOnce(who, c, n, ways, func(l letting, sight Sight, took time.Duration) {
				x := at(c, l, who.Name)
				x.add(sight)
				if len(l.act) > 0 {
					x.took = append(x.took, float64(took))
				}
			})
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range collections {
		c := &collections[i]
		t := report.Table{Title: "A " + c.name, Columns: append(append([]string{"way", "server"}, sightColumns...),
			"answered after")}
		var ours []*sights
		rest := &at(c, resting, "spindle").sights
		t.Rows = append(t.Rows, append(append([]string{resting.name, "spindle"}, rest.cells()...), "–"))
		for _, l := range ways {
			for _, who := range contenders {
				x := at(c, l, who.Name)
				t.Rows = append(t.Rows, append(append([]string{l.name, who.Name}, x.cells()...), x.took.Text(report.Duration)))
			}
			ours = append(ours, &at(c, l, "spindle").sights)
		}
		s.Tables = append(s.Tables, t)
		f := turnTargetOfWays(fmt.Sprintf("letting go of a %s of %s elements: longest turn, median of the way where it is "+
			"longest", c.name, report.Thousands(float64(n))), letGoLimit, ours, rest)
		f.Reference = "DEL answered after " + at(c, ways[0], e.Reference.Name).took.Text(report.Duration)
		s.Figures = append(s.Figures, f)
	}
	return s, nil
}

// letGoOnce fills one server and drops values in every way.
func (e *Env) letGoOnce(who Contender, c *collection, n uint64, ways []letting,
	seen func(l letting, sight Sight, took time.Duration)) error {
	s, err := e.Begin(who, Start{})
	if err != nil {
		return err
	}
	defer s.End()
	s.Client.SetTimeout(10 * time.Minute)
	if err := s.fillCollection(c, "source", 0, n); err != nil {
		return err
	}
	times, watched := 1, []letting{{}}
	if who.Name == e.Ours().Name { // the reference does not report its turns
		times, watched = letGoTimes, []letting{resting, {}}
	}
	for _, l := range ways {
		watched[len(watched)-1] = l
		for range times {
			if exists, err := s.Do("EXISTS", "source"); err != nil {
				return err
			} else if exists.Int == 0 { // FLUSHALL
				if err := s.fillCollection(c, "source", 0, n); err != nil {
					return err
				}
			}
			if _, err := s.Do("COPY", "source", "victim", "REPLACE"); err != nil {
				return err
			}
			if err := s.untilFreed(); err != nil {
				return err
			}
			for _, l := range watched {
				sight, took, err := s.watchLetting(l)
				if err != nil {
					return fmt.Errorf("%s: %w", l.name, err)
				}
				seen(l, sight, took)
			}
		}
	}
	return nil
}

// watchLetting drops one value and watches the server.
func (s *Server) watchLetting(l letting) (sight Sight, took time.Duration, err error) {
	w, err := s.watch(load.KeySpace{First: 999_999_000_000, Count: 1})
	if err != nil {
		return sight, 0, err
	}
	if took, err = s.letGo(l); err != nil {
		w.abandon()
		return sight, 0, err
	}
	sight, err = w.end()
	return sight, took, err
}

// letGo sends a letting's commands, waits until the value is gone, and then waits for some time so that it is freed.
func (s *Server) letGo(l letting) (took time.Duration, err error) {
	began := time.Now()
	for _, args := range l.act {
		if _, err := s.Do(args...); err != nil {
			return 0, err
		}
	}
	if l.gone != nil {
		if _, err := s.until(time.Minute, time.Millisecond, "the key's end",
			func() (bool, error) { return l.gone(s) }); err != nil {
			return 0, err
		}
		began = began.Add(20 * time.Millisecond)
	}
	took = time.Since(began)
	time.Sleep(s.env.Duration / 2) // to see later effects, too
	if s.Kind == Spindle {
		if _, err := s.Do("MEMORY", "PURGE"); err != nil { // the server would do this by itself later
			return 0, err
		}
	}
	time.Sleep(s.env.Duration - s.env.Duration/2)
	return took, nil
}

// untilFreed waits until no more memory is to be freed.
func (s *Server) untilFreed() error {
	_, err := s.until(5*time.Minute, 10*time.Millisecond, "the end of freeing", func() (bool, error) {
		n, err := s.number("lazyfree_pending_objects")
		return n == 0, err
	})
	return err
}
