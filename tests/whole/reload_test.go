package whole

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// reloadKeys is the number of keys that fill adds.
const reloadKeys = 1000

// fill adds keys to s and its replica r. DEBUG LOADAOF on s takes some seconds then.
func fill(t *testing.T, s, r *testkit.Server) {
	t.Helper()
	s.Do("EVAL", "for i = 0, ARGV[1] - 1 do redis.call('SET', '{a}old:' .. i, i) end", 0, reloadKeys)
	s.Do("BGREWRITEAOF")
	(&cell{scene: &scene{serverSet: &serverSet{TB: t}}}).rewritten(s)
	alike(t, s, r)
	s.Do("CONFIG", "SET", "key-load-delay", 2000)
}

// reloads begins DEBUG LOADAOF.
func reloads(t *testing.T, s *testkit.Server) (load *call) {
	t.Helper()
	load = sent(s, "DEBUG", "LOADAOF")
	testkit.Until(t, testkit.Slowly(20*time.Second), "a server that loads", func() error {
		v, err := s.Ask("GET", "{a}k")
		if err == nil && !strings.HasPrefix(v.Text, "LOADING") {
			err = fmt.Errorf("%v", v)
		}
		return err
	})
	return load
}

// demoted writes to the new primary r of s, which loads its log. Then it checks that s follows r and has the same data.
func demoted(t *testing.T, s, r *testkit.Server, load *call) {
	t.Helper()
	const more = 100
	r.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "role", "master")
	for i := range more {
		testkit.Until(t, testkit.Slowly(20*time.Second), "a write", func() error {
			v, err := r.Ask("SET", fmt.Sprint("{a}new:", i), i)
			if err == nil {
				err = v.Err()
			}
			return err
		})
		testkit.Lapse(10 * time.Millisecond)
	}
	load.answer(t)
	s.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "role", "slave")
	s.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "master_link_status", "up")
	alike(t, r, s)
	if n := s.Do("DBSIZE").Int; n != reloadKeys+more {
		t.Errorf("the replica has %d keys, not %d", n, reloadKeys+more)
	}
}

// TestDemotedDuringReload: a primary of a cluster loads its log again, by DEBUG LOADAOF, when its replica takes over.
// It becomes a replica only after the load. Otherwise the new primary's stream would be refused with LOADING, or a full
// copy would mix with what the log brings.
func TestDemotedDuringReload(t *testing.T) {
	t.Parallel()
	s, r := clusterPair(t, "--appendonly", "yes")
	fill(t, s, r)
	load := reloads(t, s)
	r.Do("CLUSTER", "FAILOVER", "TAKEOVER")
	demoted(t, s, r, load)
}

// TestFailoverDuringReload: a primary waits for its replica to take over, and is told meanwhile to load its log again.
// It hands over only after the load.
func TestFailoverDuringReload(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--appendonly", "yes")
	r := testkit.Start(t, "--appendonly", "yes", "--replicaof", "127.0.0.1 "+strconv.Itoa(s.Port))
	s.AwaitReplica(testkit.Slowly(20*time.Second), r)
	fill(t, s, r)
	r.Signal(syscall.SIGSTOP)
	defer r.Signal(syscall.SIGCONT)
	s.Do("SET", "{a}old:0", "again") // the replica lacks this
	s.Do("FAILOVER")
	load := reloads(t, s)
	r.Signal(syscall.SIGCONT)
	demoted(t, s, r, load)
}
