package topology

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestPartialSync: a redis-server replica whose link is cut under load continues from the backlog each time.
func TestPartialSync(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--repl-backlog-size", "64mb")
	r := attach(t, s)
	w := startWriters(t, s, 2, 11)
	for cut := range 5 {
		w.await(int64(600 * (cut + 1)))
		s.Do("CLIENT", "KILL", "TYPE", "replica")
		testkit.Until(t, testkit.Slowly(20*time.Second), "the link to come back", func() error {
			return testkit.Equal(s.InfoInt("stats", "sync_partial_ok"), int64(cut+1))
		})
	}
	w.stop()
	equal(t, s, r)
	if n := s.InfoInt("stats", "sync_full"); n != 1 {
		t.Errorf("sync_full:%d: the backlog could have spared that", n)
	}
}

// TestBacklogFigures: once the first replica has attached, INFO shows a backlog that is no larger than its limit.
func TestBacklogFigures(t *testing.T) {
	s := testkit.Start(t, "--repl-backlog-size", "100kb")
	figures := func() string {
		i := s.Info("replication")
		return fmt.Sprint(i["repl_backlog_active"], " ", i["repl_backlog_size"], " ", i["repl_backlog_histlen"])
	}
	if got := figures(); got != "0 102400 0" {
		t.Errorf("without replicas: %s", got)
	}
	attach(t, s)
	testkit.Pipe(t, s.Dial(), 5000, func(i int) []any { return []any{"SET", "k", fmt.Sprintf("%0100d", i)} })
	if got := figures(); got != "1 102400 102400" {
		t.Errorf("after some 700 kB: %s", got)
	}
	first, offset := s.InfoInt("replication", "repl_backlog_first_byte_offset"),
		s.InfoInt("replication", "master_repl_offset")
	if first != offset-102400+1 {
		t.Errorf("the first byte is %d of %d", first, offset)
	}
	if n := s.InfoInt("memory", "mem_replication_backlog"); n < 102400 || n > 300<<10 {
		t.Errorf("mem_replication_backlog:%d", n)
	}
	s.Do("CONFIG", "SET", "repl-backlog-size", "20kb")
	if got := figures(); got != "1 20480 20480" {
		t.Errorf("after CONFIG SET: %s", got)
	}
	s.Do("CONFIG", "SET", "repl-backlog-ttl", "1")
	s.Do("CLIENT", "KILL", "TYPE", "replica")
}

// TestReplicaCostsNoKeys: neither the data that a suspended replica has not read, nor a new backlog, causes an
// eviction.
func TestReplicaCostsNoKeys(t *testing.T) {
	s := testkit.Start(t, "--repl-backlog-size", "16kb", "--maxmemory-policy", "allkeys-random",
		"--slowlog-log-slower-than", "-1",
		"--latency-tracking", "no")
	c := s.Dial()
	for i := range 100 {
		c.Must("SET", fmt.Sprint("key:", i), strings.Repeat("v", 100_000)) // so that a later SETRANGE adds no bytes
	}
	r := attach(t, s)
	s.Do("CONFIG", "SET", "maxmemory", s.InfoInt("memory", "used_memory")-s.InfoInt("memory", "mem_not_counted_for_evict")+
		32<<10)
	r.Signal(syscall.SIGSTOP)
	defer r.Signal(syscall.SIGCONT)
	value := strings.Repeat("A", 10_000)
	for range 1500 {
		c.Must("SETRANGE", "key:0", 0, value)
	}
	if n := s.InfoInt("memory", "mem_clients_slaves"); n < 2<<20 {
		t.Errorf("mem_clients_slaves:%d: the replica has read", n)
	}
	if n := s.Do("DBSIZE").Int; n != 100 {
		t.Errorf("%d keys are left of 100", n)
	}
}
