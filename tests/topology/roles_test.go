package topology

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// counters has connections that each increment a key, together about 20,000 times a second. They write to whichever of
// two nodes accepts writes.
type counters struct {
	t     *testing.T
	nodes [2]*testkit.Server
	done  atomic.Bool
	wait  sync.WaitGroup
	acked [4]atomic.Int64 // the last value of each counter, by the replies
}

const (
	countPause = 10 * time.Millisecond
	countBatch = 50
)

func startCounters(t *testing.T, a, b *testkit.Server) *counters {
	c := &counters{t: t, nodes: [2]*testkit.Server{a, b}}
	for i := range c.acked {
		conns := [2]*respclient.Client{a.Dial(), b.Dial()}
		c.wait.Go(func() {
			at := 0
			for pace := time.Tick(countPause); !c.done.Load(); <-pace {
				if !c.count(i, conns[at]) {
					at = 1 - at
				}
			}
		})
	}
	return c
}

// count sends a batch of increments. It reports whether the node accepted them.
func (c *counters) count(i int, conn *respclient.Client) bool {
	key := fmt.Sprint("counter:", i)
	for range countBatch {
		conn.Send("INCR", key)
	}
	takes := true
	for range countBatch {
		v, err := conn.Receive()
		switch {
		case err != nil:
			c.t.Errorf("counter %d: %v", i, err)
			c.done.Store(true)
			return true
		case strings.HasPrefix(v.Text, "READONLY"):
			takes = false
		case v.Int != c.acked[i].Add(1):
			c.t.Errorf("counter %d: %v instead of %d: a write that was acknowledged is lost, or one that was refused is not",
				i, v, c.acked[i].Load())
			c.done.Store(true)
			return true
		}
	}
	return takes
}

func (c *counters) sum() (n int64) {
	for i := range c.acked {
		n += c.acked[i].Load()
	}
	return n
}

// TestFailover: under 20,000 writes a second, FAILOVER hands over in both directions between spindle and each kind of
// server. No acknowledged write is lost.
func TestFailover(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{testkit.Ours, testkit.Redis70, testkit.Redis74, testkit.Redis8, testkit.Valkey9} {
		t.Run("spindle and "+kind, func(t *testing.T) {
			t.Parallel()
			spec := testkit.Kind(t, kind)
			a := testkit.Start(t, "--repl-backlog-size", "64mb")
			spec.Args = []string{"--replicaof", "127.0.0.1 " + strconv.Itoa(a.Port), "--repl-backlog-size", "64mb"}
			b := testkit.Launch(t, spec)
			up(t, b)
			nodes := []*testkit.Server{a, b}
			c := startCounters(t, a, b)
			began := time.Now()
			rounds := 3 * testkit.Scale()
			for round := range rounds {
				primary, other := nodes[round%2], nodes[1-round%2]
				online(t, primary, 1)
				to := []any{"FAILOVER", "TO", "127.0.0.1", other.Port, "TIMEOUT", "60000"}
				if round%3 == 0 {
					to = []any{"FAILOVER"}
				}
				if v := primary.Do(to...); v.Text != "OK" {
					t.Fatalf("FAILOVER: %v", v)
				}
				other.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "role", "master")
				up(t, primary)
				primary.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_failover_state", "no-failover")
				at := c.sum()
				testkit.Until(t, testkit.Slowly(20*time.Second), "writes at the new primary", func() error {
					if n := c.sum() - at; n < 2000 && !c.done.Load() {
						return fmt.Errorf("%d", n)
					}
					return nil
				})
				if c.done.Load() {
					break
				}
			}
			c.done.Store(true)
			c.wait.Wait()
			t.Logf("%d rounds, %d writes, %.0f a second", rounds, c.sum(), float64(c.sum())/time.Since(began).Seconds())
			equal(t, nodes[rounds%2], nodes[1-rounds%2])
			for i := range c.acked {
				if got, want := a.Do("GET", fmt.Sprint("counter:", i)).Text, strconv.FormatInt(c.acked[i].Load(), 10); got != want {
					t.Errorf("counter %d: %s, and %s were acknowledged", i, got, want)
				}
			}
			if n := a.InfoInt("stats", "sync_full") + b.InfoInt("stats", "sync_full"); n != 1 {
				t.Errorf("%d full synchronisations in all, want the first one alone", n)
			}
		})
	}
}

