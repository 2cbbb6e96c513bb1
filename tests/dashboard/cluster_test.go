package dashboard

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"spindle/internal/slots"
	"spindle/protocol/respclient"
	"spindle/proxy/store"
	"spindle/tests/testkit"
)

// newCluster starts n+more nodes and makes a cluster of the first n.
func newCluster(t *testing.T, kind func(t testing.TB, args ...string) *testkit.Server, n, more int) []*testkit.Server {
	t.Helper()
	var nodes []*testkit.Server
	var addresses []string
	for range n + more {
		s := kind(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "5000", "--cluster-port",
			fmt.Sprint(testkit.FreePort(t)))
		nodes = append(nodes, s)
		addresses = append(addresses, s.Addr)
	}
	args := append([]string{"--cluster", "create"}, addresses[:n]...)
	if out, code := testkit.Run(t, limit, "", testkit.Program(t, "redis-cli"), append(args, "--cluster-yes")...); code !=
		0 {
		t.Fatalf("the cluster was not made: %s", out)
	}
	for _, s := range nodes[:n] {
		s.AwaitInfo(limit, "cluster", "cluster_enabled", "1")
		testkit.Until(t, limit, "the cluster", func() error {
			if state := s.Do("CLUSTER", "INFO").Text; !strings.Contains(state, "cluster_state:ok") {
				return fmt.Errorf("%s", state)
			}
			return nil
		})
	}
	return nodes
}

// A group is the API's reply about a group or shard.
type group struct {
	ID      string
	Primary string
	Slots   int
	Servers []struct{ Address, Role, Link, Problem string }
}

func (s *site) listGroups() (list []group) {
	s.t.Helper()
	var reply struct{ Groups []group }
	s.do("GET", "/v1/products/shop/groups", nil, &reply)
	return reply.Groups
}

// closed checks that no node has an open slot, and that all nodes agree.
func closed(t *testing.T, nodes []*testkit.Server) {
	t.Helper()
	testkit.Until(t, limit, "one view of all nodes", func() error {
		first := ""
		for _, n := range nodes {
			if text := n.Do("CLUSTER", "NODES").Text; strings.Contains(text, "[") {
				return fmt.Errorf("%s has an open slot: %s", n.Addr, text)
			}
			var views []string
			for _, shard := range n.Do("CLUSTER", "SLOTS").Elems {
				views = append(views, fmt.Sprint(shard.Elems[0].Int, shard.Elems[1].Int, shard.Elems[2].Elems[2].Text))
			}
			text := strings.Join(views, " ")
			if first == "" {
				first = text
			}
			if text != first {
				return fmt.Errorf("%s sees %s, and another node %s", n.Addr, text, first)
			}
		}
		return nil
	})
}

// fill writes n keys, each to the node that has its slot.
func fill(t *testing.T, s *testkit.Server, n int) {
	t.Helper()
	for _, part := range s.Do("CLUSTER", "SLOTS").Elems {
		var keys []int
		for i := range n {
			if at := int64(slots.Of(fmt.Appendf(nil, "key:%d", i))); part.Elems[0].Int <= at && at <= part.Elems[1].Int {
				keys = append(keys, i)
			}
		}
		c, err := respclient.Dial(fmt.Sprint("127.0.0.1:", part.Elems[2].Elems[1].Int))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		testkit.Pipe(t, c, len(keys), func(i int) []any {
			return []any{"SET", fmt.Sprintf("key:%d", keys[i]), fmt.Sprintf("value:%d", keys[i])}
		})
	}
}

// holds checks that each key is on exactly one primary, with its value.
func holds(t *testing.T, n int, nodes ...*testkit.Server) {
	t.Helper()
	found := map[string]int{}
	for _, s := range nodes {
		c := s.Dial()
		var keys []string
		var requests [][]any
		for _, key := range c.Must("KEYS", "*").Strings() {
			found[key]++
			keys, requests = append(keys, key), append(requests, []any{"GET", key})
		}
		replies, err := c.Pipeline(requests...)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range replies {
			if v.Text != strings.Replace(keys[i], "key:", "value:", 1) {
				t.Fatalf("%s has %v under %s", s.Addr, v, keys[i])
			}
		}
	}
	for key, times := range found {
		if times != 1 {
			t.Errorf("%s is there %d times", key, times)
		}
	}
	if len(found) != n {
		t.Errorf("%d keys of %d are there", len(found), n)
	}
}

