package topology

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// follow starts a replica of s, spindle or redis-server, and returns when the link is up.
func follow(t *testing.T, s *testkit.Server, redis bool, args ...string) *testkit.Server {
	t.Helper()
	spec := testkit.Spec{Redis: redis, Args: append([]string{"--replicaof", "127.0.0.1 " + strconv.Itoa(s.Port),
		"--repl-backlog-size", "64mb", "--propagation-error-behavior", "panic"}, args...)}
	if !redis {
		spec.Args = append(spec.Args, "--loglevel", "verbose")
	}
	r := testkit.Launch(t, spec)
	up(t, r)
	return r
}

func up(t *testing.T, r *testkit.Server) {
	t.Helper()
	r.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "master_link_status", "up")
}

// online returns when s lists n replicas as online.
func online(t *testing.T, s *testkit.Server, n int) {
	t.Helper()
	s.AwaitOnline(testkit.Slowly(60*time.Second), n)
}

// TestFollowsRedis: spindle replicates a redis-server while clients write, with each way of receiving the full copy. In
// the end both have equal data.
func TestFollowsRedis(t *testing.T) {
	t.Parallel()
	s := testkit.Redis(t)
	testkit.Pipe(t, s.Dial(), 3000, func(i int) []any { return []any{"SET", fmt.Sprint("still:", i), i} })
	s.Do("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function{function_name='f', "+
		"callback=function() return 7 end, flags={'no-writes'}}")
	w := startWriters(t, s, 2, uint64(time.Now().UnixNano()))
	var replicas []*testkit.Server
	for i, how := range []string{"disabled", "on-empty-db", "swapdb"} {
		w.await(int64(600 * (i + 1)))
		replicas = append(replicas, follow(t, s, false, "--repl-diskless-load", how))
	}
	s.Do("CONFIG", "SET", "repl-diskless-sync", "no") // the form of the copy with a length
	replicas = append(replicas, follow(t, s, false), follow(t, s, false, "--repl-diskless-load", "swapdb"))
	w.await(3000)
	w.stop()
	for _, r := range replicas {
		equal(t, s, r)
		if n := r.InfoInt("stats", "unexpected_error_replies"); n != 0 {
			t.Errorf("%d effects were errors at the replica", n)
		}
		if n := r.Do("FCALL_RO", "f", "0"); n.Int != 7 {
			t.Errorf("a function of the copy: %v", n)
		}
	}
	if n := s.InfoInt("stats", "sync_full"); n != 5 {
		t.Errorf("sync_full:%d: a link broke on the way", n)
	}
}

// TestPromotion: a replica that has replicas is promoted. Its replicas, the other replicas of the old primary, and the
// old primary continue by partial synchronisation.
func TestPromotion(t *testing.T) {
	t.Parallel()
	for _, redis := range []bool{false, true} {
		t.Run(map[bool]string{false: "spindle", true: "redis-server"}[redis], func(t *testing.T) {
			old := testkit.Launch(t, testkit.Spec{Redis: redis, Args: []string{"--repl-backlog-size", "8mb",
				"--repl-ping-replica-period", "3600"}})
			next := follow(t, old, !redis)
			sibling, below := follow(t, old, redis), follow(t, next, redis)
			w := startWriters(t, old, 2, 5)
			w.await(2000)
			w.stop()
			// If the old primary's offset grew by itself, by a ping or an expired key, it would rightly exceed the
			// offset of the promotion.
			old.Do("DEBUG", "SET-ACTIVE-EXPIRE", "0")
			for _, r := range []*testkit.Server{next, sibling, below} {
				settle(t, old, r)
			}
			next.Do("REPLICAOF", "NO", "ONE")
			if id := next.Info("replication")["master_replid2"]; id != old.Info("replication")["master_replid"] {
				t.Errorf("the second id is %s", id)
			}
			next.Do("SET", "after", "promotion")
			for _, r := range []*testkit.Server{sibling, old} {
				r.Do("REPLICAOF", "127.0.0.1", next.Port)
				up(t, r)
			}
			up(t, below)
			testkit.Lapse(testkit.Slowly(2 * time.Second)) // until all short-lived keys have expired on the new primary too
			for _, r := range []*testkit.Server{old, sibling, below} {
				equal(t, next, r)
			}
			if n, m := next.InfoInt("stats", "sync_full"), next.InfoInt("stats", "sync_partial_ok"); n != 1 || m != 3 {
				t.Errorf("sync_full:%d sync_partial_ok:%d at the new primary, want 1 and 3", n, m)
			}
		})
	}
}

// TestLongLoad: a load may take longer than repl-timeout. The replica does not read from the primary meanwhile, so it
// must not treat the primary as silent.
func TestLongLoad(t *testing.T) {
	t.Parallel()
	for _, redis := range []bool{false, true} {
		t.Run(map[bool]string{false: "spindle", true: "redis-server"}[redis], func(t *testing.T) {
			t.Parallel()
			s := testkit.Launch(t, testkit.Spec{Redis: redis, Args: []string{"--repl-ping-replica-period", "1"}})
			s.Do("DEBUG", "POPULATE", "4000", "key", "10")
			for _, how := range []string{"disabled", "swapdb"} {
				r := testkit.Start(t, "--key-load-delay", "1000", "--repl-timeout", "2", "--repl-diskless-load", how)
				r.Do("REPLICAOF", "127.0.0.1", s.Port)
				up(t, r)
				equal(t, s, r)
			}
			if n := s.InfoInt("stats", "sync_full"); n != 2 {
				t.Errorf("sync_full:%d: a load was given up", n)
			}
		})
	}
}
