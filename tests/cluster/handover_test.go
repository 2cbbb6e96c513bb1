package cluster

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"spindle/tests/testkit"
)

// TestHandOverAtShutdown: a primary that gets SHUTDOWN FAILOVER exits after its replica has taken over with all its
// writes. This works between Valkey and spindle in both directions.
func TestHandOverAtShutdown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ primary, replica, how string }{
		{testkit.Ours, testkit.Ours, "SHUTDOWN NOSAVE FAILOVER SAFE"}, {testkit.Ours, testkit.Ours, "SIGTERM"},
		{testkit.Ours, testkit.Valkey9, "SHUTDOWN NOSAVE FAILOVER"},
		{testkit.Valkey9, testkit.Ours, "SHUTDOWN NOSAVE FAILOVER"},
	} {
		t.Run(c.primary+" and "+c.replica+" "+c.how, func(t *testing.T) {
			t.Parallel()
			testkit.Kind(t, c.replica) // skips the test before any server starts
			launch := func(kind string) *testkit.Server {
				spec := testkit.Kind(t, kind)
				spec.Args = []string{"--cluster-enabled", "yes", "--cluster-node-timeout", strconv.Itoa(nodeTimeoutMs),
					"--cluster-port", strconv.Itoa(testkit.FreePort(t))}
				return testkit.Launch(t, spec)
			}
			// Two more primaries are needed to vote.
			primary, replica, nodes := launch(c.primary), launch(c.replica), []*testkit.Server{launch(c.primary),
				launch(c.primary)}
			nodes = append(nodes, primary, replica)
			for i, ends := range [][2]int{{0, 4999}, {5000, 9999}, {10000, 16383}} {
				nodes[i].Do("CLUSTER", "ADDSLOTSRANGE", ends[0], ends[1])
				nodes[i].Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
			}
			testkit.Meet(t, nodes[0], busPortOf(nodes[0]), nodes[1:]...)
			for _, n := range nodes {
				testkit.Until(t, testkit.Slowly(patience), "every node sees a well cluster", func() error { return well(n, 4) })
			}
			id := primary.Do("CLUSTER", "MYID").Text
			replica.Do("CLUSTER", "REPLICATE", id)
			synced(t, replica)
			for _, n := range nodes {
				testkit.Until(t, testkit.Slowly(patience), "all know the replica", func() error {
					v, err := n.Ask("CLUSTER", "REPLICAS", id)
					return errors.Join(err, testkit.Equal(len(v.Elems), 1))
				})
			}
			const key = "{channel}" // in slot 10328
			for i := range 100 {
				primary.Do("SET", key+strconv.Itoa(i), i)
			}
			if c.how == "SIGTERM" {
				primary.Do("CONFIG", "SET", "shutdown-on-sigterm", "nosave failover")
				primary.Signal(syscall.SIGTERM)
			} else {
				var args []any
				for _, w := range strings.Fields(c.how) {
					args = append(args, w)
				}
				client := primary.Dial()
				client.Send(args...)
				if err := client.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			if code := primary.Wait(testkit.Slowly(patience)); code != 0 {
				t.Fatalf("the primary ended with %d", code)
			}
			if c.primary == testkit.Ours {
				if err := role(replica); err != nil {
					t.Errorf("when the primary has ended: %v", err)
				}
			}
			testkit.Until(t, testkit.Slowly(patience), "the replica has taken over", func() error { return role(replica) })
			testkit.Until(t, testkit.Slowly(patience), "the cluster is well", func() error {
				if f := info(replica); f["cluster_state"] != "ok" || f["cluster_slots_ok"] != "16384" {
					return fmt.Errorf("%v", f)
				}
				return nil
			})
			if v := replica.Do("GET", key+"99"); v.Text != "99" || replica.Do("DBSIZE").Int != 100 {
				t.Errorf("the new primary has %v, and %v keys", v, replica.Do("DBSIZE"))
			}
		})
	}
}

// TestHandOverOfSlotsAtShutdown: SHUTDOWN FAILOVER while the server has claimed slots, and their former owner has not
// heard of it. The replica may not know of the claim either, and would remove the keys. So it is not told to take over.
func TestHandOverOfSlotsAtShutdown(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", "", "--shutdown-timeout", "2"}, testkit.Ours, testkit.Ours, testkit.Ours)
	from, to, replica := nodes[0], nodes[1], nodes[2]
	id := to.Do("CLUSTER", "MYID").Text
	replica.Do("CLUSTER", "REPLICATE", id)
	synced(t, replica)
	testkit.Until(t, testkit.Slowly(patience), "the primary knows the replica", func() error {
		return testkit.Equal(len(to.Do("CLUSTER", "REPLICAS", id).Elems), 1)
	})
	s := establish(t, from, to, 'a')
	s.bring()
	s.say("CLUSTER", "SYNCSLOTS", "PAUSED")
	s.hears("REQUEST-FAILOVER")
	from.Signal(syscall.SIGSTOP)
	defer from.Signal(syscall.SIGCONT)
	s.say("CLUSTER", "SYNCSLOTS", "FAILOVER-GRANTED")
	testkit.Until(t, testkit.Slowly(patience), "a claim", func() error {
		return testkit.Equal(moveState(to, "state"), "failover-granted")
	})
	client := to.Dial()
	client.Send("SHUTDOWN", "NOSAVE", "FAILOVER")
	if err := client.Flush(); err != nil {
		t.Fatal(err)
	}
	if code := to.Wait(testkit.Slowly(patience)); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
	if strings.Contains(to.Log(), "Telling replica") {
		t.Error("the replica was told to take over")
	}
}

// TestSafeShutdown: with SAFE, a primary with slots does not shut down. FAILOVER is refused outside cluster mode.
func TestSafeShutdown(t *testing.T) {
	t.Parallel()
	n := node(t, false)
	n.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	for _, words := range [][]any{{"SHUTDOWN", "NOSAVE", "SAFE"}, {"SHUTDOWN", "NOSAVE", "FAILOVER", "SAFE"}} {
		if v, err := n.Ask(words...); err != nil || v.Text != "ERR Errors trying to SHUTDOWN. Check logs." {
			t.Errorf("%v: %v, %v", words, v, err)
		}
	}
	single := testkit.Start(t)
	if v, err := single.Ask("SHUTDOWN", "NOSAVE", "FAILOVER"); err != nil ||
		v.Text != "ERR SHUTDOWN FAILOVER is only supported in cluster mode." {
		t.Errorf("outside cluster mode: %v, %v", v, err)
	}
	if v, err := single.Ask("SHUTDOWN", "FAILOVER", "ABORT"); err != nil || v.Text != "ERR syntax error" {
		t.Errorf("with ABORT: %v, %v", v, err)
	}
}
