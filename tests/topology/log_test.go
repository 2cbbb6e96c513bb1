package topology

import (
	"strconv"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestReplicaKeepsALog: a replica's append-only file has its primary's data, after a full copy and the stream after it.
// After a kill and a restart from its log alone, the replica has the primary's data.
func TestReplicaKeepsALog(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		redis, atStart bool
	}{{"of redis", true, false}, {"of spindle", false, false}, {"of spindle, from its start on", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			s := testkit.Launch(t, testkit.Spec{Redis: c.redis})
			w := startWriters(t, s, 2, 1)
			w.await(1000)
			args := []string{"--appendonly", "yes", "--appendfsync", "always"}
			if c.atStart {
				args = append(args, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.Port))
			}
			r := testkit.Start(t, args...)
			if !c.atStart {
				r.Do("SET", "own", "must go")
				r.Do("REPLICAOF", "127.0.0.1", strconv.Itoa(s.Port))
			}
			up(t, r)
			w.await(2000)
			w.stop()
			// Wait until no more keys can expire, on the primary or in the data that the log restores.
			testkit.Lapse(volatileMs * time.Millisecond)
			removeLapsed(t, s)
			s.Do("SET", "last", "word")
			equal(t, s, r)
			testkit.Until(t, testkit.Slowly(20*time.Second), "a log of the new data", func() error {
				i := r.Info("persistence")
				return testkit.Equal(i["aof_rewrite_in_progress"]+" "+i["aof_rewrite_scheduled"], "0 0")
			})
			want, digest := contents(t, s), s.Do("DEBUG", "DIGEST").Text
			r.Kill()
			s.Kill() // now no primary can give the replica a copy
			r.Again("--appendonly", "yes", "--save", "")
			r.AwaitReady(testkit.Slowly(20 * time.Second))
			for _, line := range differences(want, contents(t, r)) {
				t.Error(line)
			}
			if got := r.Do("DEBUG", "DIGEST").Text; got != digest {
				t.Errorf("digest %s from the log, %s at the primary", got, digest)
			}
			if n := r.Do("EXISTS", "own"); n.Int != 0 {
				t.Error("a key of before the copy is back")
			}
		})
	}
}
