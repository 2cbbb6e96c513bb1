package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"spindle/tests/testkit"
)

// TestALoadingReplicaIsHidden: while a replica loads its primary's data, no node shows it to clients in CLUSTER SLOTS,
// and it answers INFO and heartbeats.
func TestALoadingReplicaIsHidden(t *testing.T) {
	for name, redis := range map[string]bool{"ours": false, "of redis-server": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := []*testkit.Server{node(t, redis), node(t, redis), node(t, redis), node(t, false)}
			primary, replica := nodes[0], nodes[3]
			create(t, nodes[:3], 0)
			id := primary.Do("CLUSTER", "MYID").Text
			testkit.Until(t, testkit.Slowly(patience), "the replica meets the rest", func() error {
				if _, err := replica.Ask("CLUSTER", "MEET", "127.0.0.1", primary.Port, busPortOf(primary)); err != nil {
					return err
				}
				v, err := replica.Ask("CLUSTER", "REPLICATE", id)
				return errors.Join(err, v.Err())
			})
			synced(t, replica)
			for _, n := range nodes {
				testkit.Until(t, testkit.Slowly(patience), "every node shows the replica", func() error { return shown(n, replica, true) })
			}
			const keys = 1500
			key := keyOf(t, primary)
			replica.Do("CONFIG", "SET", "key-load-delay", "4000", "loading-process-events-interval-bytes", "1024")
			primary.Do("CONFIG", "SET", "repl-backlog-size", "100")
			primary.Do("MULTI")
			primary.Do("CLIENT", "KILL", "TYPE", "replica")
			for i := range keys {
				primary.Do("SET", fmt.Sprint("{", key, "}", i), strings.Repeat("A", 100))
			}
			primary.Do("EXEC")
			loading := func(want string) error { return testkit.Equal(replica.Info("persistence")["loading"], want) }
			testkit.Until(t, testkit.Slowly(patience), "the replica loads", func() error { return loading("1") })
			for hidden := 0; hidden < len(nodes); { // each node in its time, before the load is over
				hidden = 0
				for _, n := range nodes {
					if shown(n, replica, false) == nil {
						hidden++
					}
				}
				if err := loading("1"); err != nil {
					t.Fatalf("%d of %d nodes have hidden the replica when it was loaded: %v", hidden, len(nodes), err)
				}
			}
			replica.Do("CONFIG", "SET", "key-load-delay", "0")
			for _, n := range nodes {
				testkit.Until(t, testkit.Slowly(patience), "the replica is shown again", func() error { return shown(n, replica, true) })
			}
			if err := errors.Join(loading("0"), is(replica, "master_link_status", "up")); err != nil {
				t.Error(err)
			}
		})
	}
}

// busPortOf reads a node's own bus port.
func busPortOf(n *testkit.Server) string {
	_, rest, _ := strings.Cut(lineOf(n, n), "@")
	port, _, _ := strings.Cut(rest, " ")
	port, _, _ = strings.Cut(port, ",")
	return port
}

// shown says whether a node's CLUSTER SLOTS names another one.
func shown(n, about *testkit.Server, want bool) error {
	v, err := n.Ask("CLUSTER", "SLOTS")
	if err == nil && strings.Contains(fmt.Sprintf("%+v", v), fmt.Sprintf("(int) %d ", about.Port)) != want {
		err = fmt.Errorf("%s: %+v", n.Addr, v)
	}
	return err
}
