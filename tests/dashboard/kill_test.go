package dashboard

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/proxy/store"
	"spindle/tests/testkit"
)

// inState waits until a range of the table is in a state.
func (s *site) inState(state string) {
	s.t.Helper()
	testkit.Until(s.t, limit, "a slot in state "+state, func() error {
		for _, r := range s.table().Ranges {
			if r.State == state {
				return nil
			}
		}
		return errors.New("no slot is")
	})
}

// TestKilledInEachState kills the active dashboard in each state of a move. The next dashboard completes the move: each
// key exists once, and the table is the plan's.
func TestKilledInEachState(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, 2).fewSlots()
	servers := []*testkit.Server{testkit.Redis(t), testkit.Redis(t), testkit.Redis(t)}
	s.groups(2, servers...)
	const keys = 2000
	s.place(keys, servers...)
	p := s.addProxy("proxy:1", "127.0.0.1:9")
	for round, state := range []string{store.Prepare, store.Migrating, "carrying", "frozen"} {
		next := s.plan(record{"balance": "slots"})
		if round%2 == 1 {
			next = s.plan(record{"drain": "g2"})
		}
		s.awaitCurrent()
		p.setSilent(state == store.Prepare)
		pace := 0
		if state != store.Prepare {
			pace = 200
		}
		s.do("POST", "/v1/products/shop/move", record{"steps": next.Steps, "pace": pace}, nil)
		if state == store.Prepare {
			s.inState(store.Prepare)
		} else {
			s.inState(store.Migrating)
		}
		if state == "carrying" || state == "frozen" {
			testkit.Until(t, limit, "some keys", func() error {
				m, err := s.move()
				if err == nil && m.Keys < 10 {
					err = fmt.Errorf("%+v", m)
				}
				return err
			})
		}
		active := s.awaitActive()
		if state == "frozen" {
			active.Signal(syscall.SIGSTOP)
		} else {
			active.Kill()
		}
		s.forget(active)
		s.awaitActive()
		p.setSilent(false)
		if pace > 0 {
			s.do("PATCH", "/v1/products/shop/move", record{"pace": 0}, nil)
		}
		if m := s.awaitMove("done"); m.Done != m.Slots {
			t.Errorf("%s: %+v", state, m)
		}
		if state == "frozen" {
			before := s.table()
			active.Signal(syscall.SIGCONT) // the dashboard still believes that it leads
			testkit.Until(t, limit, "the end of its leadership", func() error {
				_, body, err := s.call(active, "GET", "/healthz", nil)
				if err == nil && !strings.Contains(body, `"ready"`) {
					err = errors.New(body)
				}
				return err
			})
			if after := s.table(); fmt.Sprint(before) != fmt.Sprint(after) {
				t.Errorf("the dashboard that was stopped has changed the table: %v, %v", before, after)
			}
			active.Kill()
		}
		s.holdsAll(keys, servers...)
		s.startDashboard()
	}
}

// forget removes a dashboard from those that the test calls.
func (s *site) forget(gone *process) {
	var left []*process
	for _, b := range s.dashboards {
		if b != gone {
			left = append(left, b)
		}
	}
	s.dashboards = left
}

// TestKilledAnywhere kills active dashboards at random moments while all slots move to and fro.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, 2).fewSlots()
	servers := []*testkit.Server{testkit.Redis(t), testkit.Redis(t)}
	s.groups(1, servers...)
	const keys = 1000
	s.place(keys, servers...)
	s.addProxy("proxy:1", "127.0.0.1:9")
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 2 * testkit.Scale() {
		p := s.plan(record{"drain": fmt.Sprintf("g%d", round%2)})
		if round%2 == 1 {
			p = s.plan(record{"drain": "g1"})
		}
		pace := 5000
		if testkit.Scale() == 1 { // there are few slots, and the moves last for some seconds all the same
			pace = 500
		}
		s.do("POST", "/v1/products/shop/move", record{"steps": p.Steps, "pace": pace}, nil)
		for range 2 {
			testkit.Moment(rng, time.Second)
			active := s.awaitActive()
			active.Kill()
			s.forget(active)
			s.startDashboard()
		}
		s.awaitMove("done")
		s.holdsAll(keys, servers...)
	}
}

// TestOutageOfTheStore kills etcd during a move, for longer than the dashboard's lease. The move continues afterwards.
// The death of one of three members has no effect.
func TestOutageOfTheStore(t *testing.T) {
	t.Parallel()
	for _, members := range []int{1, 3} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, members, 1).fewSlots()
			servers := []*testkit.Server{testkit.Redis(t), testkit.Redis(t)}
			s.groups(1, servers...)
			const keys = 2000
			s.place(keys, servers...)
			s.addProxy("proxy:1", "127.0.0.1:9")
			p := s.plan(record{"balance": "slots"})
			s.do("POST", "/v1/products/shop/move", record{"steps": p.Steps, "pace": 500}, nil)
			s.inState(store.Migrating)
			s.etcd.Members[0].Kill()
			if members == 1 {
				testkit.Until(t, limit, "word of the outage", func() error {
					status, body, err := s.call(s.dashboards[0], "GET", "/healthz", nil)
					if err == nil && (status != 503 || !strings.Contains(body, `"waiting"`)) {
						err = fmt.Errorf("%d %s", status, body)
					}
					return err
				})
			}
			s.etcd.Members[0].Restart()
			testkit.Until(t, limit, "the rest of the move", func() error {
				return s.try("PATCH", "/v1/products/shop/move", record{"pace": 0}, nil)
			})
			s.awaitMove("done")
			testkit.Until(t, limit, "the table", func() error {
				_, err := s.store.Get(t.Context(), "/spindle/shop/slots")
				return err
			})
			s.holdsAll(keys, servers...)
		})
	}
}
