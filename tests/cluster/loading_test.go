package cluster

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"spindle/tests/testkit"
)

// TestALoadingReplicaIsHidden: while a replica loads its primary's data, no node lists it in CLUSTER SLOTS. The replica
// still answers INFO and heartbeats.
func TestALoadingReplicaIsHidden(t *testing.T) {
	t.Parallel()
	for name, redis := range map[string]bool{"ours": false, "of redis-server": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := []*testkit.Server{node(t, redis), node(t, redis), node(t, redis), node(t, false)}
			primary, replica := nodes[0], nodes[3]
			create(t, nodes[:3], 0)
			id := primary.Do("CLUSTER", "MYID").Text
			testkit.Meet(t, primary, busPortOf(primary), replica)
			testkit.Until(t, testkit.Slowly(patience), "the replica meets the rest", func() error {
				v, err := replica.Ask("CLUSTER", "REPLICATE", id)
				return errors.Join(err, v.Err())
			})
			synced(t, replica)
			for _, n := range nodes {
				testkit.Until(t, testkit.Slowly(patience), "every node shows the replica",
					func() error { return shown(n, replica, true) })
			}
			const keys = 1500
			key := keyOf(t, primary)
			replica.Do("CONFIG", "SET", "key-load-delay", "20000", "loading-process-events-interval-bytes", "1024")
			primary.Do("CONFIG", "SET", "repl-backlog-size", "100")
			primary.Do("MULTI")
			primary.Do("CLIENT", "KILL", "TYPE", "replica")
			for i := range keys {
				primary.Do("SET", fmt.Sprint("{", key, "}", i), strings.Repeat("A", 100))
			}
			primary.Do("EXEC")
			loading := func(want string) error { return testkit.Equal(replica.Info("persistence")["loading"], want) }
			testkit.Until(t, testkit.Slowly(patience), "the replica loads", func() error { return loading("1") })
			testkit.Until(t, testkit.Slowly(patience), "no node shows the replica before the load ends", func() (err error) {
				for _, n := range nodes { // they learn it at different times
					err = errors.Join(err, shown(n, replica, false))
				}
				if over := loading("1"); over != nil {
					t.Fatalf("the replica has loaded: %v, %v", over, err)
				}
				return err
			})
			replica.Do("CONFIG", "SET", "key-load-delay", "0")
			for _, n := range nodes {
				testkit.Until(t, testkit.Slowly(patience), "the replica is shown again",
					func() error { return shown(n, replica, true) })
			}
			if err := errors.Join(loading("0"), is(replica, "master_link_status", "up")); err != nil {
				t.Error(err)
			}

			// If a primary refuses the replica, the replica keeps its data, and nodes still list it for clients.
			primary.Do("CONFIG", "SET", "requirepass", "secret")
			primary.Do("CLIENT", "KILL", "TYPE", "replica")
			replica.AwaitLog(testkit.Slowly(patience), "MASTER aborted replication with an error: NOAUTH")
			for _, n := range nodes[1:3] {
				before := heard(n, replica)
				testkit.Until(t, testkit.Slowly(patience), "a heartbeat of the replica", func() error {
					if now := heard(n, replica); now <= before+nodeTimeoutMs/2 {
						return fmt.Errorf("at %d, before at %d", now, before)
					}
					return nil
				})
				if err := shown(n, replica, true); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// busPortOf returns a node's bus port.
func busPortOf(n *testkit.Server) string {
	_, rest, _ := strings.Cut(lineOf(n, n), "@")
	port, _, _ := strings.Cut(rest, " ")
	port, _, _ = strings.Cut(port, ",")
	return port
}

// heard returns the time at which n received the latest PONG of another node, in Unix ms.
func heard(n, about *testkit.Server) int64 {
	if f := strings.Fields(lineOf(n, about)); len(f) > 5 {
		at, _ := strconv.ParseInt(f[5], 10, 64)
		return at
	}
	return 0
}

// shown returns an error unless n's CLUSTER SLOTS lists another node. If want is false, it returns an error if the node
// is listed.
func shown(n, about *testkit.Server, want bool) error {
	v, err := n.Ask("CLUSTER", "SLOTS")
	if err == nil && strings.Contains(fmt.Sprintf("%+v", v), fmt.Sprintf("(int) %d ", about.Port)) != want {
		err = fmt.Errorf("%s: %+v", n.Addr, v)
	}
	return err
}
