package dashboard

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"testing"

	"spindle/tests/testkit"
)

// TestRebalance: two full groups and an empty one get equal shares. Each key exists once, and the result is the plan's.
func TestRebalance(t *testing.T) {
	for _, c := range []struct {
		name    string
		members int
		start   func(t testing.TB, args ...string) *testkit.Server
	}{{"etcd, redis", 1, testkit.Redis}, {"folder, spindle", 0, testkit.Start}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, c.members, 1).fewSlots()
			servers := []*testkit.Server{c.start(t), c.start(t), c.start(t)}
			s.groups(2, servers...)
			const keys = 3000
			s.place(keys, servers...)
			s.addProxy("127.0.0.1:7000", "127.0.0.1:7000")
			s.addProxy("127.0.0.1:7001", "127.0.0.1:7001")
			p := s.plan(record{"balance": "slots"})
			if p.Imbalance.After > 2 || math.Abs(float64(p.Moved)-float64(s.product.Slots)/3) > 2 {
				t.Errorf("%+v", p)
			}
			want := s.owners()
			for _, step := range p.Steps {
				for slot := step.From; slot <= step.To; slot++ {
					want[slot] = step.Target
				}
			}
			s.do("POST", "/v1/products/shop/move", record{"steps": p.Steps}, nil)
			m := s.awaitMove("done")
			if m.Done != p.Moved || m.Keys < keys/4 || m.Bytes < m.Keys {
				t.Errorf("%+v", m)
			}
			if got := s.owners(); !slices.Equal(got, want) {
				t.Error("the table differs from the plan")
			}
			s.holdsAll(keys, servers...)
			for _, by := range []string{"slots", "keys", "bytes", "cpu"} {
				again := s.plan(record{"balance": by})
				if by == "slots" && again.Moved != 0 {
					t.Errorf("balanced groups are planned again: %+v", again)
				}
			}
			// The group is drained and removed.
			s.refuses("DELETE", "/v1/products/shop/groups/g2", nil, "in_use")
			s.do("PATCH", "/v1/products/shop/groups/g2", record{"draining": true}, nil)
			p = s.plan(record{"drain": "g2"})
			s.do("POST", "/v1/products/shop/move", record{"steps": p.Steps}, nil)
			s.awaitMove("done")
			s.holdsAll(keys, servers...)
			testkit.Until(t, limit, "the end of the group", func() error {
				return s.try("DELETE", "/v1/products/shop/groups/g2", nil, nil) // the proxies have to confirm first
			})
			if v := servers[2].Do("DBSIZE"); v.Int != 0 {
				t.Errorf("the drained group has %d keys", v.Int)
			}
		})
	}
}

