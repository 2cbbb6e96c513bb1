package proxy

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/proxy/topology"
	"spindle/tests/testkit"
)

// TestShardWithTwoPrimaries: a replica is reset and gets slots. Then another primary dies, and its replica takes over.
// CLUSTER SHARDS of some versions lacks slots in both cases. A Finder knows each slot's owner. Where CLUSTER SHARDS has
// all slots, that also holds for a user without the right to CLUSTER SLOTS.
func TestShardWithTwoPrimaries(t *testing.T) {
	for _, kind := range []string{testkit.Ours, testkit.Redis70, testkit.Redis74, testkit.Redis8, testkit.Valkey9} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var nodes []*testkit.Server
			for i := range 4 {
				spec := testkit.Kind(t, kind)
				spec.Args = []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port",
					strconv.Itoa(testkit.FreePort(t)), "--repl-diskless-sync-delay", "0"}
				nodes = append(nodes, testkit.Launch(t, spec))
				nodes[i].Do("CLUSTER", "SET-CONFIG-EPOCH", i+1) // a change later would have to reach all before a primary dies
			}
			first, reset, dead, replica := nodes[0], nodes[1], nodes[2], nodes[3]
			ok := func(s *testkit.Server, args ...any) {
				t.Helper()
				if v := s.Do(args...); v.Text != "OK" {
					t.Fatalf("%v: %v", args, v)
				}
			}
			meet := func(s *testkit.Server) {
				t.Helper()
				ok(s, "CLUSTER", "MEET", "127.0.0.1", first.Port, first.Do("CONFIG", "GET", "cluster-port").Elems[1].Text)
			}
			// sees waits until each of some nodes has a text in a reply.
			sees := func(what string, from []*testkit.Server, text string, args ...any) {
				t.Helper()
				for _, s := range from {
					testkit.Until(t, testkit.Slowly(30*time.Second), what, func() error {
						if v, err := s.Ask(args...); err != nil || !strings.Contains(fmt.Sprint(v), text) {
							return fmt.Errorf("%s: %v (%v)", s.Addr, v, err)
						}
						return nil
					})
				}
			}
			owned := func(as topology.Access, from []*testkit.Server, owners ...*testkit.Server) {
				t.Helper()
				for _, s := range from {
					f := topology.New(topology.Options{Seeds: []string{s.Addr}, Access: as, Every: time.Hour})
					m := f.Current()
					f.Close()
					for i, slot := range []int{0, 5000, 10000, 16383} {
						if got := m.Shard(slot); got == nil || got.Primary != owners[i].Addr {
							t.Errorf("%s: slot %d belongs to %+v, want %s", s.Addr, slot, got, owners[i].Addr)
						}
					}
					if n := m.Uncovered(); n != 0 {
						t.Errorf("%s: %d slots have no shard", s.Addr, n)
					}
				}
			}

			ok(first, "CLUSTER", "ADDSLOTSRANGE", 0, 4999)
			ok(dead, "CLUSTER", "ADDSLOTSRANGE", 5000, 9999)
			for _, s := range nodes[1:] {
				meet(s)
			}
			sees("all nodes have met", nodes, "cluster_known_nodes:4", "CLUSTER", "INFO")
			for r, primary := range map[*testkit.Server]*testkit.Server{reset: first, replica: dead} {
				id := primary.Do("CLUSTER", "MYID").Text
				ok(r, "CLUSTER", "REPLICATE", id)
				sees("it is a replica", nodes, "slave "+id, "CLUSTER", "NODES")
				sees("it has the data", []*testkit.Server{r}, "master_link_status:up", "INFO", "replication")
			}
			ok(reset, "CLUSTER", "RESET")
			meet(reset)
			sees("all nodes know each other", nodes, "cluster_known_nodes:4", "CLUSTER", "INFO")
			ok(reset, "CLUSTER", "ADDSLOTSRANGE", 10000, 16383)
			sees("all slots have an owner", nodes, "cluster_slots_ok:16384", "CLUSTER", "INFO")
			owned(topology.Access{}, nodes, first, dead, reset, reset)

			dead.Kill()
			living := []*testkit.Server{first, reset, replica}
			sees("the replica takes over", living, fmt.Sprintf(`(int) 5000 (int) 9999 ["127.0.0.1" (int) %d`, replica.Port),
				"CLUSTER", "SLOTS")
			owned(topology.Access{}, living, first, replica, reset, reset)
			if kind == testkit.Ours || kind == testkit.Valkey9 {
				for _, s := range living {
					ok(s, "ACL", "SETUSER", "proxy", "on", ">secret", "+@all", "-cluster|slots")
				}
				owned(topology.Access{User: "proxy", Password: "secret"}, living, first, replica, reset, reset)
			}
		})
	}
}
