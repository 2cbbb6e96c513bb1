package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestReplicasUnderLoad: redis-servers that attach while clients write end up with the primary's data, whichever form
// of the stream they request.
func TestReplicasUnderLoad(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := testkit.Start(t)
	testkit.Pipe(t, s.Dial(), 3000, func(i int) []any { return []any{"SET", fmt.Sprint("still:", i), i} })
	w := startWriters(t, s, 3, seed)
	w.await(2000)
	replicas := []*testkit.Server{attach(t, s)}
	w.await(int64(2000 * testkit.Scale()))
	replicas = append(replicas, attach(t, s, "--repl-diskless-load", "swapdb"))
	w.await(int64(4000 * testkit.Scale()))
	w.stop()
	for _, r := range replicas {
		equal(t, s, r)
		if n := r.InfoInt("stats", "unexpected_error_replies"); n != 0 {
			t.Errorf("%d of our effects were errors at the replica", n)
		}
	}
	if n := s.InfoInt("stats", "sync_full"); n != 2 {
		t.Errorf("sync_full:%d: a link broke on the way", n)
	}
	if n, whole := s.InfoInt("stats", "total_net_repl_output_bytes"), s.InfoInt("stats",
		"total_net_output_bytes"); n == 0 || n > whole {
		t.Errorf("total_net_repl_output_bytes:%d of total_net_output_bytes:%d", n, whole)
	}
	if n := s.InfoInt("stats", "expired_keys"); n == 0 {
		t.Error("nothing expired: the load does not test expiry")
	}
}

// TestSeveralReplicasAtOnce: several full synchronisations overlap. One ends because its replica dies, and one because
// its peer disconnects. The others are not affected, and nothing is left of these two.
func TestSeveralReplicasAtOnce(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--rdb-key-save-delay", "200")
	testkit.Pipe(t, s.Dial(), 2_000,
		func(i int) []any { return []any{"SET", fmt.Sprint("still:", i), strings.Repeat("x", i%300)} })
	w := startWriters(t, s, 2, 7)
	var replicas []*testkit.Server
	for range 3 { // each round takes a second or two
		replicas = append(replicas, testkit.Redis(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.Port)))
	}
	doomed, raw := replicas[0], s.Dial()
	raw.SendRaw([]byte("SYNC\r\n"))
	if err := raw.Flush(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, testkit.Slowly(20*time.Second), "four synchronisations under way", func() error {
		return testkit.Equal(s.InfoInt("stats", "sync_full"), 4)
	})
	doomed.Kill()
	raw.Close()
	for _, r := range replicas[1:] {
		r.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "master_link_status", "up")
	}
	s.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "connected_slaves", "2")
	w.await(2000)
	w.stop()
	for _, r := range replicas[1:] {
		equal(t, s, r)
	}
	s.AwaitInfo(testkit.Slowly(20*time.Second), "memory", "memory_kept_by_views", "0")
	if n := s.InfoInt("stats", "sync_full"); n != 4 {
		t.Errorf("sync_full:%d, want 4: a link broke on the way", n)
	}
}

// TestSlowReplica: a replica that does not read is disconnected at its limit. Another replica and the clients are not
// affected.
func TestSlowReplica(t *testing.T) {
	s := testkit.Start(t, "--client-output-buffer-limit", "replica 2mb 0 0")
	good := attach(t, s)
	slow := s.Dial()
	must2(t, slow.Conn().(interface{ SetReadBuffer(int) error }).SetReadBuffer(4096))
	slow.SendRaw([]byte("SYNC\r\n"))
	if err := slow.Flush(); err != nil {
		t.Fatal(err)
	}
	s.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "connected_slaves", "2")
	c := s.Dial()
	value := strings.Repeat("v", 10_000)
	longest := time.Duration(0)
	for i := 0; s.Info("replication")["connected_slaves"] == "2"; i++ {
		if i == 200 {
			t.Fatal("40 MB unread, and not let go")
		}
		for j := range 20 {
			began := time.Now()
			c.Must("SET", fmt.Sprintf("k:%d:%d", i, j), value)
			longest = max(longest, time.Since(began))
		}
	}
	if longest > testkit.Slowly(30*time.Second) { // a busy host stalls for seconds, and the slow replica never reads
		t.Errorf("a SET took %v", longest)
	}
	if n := s.InfoInt("stats", "client_output_buffer_limit_disconnections"); n != 1 {
		t.Errorf("client_output_buffer_limit_disconnections:%d", n)
	}
	equal(t, s, good)
	testkit.Until(t, testkit.Slowly(10*time.Second), "the buffers to be freed", func() error { // updated in rounds
		if n := s.InfoInt("memory", "mem_clients_slaves"); n > 100_000 {
			return fmt.Errorf("mem_clients_slaves:%d", n)
		}
		return nil
	})
}

