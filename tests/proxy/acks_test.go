package proxy

import (
	"errors"
	"strconv"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestConfirmedThroughAProxy: replies wait for a replica. A primary that holds a reply for a client of the proxy is
// killed: the client gets an error, never the reply. Then its replica takes over, and has all that was confirmed. The
// same holds for sixteen clients when primaries are killed under them.
func TestConfirmedThroughAProxy(t *testing.T) {
	t.Parallel()
	all := startTier(t, false, 1, 2, "--proxy-timeout", "600000")
	acks := []string{"--min-replicas-to-ack", "1", "--ack-timeout", "600000"}
	for _, s := range all.shards {
		s.Do("CONFIG", "SET", "min-replicas-to-ack", 1, "ack-timeout", 600_000)
	}
	primary := all.ownerOf(t, "k")
	replica := all.replicaOf(t, primary, primary.Do("CLUSTER", "MYID").Text)
	c := all.proxies[0].Dial()
	confirmed := int64(0)
	for range 20 {
		v, err := c.Do("INCR", "k")
		if err != nil || v.Err() != nil {
			t.Fatalf("INCR: %v %v", v, err)
		}
		confirmed = v.Int
	}
	freeze(t, replica)
	send(t, c, "INCR", "k")
	primary.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "ack_state", "waiting")
	primary.Kill()
	if v, err := c.Receive(); err != nil || v.Err() == nil {
		t.Errorf("the reply of a primary that has died: %v %v", v, err)
	}
	replica.Signal(syscall.SIGCONT)
	took := func(s *testkit.Server) {
		t.Helper()
		testkit.Until(t, testkit.Slowly(60*time.Second), "the replica takes over", func() error {
			return testkit.Equal(s.Info("replication")["role"], "master")
		})
	}
	back := func(s *testkit.Server) {
		t.Helper()
		s.Restart(acks...)
		s.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "master_link_status", "up")
	}
	took(replica)
	back(primary)
	testkit.Until(t, testkit.Slowly(60*time.Second), "the key through the proxy", func() error {
		v, err := c.Do("GET", "k")
		if err == nil && v.Err() == nil {
			if n, _ := strconv.ParseInt(v.Text, 10, 64); n < confirmed || n > confirmed+1 {
				t.Fatalf("the key is %d, %d were confirmed", n, confirmed)
			}
		}
		return errors.Join(err, v.Err())
	})

	n := all.count(t, 16)
	failovers := 2 * testkit.Scale()
	for range failovers {
		primary := all.ownerOf(t, "k")
		replica := all.replicaOf(t, primary, primary.Do("CLUSTER", "MYID").Text)
		testkit.Until(t, testkit.Slowly(60*time.Second), "the replica has the data", func() error {
			return testkit.Equal(replica.Info("replication")["master_link_status"], "up")
		})
		primary.Kill()
		took(replica)
		back(primary)
	}
	n.check(t, all)
	sum := int64(0)
	for _, acknowledged := range n.acknowledged {
		sum += acknowledged
	}
	t.Logf("count: %d failovers, %d confirmed writes, 0 lost", failovers+1, sum)
}
