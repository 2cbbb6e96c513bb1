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

// confirmingShard makes a cluster of three primaries, of which the first one has replicas. Writes need confirmations by
// acks of them. All replicas have the first write, which sets key to 0.
func confirmingShard(t *testing.T, count, acks int, args ...string) (primary *testkit.Server,
	replicas, voters []*testkit.Server, key string) {
	t.Helper()
	var nodes []*testkit.Server
	for range 3 + count {
		nodes = append(nodes, node(t, false, append([]string{"--ack-timeout", "600000",
			"--cluster-replica-validity-factor", "0"}, args...)...))
	}
	for i, n := range nodes[:3] {
		n.Do("CLUSTER", "ADDSLOTSRANGE", i*slots.Count/3, (i+1)*slots.Count/3-1)
		n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	testkit.Meet(t, nodes[0], busPortOf(nodes[0]), nodes[1:]...)
	for _, n := range nodes {
		testkit.Until(t, testkit.Slowly(patience), "every node sees a well cluster",
			func() error { return well(n, len(nodes)) })
	}
	primary, replicas = nodes[0], nodes[3:]
	for _, n := range replicas {
		n.Do("CLUSTER", "REPLICATE", primary.Do("CLUSTER", "MYID").Text)
	}
	synced(t, replicas...)
	for _, n := range nodes {
		n.Do("CONFIG", "SET", "min-replicas-to-ack", acks)
	}
	for _, n := range nodes {
		testkit.Until(t, testkit.Slowly(patience), "every node knows the replicas", func() error {
			return testkit.Equal(strings.Count(n.Do("CLUSTER", "NODES").Text, primary.Do("CLUSTER", "MYID").Text), 1+count)
		})
	}
	key = keyOf(t, primary)
	testkit.Until(t, testkit.Slowly(patience), "a first write", func() error { // no offset is 0 then: that is unknown
		v, err := primary.Ask("SET", key, 0)
		return errors.Join(err, v.Err())
	})
	for _, n := range replicas {
		testkit.Until(t, testkit.Slowly(patience), "the first write is there", func() error {
			return testkit.Equal(n.InfoInt("replication", "slave_repl_offset") > 0, true)
		})
	}
	return primary, replicas, nodes[1:3], key
}

// confirmWithout has a primary confirm a write, INCR of key, while one of its replicas stands still. That replica has
// nothing in its socket, so it lacks the write when it continues. others are the primary's other replicas.
func confirmWithout(t *testing.T, primary, lacks *testkit.Server, key string, others int64) {
	t.Helper()
	lacks.Signal(syscall.SIGSTOP)
	primary.Do("CLIENT", "KILL", "TYPE", "replica")
	testkit.Until(t, testkit.Slowly(patience), "the others are back",
		func() error { return testkit.Equal(primary.InfoInt("replication", "connected_slaves"), others) })
	if v := primary.Do("INCR", key); v.Int != 1 {
		t.Fatalf("INCR: %+v", v)
	}
}

// confirmedByOne makes a shard with two replicas whose primary confirms a write when one of them has it. The first
// replica has the last confirmed write, and stands still. The second one lacks it. The primary is gone.
func confirmedByOne(t *testing.T) (has, lacks *testkit.Server, key string, voters []*testkit.Server) {
	t.Helper()
	primary, replicas, voters, key := confirmingShard(t, 2, 1)
	has, lacks = replicas[0], replicas[1]
	confirmWithout(t, primary, lacks, key, 1)
	has.Signal(syscall.SIGSTOP)
	primary.Kill()
	lacks.Signal(syscall.SIGCONT)
	return has, lacks, key, voters
}

const mayBeMissing = "A confirmed write may be missing here"

// takesOver waits until a replica has taken over, with a confirmed write: key is 1. The others follow it then.
func takesOver(t *testing.T, has *testkit.Server, key string, others ...*testkit.Server) {
	t.Helper()
	testkit.Until(t, testkit.Slowly(patience), "the replica with the write takes over", func() error { return role(has) })
	synced(t, others...)
	testkit.Until(t, testkit.Slowly(patience), "the write is there", func() error {
		v, err := has.Ask("GET", key)
		return errors.Join(err, testkit.Equal(v.Text, "1"))
	})
}

// TestElectionCountsEveryNode: two of three replicas have a confirmed write. One of them stands still, and the other
// one starts again without data, so it does not know its offset. The third one lacks the write, and does not take over.
// The number of replicas that it has to hear is counted over all nodes of the shard, and an unknown offset is none.
func TestElectionCountsEveryNode(t *testing.T) {
	t.Parallel()
	primary, replicas, _, key := confirmingShard(t, 3, 2)
	has, gone, lacks := replicas[0], replicas[1], replicas[2]
	confirmWithout(t, primary, lacks, key, 2)
	primary.AwaitInfo(testkit.Slowly(patience), "replication", "ack_replicas_known", "3")
	primary.AwaitInfo(testkit.Slowly(patience), "replication", "ack_replicas_well", "2")
	primary.AwaitInfo(testkit.Slowly(patience), "replication", "ack_replicas_for_failover", "2")
	has.Signal(syscall.SIGSTOP)
	primary.Kill()
	gone.Kill()
	lacks.Signal(syscall.SIGCONT)
	lacks.AwaitLog(testkit.Slowly(patience), "until 2 of the 3 replicas are known")
	gone.Restart("--min-replicas-to-ack", "2")
	lacks.AwaitLog(testkit.Slowly(patience), "Now 1 are, and 1 do not know their offset")
	gone.AwaitLog(testkit.Slowly(patience), mayBeMissing)
	for _, n := range []*testkit.Server{gone, lacks} {
		if role(n) == nil {
			t.Error("a replica without a confirmed write has taken over")
		}
	}
	has.Signal(syscall.SIGCONT)
	takesOver(t, has, key, gone, lacks)
}

// TestUnknownOffsetDoesNotStand: all replicas have every confirmed write. One starts again without data, and does not
// take over while the other one stands still.
func TestUnknownOffsetDoesNotStand(t *testing.T) {
	t.Parallel()
	primary, replicas, _, key := confirmingShard(t, 2, 2)
	has, unknown := replicas[0], replicas[1]
	if v := primary.Do("INCR", key); v.Int != 1 {
		t.Fatalf("INCR: %+v", v)
	}
	has.Signal(syscall.SIGSTOP)
	primary.Kill()
	unknown.Kill()
	unknown.Restart("--min-replicas-to-ack", "2")
	unknown.AwaitLog(testkit.Slowly(patience), mayBeMissing)
	if role(unknown) == nil {
		t.Error("a replica without data has taken over")
	}
	has.Signal(syscall.SIGCONT)
	testkit.Until(t, testkit.Slowly(patience), "the other one takes over", func() error { return role(has) })
	primary.Restart("--min-replicas-to-ack", "2")
	takesOver(t, has, key, unknown, primary)
}

// TestElectionWaits: a replica that may lack a confirmed write does not take over while it cannot hear the other one.
// When the other one is back, that takes over, and has the write.
func TestElectionWaits(t *testing.T) {
	t.Parallel()
	has, lacks, key, _ := confirmedByOne(t)
	lacks.AwaitLog(testkit.Slowly(patience), mayBeMissing)
	if err := role(lacks); err == nil {
		t.Error("a replica without a confirmed write has taken over")
	}
	has.Signal(syscall.SIGCONT)
	takesOver(t, has, key, lacks)
}

// TestNothingIsConfirmedToAFailedPrimary (a part of state.Q2): a primary stands still until its replica knows of its
// failure. Then it continues, and gets a write. The reply waits until the replica knows that the primary is well again.
func TestNothingIsConfirmedToAFailedPrimary(t *testing.T) {
	t.Parallel()
	primary, replicas, _, key := confirmingShard(t, 1, 1, "--cluster-replica-no-failover", "yes")
	replica := replicas[0]
	primary.Signal(syscall.SIGSTOP)
	testkit.Until(t, testkit.Slowly(patience), "the replica knows of the failure", func() error {
		return testkit.Equal(strings.Contains(replica.Do("CLUSTER", "NODES").Text, " master,fail,"), true) // …nofailover
	})
	primary.Signal(syscall.SIGCONT)
	testkit.Until(t, testkit.Slowly(patience), "a confirmed write", func() error {
		v, err := primary.Ask("INCR", key) // CLUSTERDOWN at first
		if err = errors.Join(err, v.Err()); err == nil && !strings.Contains(replica.Log(), "Clear FAIL state for node") {
			t.Error("a replica has confirmed a write to a primary that has failed")
		}
		return err
	})
}

// TestElectionIsForced: an operator decides that the election waits no longer.
func TestElectionIsForced(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"FAILOVER FORCE", "FAILOVER TAKEOVER", "FORGET"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			has, lacks, _, voters := confirmedByOne(t)
			lacks.AwaitLog(testkit.Slowly(patience), mayBeMissing)
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

// TestOrdersDoNotWaitForReplicas: a node that has no replica, and waits for two, answers CLUSTER commands whose change
// goes to the disk first. They show no data.
func TestOrdersDoNotWaitForReplicas(t *testing.T) {
	t.Parallel()
	n := node(t, false, "--min-replicas-to-ack", "2", "--ack-timeout", "600000")
	n.Do("CLUSTER", "ADDSLOTSRANGE", 0, slots.Count-1)
	n.Do("CLUSTER", "SET-CONFIG-EPOCH", 1)
	n.Do("CLUSTER", "BUMPEPOCH")
	n.Do("CLUSTER", "DELSLOTS", 7)
	n.AwaitInfo(testkit.Slowly(patience), "replication", "ack_state", "waiting")
}

// serves waits until a node serves a key's slot as primary, with value want.
func serves(t *testing.T, n *testkit.Server, key, want string) {
	t.Helper()
	testkit.Until(t, testkit.Slowly(patience), n.Addr+" serves "+want, func() error {
		v, err := n.Ask("GET", key)
		return errors.Join(err, role(n), testkit.Equal(v.Text, want))
	})
}

// heirOf waits until a replica has taken over.
func heirOf(t *testing.T, replicas ...*testkit.Server) (heir *testkit.Server) {
	t.Helper()
	testkit.Until(t, testkit.Slowly(patience), "a replica takes over", func() (err error) {
		for _, n := range replicas {
			heir = n
			if err = role(n); err == nil {
				return nil
			}
		}
		return err
	})
	return heir
}

const mayLack = "This primary has started, and may lack a confirmed write"

// unnoticed has a primary start again before any node has noticed that it was away.
var unnoticed = []string{"--cluster-node-timeout", "10000"}

// TestPrimaryIsBackWithOlderData (state.Q4 and state.Q5): a primary is killed and starts again without a confirmed
// write, before any node has noticed or while an election waits. No replica takes its data, and it does not serve its
// slots. A replica that has the write takes over.
func TestPrimaryIsBackWithOlderData(t *testing.T) {
	t.Parallel()
	t.Run("empty", func(t *testing.T) {
		t.Parallel()
		primary, replicas, _, key := confirmingShard(t, 2, 2, unnoticed...)
		if v := primary.Do("INCR", key); v.Int != 1 {
			t.Fatalf("INCR: %+v", v)
		}
		primary.Kill()
		primary.Restart("--min-replicas-to-ack", "2")
		heir := heirOf(t, replicas...)
		takesOver(t, heir, key, primary)
	})
	t.Run("snapshot", func(t *testing.T) {
		t.Parallel()
		primary, replicas, _, key := confirmingShard(t, 1, 1, unnoticed...)
		// When the snapshot is loaded, these keys have lapsed. Their removal is in the stream, which is then longer than
		// that of the replica.
		const lapse = 2000
		name := func(i int) string { return fmt.Sprintf("%s%d{%s}", strings.Repeat("long", 50), i, key) }
		writer := primary.Dial()
		testkit.Pipe(t, writer, lapse, func(i int) []any { return []any{"SET", name(i), i, "PX", 600_000} })
		at := time.Now().Add(5 * time.Second)
		testkit.Pipe(t, writer, lapse, func(i int) []any { return []any{"PEXPIREAT", name(i), at.UnixMilli()} })
		primary.Do("SAVE")
		if v := primary.Do("INCR", key); v.Int != 1 {
			t.Fatalf("INCR: %+v", v)
		}
		primary.Kill()
		testkit.Until(t, testkit.Slowly(patience), "the keys lapse while the server is down", func() error {
			return testkit.Equal(time.Now().After(at), true)
		})
		primary.Restart("--min-replicas-to-ack", "1")
		heir := heirOf(t, replicas...)
		takesOver(t, heir, key, primary)
	})
	t.Run("failed", func(t *testing.T) {
		t.Parallel()
		primary, replicas, _, key := confirmingShard(t, 2, 1)
		has, lacks := replicas[0], replicas[1]
		confirmWithout(t, primary, lacks, key, 1)
		has.Signal(syscall.SIGSTOP)
		primary.Kill()
		lacks.Signal(syscall.SIGCONT)
		lacks.AwaitLog(testkit.Slowly(patience), mayBeMissing)
		primary.Restart("--min-replicas-to-ack", "1")
		primary.AwaitLog(testkit.Slowly(patience), mayLack)
		lacks.AwaitLog(testkit.Slowly(patience), "Can't SYNC while this master may have older data")
		if role(lacks) == nil {
			t.Error("a replica without a confirmed write has taken over")
		}
		has.Signal(syscall.SIGCONT)
		takesOver(t, has, key, lacks, primary)
	})
}

// TestPrimaryIsBackWithItsLog: after a good end a primary knows that it has all data, and needs no replica to serve
// again. After a kill it does not know how much it has, so that a replica takes over.
func TestPrimaryIsBackWithItsLog(t *testing.T) {
	t.Parallel()
	t.Run("good end", func(t *testing.T) {
		t.Parallel()
		primary, replicas, _, key := confirmingShard(t, 2, 1, unnoticed...)
		primary.Do("CONFIG", "SET", "appendonly", "yes")
		primary.AwaitInfo(testkit.Slowly(patience), "persistence", "aof_rewrite_in_progress", "0")
		confirmWithout(t, primary, replicas[1], key, 1)
		if code := primary.Terminate(); code != 0 {
			t.Fatalf("the primary ends with %d", code)
		}
		primary.Restart("--min-replicas-to-ack", "1", "--appendonly", "yes")
		serves(t, primary, key, "1")
		replicas[1].Signal(syscall.SIGCONT)
		synced(t, replicas...)
		for _, n := range replicas {
			if role(n) == nil {
				t.Error("a replica has taken over from a primary that lacks nothing")
			}
		}
		if v := primary.Do("INCR", key); v.Int != 2 {
			t.Fatalf("INCR: %+v", v)
		}
		primary.Kill() // the note of the good end is not valid any more
		primary.Restart()
		heir := heirOf(t, replicas...)
		testkit.Until(t, testkit.Slowly(patience), "the writes are there", func() error {
			v, err := heir.Ask("GET", key)
			return errors.Join(err, testkit.Equal(v.Text, "2"))
		})
		synced(t, primary)
	})
	t.Run("good end with a snapshot", func(t *testing.T) {
		t.Parallel()
		primary, replicas, _, key := confirmingShard(t, 2, 1, unnoticed...)
		if v := primary.Do("INCR", key); v.Int != 1 {
			t.Fatalf("INCR: %+v", v)
		}
		primary.Do("CONFIG", "SET", "save", "3600 1")
		if code := primary.Terminate(); code != 0 {
			t.Fatalf("the primary ends with %d", code)
		}
		primary.Restart("--min-replicas-to-ack", "1")
		serves(t, primary, key, "1")
		synced(t, replicas...)
		if n := primary.InfoInt("stats", "sync_partial_ok"); n != 2 {
			t.Errorf("%d replicas have continued, not 2", n)
		}
	})
	t.Run("all are killed", func(t *testing.T) {
		t.Parallel()
		primary, replicas, _, key := confirmingShard(t, 2, 1, unnoticed...)
		primary.Do("CONFIG", "SET", "appendonly", "yes")
		primary.AwaitInfo(testkit.Slowly(patience), "persistence", "aof_rewrite_in_progress", "0")
		if v := primary.Do("INCR", key); v.Int != 1 {
			t.Fatalf("INCR: %+v", v)
		}
		for _, n := range append(replicas, primary) {
			n.Kill()
		}
		for _, n := range append(replicas, primary) {
			n.Restart("--min-replicas-to-ack", "1", "--appendonly", "yes")
		}
		serves(t, primary, key, "1")
		synced(t, replicas...)
	})
}
