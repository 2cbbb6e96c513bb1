package cluster

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/internal/slots"
	"spindle/tests/testkit"
)

// TestFailoverKeepsConfirmedWrites: replies wait for a replica. A replica that takes over has all writes that its
// primary had confirmed. This holds for CLUSTER FAILOVER while a client writes, and after the primary was killed.
func TestFailoverKeepsConfirmedWrites(t *testing.T) {
	t.Parallel()
	var nodes []*testkit.Server
	for range 6 {
		nodes = append(nodes, node(t, false))
	}
	create(t, nodes, 1)
	synced(t, nodes[3:]...)
	for _, n := range nodes {
		n.Do("CONFIG", "SET", "min-replicas-to-ack", "1", "ack-timeout", "600000")
	}
	heir := nodes[3]
	old := primaryOf(t, heir, nodes)
	key := keyOf(t, old)
	for _, kill := range []bool{false, true} {
		c := old.Dial()
		began, _ := old.Ask("INCR", key)
		confirmed := make(chan int64)
		go func() {
			last := began.Int
			for {
				v, err := c.Do("INCR", key)
				if err != nil || v.Kind != ':' { // MOVED, or UNCONFIRMED
					confirmed <- last
					return
				}
				last = v.Int
			}
		}()
		testkit.Until(t, testkit.Slowly(patience), "writes", func() error {
			v, err := old.Ask("GET", key)
			return errors.Join(err, testkit.Equal(len(v.Text) >= 3, true))
		})
		if kill {
			old.Kill()
			testkit.Until(t, testkit.Slowly(patience), "the replica takes over", func() error { return role(heir) })
		} else {
			var asked time.Time
			testkit.Until(t, testkit.Slowly(patience), "they change places", func() error {
				if time.Since(asked) > 6*time.Second {
					if v, err := heir.Ask("CLUSTER", "FAILOVER"); err != nil || v.Err() != nil {
						return errors.Join(err, v.Err())
					}
					asked = time.Now()
				}
				return errors.Join(role(heir), is(old, "role", "slave"))
			})
			synced(t, old)
		}
		last := <-confirmed
		t.Logf("count: 1 failovers, %d confirmed writes, 0 lost", last-began.Int)
		reader := heir.Dial()
		reader.Must("CLIENT", "ACK", 0) // the new primary has no replica yet, or none at all
		testkit.Until(t, testkit.Slowly(patience), "it serves", func() error {
			v, err := reader.Do("INCR", key)
			if err == nil && v.Kind == ':' && v.Int <= last {
				t.Fatalf("killed %t: %d writes were confirmed, and the next one makes it %d", kill, last, v.Int)
			}
			return errors.Join(err, v.Err())
		})
		old, heir = heir, old
	}
}

// confirmedByOne makes a shard with two replicas whose primary confirms a write when one of them has it. The first
// replica has the last confirmed write, and stands still. The second one lacks it. The primary is gone.
func confirmedByOne(t *testing.T) (has, lacks *testkit.Server, key string, voters []*testkit.Server) {
	t.Helper()
	var nodes []*testkit.Server
	for range 5 {
		nodes = append(nodes, node(t, false, "--ack-timeout", "600000", "--cluster-replica-validity-factor", "0"))
	}
	for i, n := range nodes[:3] {
		n.Do("CLUSTER", "ADDSLOTSRANGE", i*slots.Count/3, (i+1)*slots.Count/3-1)
		n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, n := range nodes[1:] {
		nodes[0].Do("CLUSTER", "MEET", "127.0.0.1", n.Port, busPortOf(n))
	}
	for _, n := range nodes {
		testkit.Until(t, testkit.Slowly(patience), "every node sees a well cluster",
			func() error { return well(n, len(nodes)) })
	}
	primary, has, lacks := nodes[0], nodes[3], nodes[4]
	for _, n := range []*testkit.Server{has, lacks} {
		n.Do("CLUSTER", "REPLICATE", primary.Do("CLUSTER", "MYID").Text)
	}
	synced(t, has, lacks)
	for _, n := range nodes {
		n.Do("CONFIG", "SET", "min-replicas-to-ack", "1")
	}
	key = keyOf(t, primary)
	online := func() error { return testkit.Equal(primary.InfoInt("replication", "connected_slaves"), 1) }
	for _, n := range nodes {
		testkit.Until(t, testkit.Slowly(patience), "every node knows both replicas", func() error {
			return testkit.Equal(strings.Count(n.Do("CLUSTER", "NODES").Text, primary.Do("CLUSTER", "MYID").Text), 3)
		})
	}
	primary.Do("SET", key, 0) // no offset is 0 then, which would be unknown
	for _, n := range []*testkit.Server{has, lacks} {
		testkit.Until(t, testkit.Slowly(patience), "the first write is there", func() error {
			return testkit.Equal(n.InfoInt("replication", "slave_repl_offset") > 0, true)
		})
	}
	lacks.Signal(syscall.SIGSTOP)
	primary.Do("CLIENT", "KILL", "TYPE", "replica") // one comes back, and the other has nothing in its socket
	testkit.Until(t, testkit.Slowly(patience), "one replica", online)
	if v := primary.Do("INCR", key); v.Int != 1 {
		t.Fatalf("INCR: %+v", v)
	}
	has.Signal(syscall.SIGSTOP)
	primary.Kill()
	lacks.Signal(syscall.SIGCONT)
	return has, lacks, key, nodes[1:3]
}

// TestElectionWaits: a replica that may lack a confirmed write does not take over while it cannot hear the other one.
// When the other one is back, that takes over, and has the write.
func TestElectionWaits(t *testing.T) {
	t.Parallel()
	has, lacks, key, _ := confirmedByOne(t)
	lacks.AwaitLog(testkit.Slowly(patience), "A confirmed write may be missing here")
	if err := role(lacks); err == nil {
		t.Error("a replica without a confirmed write has taken over")
	}
	has.Signal(syscall.SIGCONT)
	testkit.Until(t, testkit.Slowly(patience), "the replica with the write takes over", func() error { return role(has) })
	synced(t, lacks)
	testkit.Until(t, testkit.Slowly(patience), "the write is there", func() error {
		v, err := has.Ask("GET", key)
		return errors.Join(err, testkit.Equal(v.Text, "1"))
	})
}

// TestElectionIsForced: an operator decides that the election waits no longer.
func TestElectionIsForced(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"FAILOVER FORCE", "FAILOVER TAKEOVER", "FORGET"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			has, lacks, _, voters := confirmedByOne(t)
			lacks.AwaitLog(testkit.Slowly(patience), "A confirmed write may be missing here")
			request := []any{"CLUSTER"}
			for word := range strings.FieldsSeq(how) {
				request = append(request, word)
			}
			if how == "FORGET" {
				id := ""
				for line := range strings.SplitSeq(voters[0].Do("CLUSTER", "NODES").Text, "\n") {
					if strings.Contains(line, fmt.Sprintf(":%d@", has.Port)) {
						id, _, _ = strings.Cut(line, " ")
					}
				}
				request = append(request, id)
			}
			lacks.Do("CLIENT", "ACK", 0) // there is no replica then
			lacks.Do(request...)
			testkit.Until(t, testkit.Slowly(patience), "the replica takes over", func() error { return role(lacks) })
		})
	}
}