// TestCluster: a shard joins a cluster, and slots move to it while dashboards are killed. Then it is drained and
// leaves.
func TestCluster(t *testing.T) {
	for _, c := range []struct {
		name string
		kind func(t testing.TB, args ...string) *testkit.Server
	}{{"redis", testkit.Redis}, {"spindle", testkit.Start}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			nodes := newCluster(t, c.kind, 3, 2)
			s := newSite(t, 1, 2)
			fill(t, nodes[0], 3000)
			s.refuses("POST", "/v1/products", record{"name": "shop", "kind": "cluster", "seeds": []string{"127.0.0.1:1"}},
				"failed")
			s.do("POST", "/v1/products", record{"name": "shop", "kind": "cluster", "seeds": []string{nodes[0].Addr}}, nil)
			var fresh group
			s.do("POST", "/v1/products/shop/groups", record{"primary": nodes[3].Addr,
				"servers": []record{{"address": nodes[4].Addr}}}, &fresh)
			if len(fresh.Servers) != 2 || fresh.Primary != nodes[3].Addr || fresh.Slots != 0 {
				t.Errorf("%+v", fresh)
			}
			p := s.plan(record{"balance": "slots"})
			if p.Moved != 4096 || p.Imbalance.After > 2 {
				t.Errorf("%+v", p)
			}
			rng := rand.New(rand.NewPCG(5, 6))
			want, pace := 4096, 0
			if testkit.Scale() == 1 { // the short form of the test
				want, pace = 150, 10
			}
			s.do("POST", "/v1/products/shop/move", record{"steps": firstOf(p.Steps, want), "pace": pace}, nil)
			for range 3 {
				testkit.Moment(rng, 2*time.Second)
				active := s.awaitActive()
				active.Kill()
				s.forget(active)
				s.startDashboard()
			}
			if m := s.awaitMove("done"); m.Done != want {
				t.Errorf("%+v", m)
			}
			closed(t, nodes[:4])
			holds(t, 3000, nodes[:4]...)
			for _, g := range s.listGroups() {
				if g.ID == fresh.ID && g.Slots != want || want == 4096 && g.Slots != want {
					t.Errorf("%+v", g)
				}
			}
			if again := s.plan(record{"balance": "keys"}); again.Imbalance.After > 5 {
				t.Errorf("%+v", again)
			}
			// A paused move leaves no slot open.
			p = s.plan(record{"drain": fresh.ID})
			s.do("POST", "/v1/products/shop/move", record{"steps": p.Steps}, nil)
			testkit.Moment(rng, time.Second)
			s.do("PATCH", "/v1/products/shop/move", record{"state": "paused"}, nil)
			closed(t, nodes[:4])
			s.do("PATCH", "/v1/products/shop/move", record{"state": "running"}, nil)
			s.awaitMove("done")
			closed(t, nodes[:4])
			holds(t, 3000, nodes[:3]...)
			s.do("DELETE", "/v1/products/shop/groups/"+fresh.ID, nil, nil)
			testkit.Until(t, limit, "a cluster without the shard", func() error {
				if groups := s.listGroups(); len(groups) != 3 {
					return fmt.Errorf("%+v", groups)
				}
				return nil
			})
		})
	}
}

// firstOf returns the steps of a plan that move its first slots.
func firstOf(steps []store.Step, slots int) (first []store.Step) {
	for _, step := range steps {
		step.To = min(step.To, step.From+slots-1)
		if step.To < step.From {
			break
		}
		first, slots = append(first, step), slots-(step.To-step.From+1)
	}
	return first
}

// TestEmptiedShard: a shard that loses its last slot stays a shard of two nodes, although the cluster makes replicas of
// them. It is filled again by a later move, although it has lost the cluster. Then it is emptied and removed.
func TestEmptiedShard(t *testing.T) {
	for _, c := range []struct {
		name string
		kind func(t testing.TB, args ...string) *testkit.Server
	}{{"redis", testkit.Redis}, {"spindle", testkit.Start}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			nodes := newCluster(t, c.kind, 3, 2)
			s := newSite(t, 0, 1)
			fill(t, nodes[0], 2000)
			s.do("POST", "/v1/products", record{"name": "shop", "kind": "cluster", "seeds": []string{nodes[0].Addr}}, nil)
			var fresh group
			s.do("POST", "/v1/products/shop/groups", record{"primary": nodes[3].Addr,
				"servers": []record{{"address": nodes[4].Addr}}}, &fresh)
			other := nodes[0].Do("CLUSTER", "MYID").Text
			step := func(from, to string) record { return record{"from": 0, "to": 30, "source": from, "target": to} }
			move := func(steps ...record) {
				s.do("POST", "/v1/products/shop/move", record{"steps": steps}, nil)
				if m := s.awaitMove("done"); m.Problem != "" {
					t.Errorf("%+v", m)
				}
			}
			check := func(slots int) {
				t.Helper()
				for _, g := range s.listGroups() {
					if g.ID == fresh.ID && g.Slots == slots && len(g.Servers) == 2 {
						return
					}
				}
				t.Errorf("no shard %s of %d slots and two servers: %+v", fresh.ID, slots, s.listGroups())
			}
			move(step(other, fresh.ID))
			check(31)
			move(step(fresh.ID, other))
			check(0)
			nodes[3].Do("CLUSTER", "RESET") // as a dashboard leaves it that dies after this request
			move(step(other, fresh.ID))
			check(31)
			s.refuses("POST", "/v1/products/shop/groups", record{"primary": nodes[4].Addr}, "conflict")
			replica := nodes[4].Do("CLUSTER", "MYID").Text
			s.refuses("DELETE", "/v1/products/shop/groups/"+replica, nil, "conflict")
			s.refuses("POST", "/v1/products/shop/move", record{"steps": []record{step(fresh.ID, replica)}}, "conflict")
			holds(t, 2000, nodes[:4]...)
			closed(t, nodes)
			for _, n := range nodes[3:] {
				if n.Do("CONFIG", "GET", "cluster-allow-replica-migration").Elems[1].Text != "yes" {
					t.Errorf("%s has another setting", n.Addr)
				}
			}
			s.do("POST", "/v1/products/shop/move", record{"steps": s.plan(record{"drain": fresh.ID}).Steps}, nil)
			s.awaitMove("done")
			check(0)
			s.do("DELETE", "/v1/products/shop/groups/"+fresh.ID, nil, nil)
			for _, n := range nodes[3:] {
				testkit.Until(t, limit, "a node that knows no other", func() error {
					return testkit.Equal(strings.Count(n.Do("CLUSTER", "NODES").Text, "\n"), 1)
				})
			}
			holds(t, 2000, nodes[:3]...)
			if groups := s.listGroups(); len(groups) != 3 {
				t.Errorf("%+v", groups)
			}
		})
	}
}