// TestSilentProxyHoldsTheMove: the move names a proxy that does not confirm, and waits for it. Meanwhile the other
// proxies do not have to hold requests back. A proxy whose process is gone is detected; a proxy that is cut off is not.
func TestSilentProxyHoldsTheMove(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, 1)
	servers := []*testkit.Server{testkit.Redis(t), testkit.Redis(t)}
	s.groups(1, servers...)
	s.place(200, servers...)
	silent := s.addProxy("silent:1", "127.0.0.1:9")
	silent.setSilent(true)
	s.addProxy("good:1", "127.0.0.1:9")
	p := s.plan(record{"move": record{"ranges": [][2]int{{0, 99}}, "target": "g1"}})
	s.do("POST", "/v1/products/shop/move", record{"steps": p.Steps}, nil)
	held := func() error {
		m, err := s.move()
		if err == nil && (!slices.Equal(m.Waiting, []string{"silent:1"}) || !strings.Contains(m.Problem, "silent:1")) {
			err = fmt.Errorf("%+v", m)
		}
		return err
	}
	testkit.Until(t, limit, "the proxy's name", held)
	testkit.Until(t, limit, "the return of the slots", func() error {
		if r := s.table().Ranges[0]; r.State != "" || r.Group != "g0" || r.To != 16383 {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	s.do("PATCH", "/v1/products/shop/move", record{"state": "paused"}, nil)
	s.do("PATCH", "/v1/products/shop/move", record{"state": "running"}, nil)
	testkit.Until(t, limit, "the proxy's name", held)
	silent.setSilent(false)
	s.awaitMove("done")
	s.holdsAll(200, servers...)

	// A proxy's process is killed: its address refuses connections.
	gone := s.addProxy("gone:1", fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t)))
	gone.setSilent(true)
	// Another proxy is cut off from the store, but still serves.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	cut := s.addProxy("cut:1", listener.Addr().String())
	cut.setSilent(true)
	gone.stop()
	cut.stop()
	s.refuses("DELETE", "/v1/products/shop/proxies/good:1", nil, "in_use")
	p = s.plan(record{"move": record{"ranges": [][2]int{{100, 199}}, "target": "g1"}})
	s.do("POST", "/v1/products/shop/move", record{"steps": p.Steps}, nil)
	testkit.Until(t, limit, "the end of the dead proxy's registration", func() error {
		m, err := s.move()
		if err == nil && !slices.Equal(m.Waiting, []string{"cut:1"}) {
			err = fmt.Errorf("%+v", m)
		}
		return err
	})
	s.do("DELETE", "/v1/products/shop/proxies/cut:1", nil, nil)
	s.awaitMove("done")
	s.holdsAll(200, servers...)
}

// TestLeftOverKeys: if the target has keys of slots that it does not own, the move does not begin, and the error names
// them.
func TestLeftOverKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0, 1).fewSlots()
	servers := []*testkit.Server{testkit.Redis(t), testkit.Redis(t)}
	s.groups(1, servers...)
	s.place(100, servers...)
	servers[1].Do("SET", "key:5", "old")
	p := s.plan(record{"drain": "g0"})
	s.do("POST", "/v1/products/shop/move", record{"steps": p.Steps}, nil)
	testkit.Until(t, limit, "the key's name", func() error {
		m, err := s.move()
		if err == nil && !strings.Contains(m.Problem, "key:5") {
			err = fmt.Errorf("%+v", m)
		}
		return err
	})
	servers[1].Do("DEL", "key:5")
	s.awaitMove("done")
	s.holdsAll(100, servers...)
}

// TestCancel: a cancelled move leaves no slot under way, and another move may follow.
func TestCancel(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0, 1).fewSlots()
	servers := []*testkit.Server{testkit.Redis(t), testkit.Redis(t)}
	s.groups(1, servers...)
	s.place(2000, servers...)
	p := s.plan(record{"balance": "keys"})
	s.do("POST", "/v1/products/shop/move", record{"steps": p.Steps, "pace": 100}, nil)
	s.refuses("POST", "/v1/products/shop/move", record{"steps": p.Steps}, "in_use")
	testkit.Until(t, limit, "some keys", func() error {
		m, err := s.move()
		if err == nil && m.Keys == 0 {
			err = errors.New("none has moved")
		}
		return err
	})
	s.do("PATCH", "/v1/products/shop/move", record{"state": "cancelled", "pace": 0}, nil)
	m := s.awaitMove("cancelled")
	testkit.Until(t, limit, "the end", func() error {
		owners := s.table()
		for _, r := range owners.Ranges {
			if r.State != "" {
				return fmt.Errorf("%+v", r)
			}
		}
		return s.try("POST", "/v1/products/shop/plan", record{"balance": "keys"}, nil)
	})
	if m.Done == m.Slots {
		t.Errorf("%+v", m)
	}
	s.holdsAll(2000, servers...)
	p = s.plan(record{"balance": "slots"})
	testkit.Until(t, limit, "the next move", func() error {
		return s.try("POST", "/v1/products/shop/move", record{"steps": p.Steps}, nil)
	})
	s.awaitMove("done")
	s.holdsAll(2000, servers...)
}