func must2(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestMinReplicasFromTheStart: min-replicas-to-write has effect when the configuration sets it, not only after CONFIG
// SET.
func TestMinReplicasFromTheStart(t *testing.T) {
	s := testkit.Start(t, "--min-replicas-to-write", "1")
	if v, err := s.Ask("SET", "k", "v"); err != nil || !strings.HasPrefix(v.Text, "NOREPLICAS") {
		t.Errorf("SET without replicas: %v %v", v, err)
	}
}

// TestWait: WAIT returns the number of replicas that have the client's writes. It stops waiting at its timeout.
func TestWait(t *testing.T) {
	s := testkit.Start(t)
	c := s.Dial()
	c.Must("SET", "k", 0)
	if n := c.Must("WAIT", 0, 0).Int; n != 0 {
		t.Errorf("WAIT 0 0 without replicas: %d", n)
	}
	began := time.Now()
	if n := c.Must("WAIT", 1, 100).Int; n != 0 || time.Since(began) < 100*time.Millisecond {
		t.Errorf("WAIT 1 100 without replicas: %d after %v", n, time.Since(began))
	}
	a, b := attach(t, s), attach(t, s)
	s.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "connected_slaves", "2")
	for i := range 20 {
		c.Must("SET", "k", i)
		if n := c.Must("WAIT", 2, 60_000).Int; n != 2 {
			t.Fatalf("WAIT 2: %d", n)
		}
		for _, r := range []*testkit.Server{a, b} { // the replicas must have the writes that WAIT counted
			if v := r.Do("GET", "k").Text; v != strconv.Itoa(i) {
				t.Errorf("k is %s at a replica, want %d", v, i)
			}
		}
	}
	b.Signal(syscall.SIGSTOP)
	defer b.Signal(syscall.SIGCONT)
	c.Must("SET", "k", "stopped")
	if n := c.Must("WAIT", 1, 60_000).Int; n < 1 {
		t.Errorf("WAIT 1 with one stopped: %d", n)
	}
	if n := c.Must("WAIT", 2, 300).Int; n != 1 {
		t.Errorf("WAIT 2 with one stopped: %d", n)
	}
	done := make(chan int64, 1)
	go func() {
		v, _ := c.Do("WAIT", 2, 0)
		done <- v.Int
	}()
	s.AwaitInfo(testkit.Slowly(10*time.Second), "clients", "blocked_clients", "1")
	b.Signal(syscall.SIGCONT)
	select {
	case n := <-done:
		if n != 2 {
			t.Errorf("WAIT 2 0 after both are back: %d", n)
		}
	case <-time.After(testkit.Slowly(testkit.ReplyTimeout)):
		t.Error("WAIT 2 0 does not end")
	}
}

// TestRoleAndInfo: ROLE and INFO have the facts about replicas that operators and Sentinels read.
func TestRoleAndInfo(t *testing.T) {
	s := testkit.Start(t)
	if role := s.Do("ROLE"); len(role.Elems) != 3 || role.Elems[0].Text != "master" || len(role.Elems[2].Elems) != 0 {
		t.Errorf("ROLE: %v", role)
	}
	r := attach(t, s, "--replica-announce-ip", "10.1.2.3")
	s.Do("SET", "k", "v")
	settle(t, s, r)
	port := strconv.Itoa(r.Port)
	testkit.Until(t, testkit.Slowly(20*time.Second), "slave0 of INFO", func() error {
		fields := s.Info("replication")
		want := fmt.Sprintf("ip=10.1.2.3,port=%s,state=online,offset=%s,lag=", port, fields["master_repl_offset"])
		if !strings.HasPrefix(fields["slave0"], want) {
			return fmt.Errorf("%q, want %q…", fields["slave0"], want)
		}
		return nil
	})
	fields := s.Info("replication")
	role := s.Do("ROLE")
	if len(role.Elems) != 3 || len(role.Elems[2].Elems) != 1 {
		t.Fatalf("ROLE: %v", role)
	}
	if got := role.Elems[2].Elems[0].Strings(); got[0] != "10.1.2.3" || got[1] != port {
		t.Errorf("ROLE: %v", role)
	}
	if theirs := r.Info("replication"); theirs["master_replid"] != fields["master_replid"] ||
		theirs["master_link_status"] != "up" {
		t.Errorf("the replica's side: %v; ours: %v", theirs, fields)
	}
	if fields["role"] != "master" || fields["connected_slaves"] != "1" {
		t.Errorf("INFO: %v", fields)
	}
	if list := s.Do("CLIENT", "LIST", "TYPE", "replica").Text; strings.Count(list, "\n") != 1 ||
		!strings.Contains(list, "flags=S") {
		t.Errorf("CLIENT LIST TYPE replica: %q", list)
	}
	s.Do("CONFIG", "SET", "min-replicas-to-write", "2")
	if v, err := s.Ask("SET", "k", "w"); err != nil || !strings.HasPrefix(v.Text, "NOREPLICAS ") {
		t.Errorf("SET with too few replicas: %v %v", v, err)
	}
	s.Do("CONFIG", "SET", "min-replicas-to-write", "1")
	s.Do("SET", "k", "w")
	r.Kill()
	s.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "connected_slaves", "0")
	if v, err := s.Ask("SET", "k", "x"); err != nil || !strings.HasPrefix(v.Text, "NOREPLICAS ") {
		t.Errorf("SET without a replica: %v %v", v, err)
	}
}

// TestHelloTellsTheRole: HELLO returns the role as Redis does, even while the link is down.
func TestHelloTellsTheRole(t *testing.T) {
	for _, start := range []func(testing.TB, ...string) *testkit.Server{testkit.Start, testkit.Redis} {
		s := start(t)
		for _, c := range []struct{ host, port, role string }{{"127.0.0.1", "1", "replica"}, {"NO", "ONE", "master"}} {
			s.Do("REPLICAOF", c.host, c.port)
			words := s.Do("HELLO", "2").Strings()
			if at := slices.Index(words, "role"); at < 0 || at+1 == len(words) || words[at+1] != c.role {
				t.Errorf("after REPLICAOF %s %s HELLO answers %q, want role %q", c.host, c.port, words, c.role)
			}
		}
	}
}