// TestReplicaOfInMulti: a primary that is demoted in a transaction, as by a Sentinel, continues without a full copy. If
// the transaction also writes, a full copy reverts its writes.
func TestReplicaOfInMulti(t *testing.T) {
	a := testkit.Start(t)
	b := follow(t, a, false)
	a.Do("SET", "k", "v")
	settle(t, a, b)
	demote := func(old, next *testkit.Server, others ...[]any) {
		t.Helper()
		next.Do("REPLICAOF", "NO", "ONE")
		old.Do("MULTI")
		for _, other := range others {
			old.Do(other...)
		}
		old.Do("REPLICAOF", "127.0.0.1", next.Port)
		old.Do("CLIENT", "NO-EVICT", "off")
		if v := old.Do("EXEC"); len(v.Elems) != len(others)+2 {
			t.Fatalf("EXEC: %v", v)
		}
		up(t, old)
		next.Do("SET", "after", "it")
		equal(t, next, old)
	}
	demote(a, b)
	if n := b.InfoInt("stats", "sync_full"); n != 0 {
		t.Errorf("%d full synchronisations without a write", n)
	}
	demote(b, a, []any{"SET", "own", "1"})
	if n := a.InfoInt("stats", "sync_full"); n != 2 { // the first copy of b, and this one
		t.Errorf("%d full synchronisations after a write", n)
	}
}

// TestFailoverAborts: if a replica does not catch up in time, or FAILOVER ABORT is sent, the primary keeps its role.
func TestFailoverAborts(t *testing.T) {
	s := testkit.Start(t)
	r := follow(t, s, true)
	online(t, s, 1)
	r.Signal(19) // SIGSTOP: it acknowledges nothing
	defer r.Signal(18)
	s.Do("SET", "k", "v")
	if v := s.Do("FAILOVER", "TIMEOUT", "100"); v.Text != "OK" {
		t.Fatalf("FAILOVER: %v", v)
	}
	testkit.Until(t, testkit.Slowly(10*time.Second), "the abort", func() error {
		return testkit.Equal(s.Info("replication")["master_failover_state"], "no-failover")
	})
	s.Do("FAILOVER")
	if got := s.Info("replication")["master_failover_state"]; got != "waiting-for-sync" {
		t.Errorf("state %s", got)
	}
	offset := s.InfoInt("replication", "master_repl_offset")
	for range 3 {
		s.Do("WAIT", "9", "1")
	}
	if got := s.InfoInt("replication", "master_repl_offset"); got != offset {
		t.Errorf("the stream grows under WAIT from %d to %d: a replica that is far away never has all of it", offset, got)
	}
	s.Do("FAILOVER", "ABORT")
	s.Do("WAIT", "9", "1")
	if got := s.InfoInt("replication", "master_repl_offset"); got == offset {
		t.Error("WAIT asks no replica after a failover was aborted")
	}
	s.Do("SET", "k", "w") // writes are not paused
	if got := s.Info("replication")["role"]; got != "master" {
		t.Errorf("role %s", got)
	}
}

// TestRestartsByFile: the replication history survives a restart from an RDB file, of the primary and of the replica.
// Nodes that had equal data continue without a full copy.
func TestRestartsByFile(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t)
	r := follow(t, s, false)
	below := follow(t, r, true)
	s.Do("SELECT", "5")
	s.Do("SET", "k", "v")
	settle(t, s, r)
	settle(t, s, below)
	id, offset := s.Info("replication")["master_replid"], s.Info("replication")["master_repl_offset"]
	s.Do("SAVE")
	s.Kill()
	s.Restart()
	if i := s.Info("replication"); i["master_replid2"] != id || i["master_replid"] == id ||
		i["master_repl_offset"] != offset {
		t.Errorf("after the restart: id %s, second %s at %s; before: %s at %s",
			i["master_replid"], i["master_replid2"], i["master_repl_offset"], id, offset)
	}
	up(t, r)
	up(t, below)
	s.Do("SET", "after", "restart")
	equal(t, s, r)
	equal(t, s, below)
	if n := s.InfoInt("stats", "sync_full") + r.InfoInt("stats", "sync_full"); n != 1 { // r's first copy for below
		t.Errorf("%d full synchronisations", n)
	}
	r.Do("SAVE")
	r.Kill()
	s.Do("SET", "while", "away")
	r.Restart()
	up(t, r)
	up(t, below)
	equal(t, s, r)
	equal(t, s, below)
	if n, m := s.InfoInt("stats", "sync_full"), s.InfoInt("stats", "sync_partial_ok"); n != 0 || m != 2 {
		t.Errorf("sync_full:%d sync_partial_ok:%d after the replica's restart", n, m)
	}
}

// TestCopyThatBreaks: if a full copy breaks off in the middle, the old data stays if the setting promises that. No
// temporary file is left.
func TestCopyThatBreaks(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"disabled", "on-empty-db", "swapdb"} {
		t.Run(how, func(t *testing.T) {
			r := testkit.Start(t, "--repl-diskless-load", how, "--dbfilename", "r.rdb")
			r.Do("SET", "old", "v")
			s := testkit.Redis(t, "--rdb-key-save-delay", "2000", "--rdbcompression", "no")
			testkit.Pipe(t, s.Dial(), 1500,
				func(i int) []any { return []any{"SET", fmt.Sprint("k:", i), strings.Repeat("x", 500)} })
			r.Do("REPLICAOF", "127.0.0.1", s.Port)
			testkit.Until(t, testkit.Slowly(20*time.Second), "some of the copy", func() error {
				n, _ := strconv.Atoi(r.Info("replication")["master_sync_read_bytes"])
				if n < 100_000 {
					return fmt.Errorf("%d bytes", n)
				}
				return nil
			})
			s.Kill()
			testkit.Until(t, testkit.Slowly(20*time.Second), "the old data", func() error {
				v, err := r.Ask("GET", "old")
				if err == nil {
					err = testkit.Equal(v.Text, "v")
				}
				return err
			})
			testkit.Until(t, testkit.Slowly(10*time.Second), "the temporary file to go", func() error {
				for _, name := range r.Files() {
					if strings.Contains(name, "temp") {
						return fmt.Errorf("%s is left", name)
					}
				}
				return nil
			})
			s.Restart("--rdb-key-save-delay", "0")
			testkit.Pipe(t, s.Dial(), 100, func(i int) []any { return []any{"SET", fmt.Sprint("k:", i), "x"} })
			up(t, r)
			equal(t, s, r)
		})
	}
}

// TestReplicaExpiresNothing: on a replica a key past its deadline is hidden from all commands, but it exists until the
// primary deletes it.
func TestReplicaExpiresNothing(t *testing.T) {
	s := testkit.Redis(t)
	r := follow(t, s, false)
	s.Do("DEBUG", "SET-ACTIVE-EXPIRE", "0")
	s.Do("SET", "k", "v", "PX", "50")
	s.Do("HSET", "h", "f", "v")
	settle(t, s, r)
	testkit.Lapse(50 * time.Millisecond)
	for _, c := range []struct {
		ask  []any
		want string
	}{
		{[]any{"GET", "k"}, "[]"}, {[]any{"EXISTS", "k"}, "0"}, {[]any{"TTL", "k"}, "-2"}, {[]any{"DBSIZE"}, "3"},
		{[]any{"KEYS", "k"}, "[]"}, {[]any{"TYPE", "k"}, "none"},
		{[]any{"EVAL", "return redis.call('exists', 'k')", "0"}, "0"},
	} {
		v := r.Do(c.ask...)
		got := fmt.Sprint(v.Strings())
		switch {
		case v.Text != "":
			got = v.Text
		case c.want != "[]":
			got = strconv.FormatInt(v.Int, 10)
		}
		if got != c.want {
			t.Errorf("%v: %s, want %s", c.ask, got, c.want)
		}
	}
	if n := r.InfoInt("stats", "expired_keys"); n != 0 {
		t.Errorf("%d keys expired here", n)
	}
	s.Do("GET", "k") // the access removes the key on the primary
	settle(t, s, r)
	if n := r.Do("DBSIZE").Int; n != 2 {
		t.Errorf("%d keys once the primary has removed it", n)
	}
}
