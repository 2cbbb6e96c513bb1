package acks

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// held starts a primary and a replica, suspends the replica, and returns a client whose INCR waits for it.
func held(t *testing.T, args ...string) (s, r *testkit.Server, c *respclient.Client) {
	t.Helper()
	s, all := replicas(t, testkit.Ours, 1, append([]string{"--min-replicas-to-ack", "1", "--ack-timeout", long},
		args...)...)
	s.Do("SET", "n", 0)
	c = s.Dial()
	c.Must("CLIENT", "SETNAME", "writer")
	stop(t, all[0])
	send(t, c, "INCR", "n")
	state(t, s, "waiting")
	isHeld(t, c, "INCR")
	return s, all[0], c
}

// TestRoleChange: when the server becomes a replica, held replies become errors. As a replica it holds no replies back.
// After a promotion it holds replies back again.
func TestRoleChange(t *testing.T) {
	t.Parallel()
	s, _, c := held(t)
	other := testkit.Start(t)
	if got := ask(t, s, "REPLICAOF", "127.0.0.1", other.Port); got != "OK" {
		t.Fatal(got)
	}
	if got := receive(t, c); got != "UNCONFIRMED" {
		t.Errorf("the held reply: %s", got)
	}
	s.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "master_link_status", "up")
	if got := ask(t, s, "GET", "n"); got != "" {
		t.Errorf("a read of the replica: %q", got)
	}
	s.Do("REPLICAOF", "NO", "ONE")
	send(t, c, "GET", "n")
	state(t, s, "waiting")
	isHeld(t, c, "a read of the new primary")
	replica(t, s, testkit.Ours)
	if got := receive(t, c); got != "" {
		t.Errorf("a read with a replica: %q", got)
	}
}

// TestRoleChangeAfterAWrite: the server becomes a replica in the turn of a write. The write's reply becomes an error,
// because no replica has the write.
func TestRoleChangeAfterAWrite(t *testing.T) {
	t.Parallel()
	s, _ := replicas(t, testkit.Ours, 1, "--min-replicas-to-ack", "1", "--ack-timeout", long)
	s.Do("SET", "n", 0)
	other := testkit.Start(t)
	c := s.Dial()
	c.Send("INCR", "n")
	send(t, c, "REPLICAOF", "127.0.0.1", other.Port)
	if got := receive(t, c); got != "UNCONFIRMED" {
		t.Errorf("the write: %s", got)
	}
}

// TestRoleChangeInATransaction: the server becomes a replica in a transaction that has written. The reply becomes an
// error, also if a long script follows, which ends in a later turn.
func TestRoleChangeInATransaction(t *testing.T) {
	t.Parallel()
	s, _ := replicas(t, testkit.Ours, 1, "--min-replicas-to-ack", "1", "--ack-timeout", long)
	other := testkit.Start(t)
	for _, loops := range []int{1, 20_000_000} {
		s.Do("SET", "n", 0)
		c := s.Dial()
		c.Must("MULTI")
		c.Must("INCR", "n")
		c.Must("REPLICAOF", "127.0.0.1", other.Port)
		c.Must("EVAL", "for i = 1, ARGV[1] do end", 0, loops)
		send(t, c, "EXEC")
		if got := receive(t, c); got != "UNCONFIRMED" {
			t.Errorf("the transaction with %d loops: %s", loops, got)
		}
		s.Do("REPLICAOF", "NO", "ONE")
	}
}

// TestClientLeaves: a client whose reply is held can be killed and can disconnect. QUIT waits for the replies before
// it.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	s, r, c := held(t)
	quits, leaves := s.Dial(), s.Dial()
	send(t, quits, "INCR", "n")
	send(t, quits, "QUIT")
	send(t, leaves, "INCR", "n")
	leaves.Close()
	id := c.Conn().LocalAddr().String()
	if v := s.Do("CLIENT", "KILL", "ADDR", id); v.Int != 1 {
		t.Fatalf("CLIENT KILL: %v", v)
	}
	if v, err := c.Receive(); err == nil {
		t.Errorf("the killed client got %v", v)
	}
	isHeld(t, quits, "before QUIT")
	r.Signal(syscall.SIGCONT)
	if n, ok := receive(t, quits), receive(t, quits); n != "2" && n != "3" || ok != "OK" {
		t.Errorf("INCR: %s, QUIT: %s", n, ok)
	}
	if v, err := quits.Receive(); err == nil {
		t.Errorf("after QUIT: %v", v)
	}
	if got := ask(t, s, "GET", "n"); got != "3" {
		t.Errorf("the key is %s", got)
	}
}

// TestOutputLimit: held replies count toward the output buffer limit.
func TestOutputLimit(t *testing.T) {
	t.Parallel()
	s, _, c := held(t, "--client-output-buffer-limit", "normal 1mb 0 0")
	c.Send("SETRANGE", "long", 300_000, "x")
	for range 5 {
		c.Send("GET", "long")
	}
	c.Flush()
	if v, err := c.Receive(); err == nil {
		t.Errorf("the client got %v", v)
	}
	s.AwaitLog(testkit.Slowly(20*time.Second), "overcoming of output buffer limits")
}

// TestFewerReplicasWanted: replies that are already held keep waiting for the number of replicas that was set before.
// Later replies wait for the new number.
func TestFewerReplicasWanted(t *testing.T) {
	t.Parallel()
	s, r, c := held(t)
	s.Do("CONFIG", "SET", "min-replicas-to-ack", "0")
	if got := ask(t, s, "INCR", "n"); got != "2" {
		t.Errorf("a write that does not wait: %s", got)
	}
	isHeld(t, c, "the first write")
	s.Do("CONFIG", "SET", "min-replicas-to-ack", "2")
	later := s.Dial()
	send(t, later, "INCR", "n")
	r.Signal(syscall.SIGCONT)
	if got := receive(t, c); got != "1" {
		t.Errorf("the first write: %s", got)
	}
	isHeld(t, later, "a write that waits for two replicas")
	replica(t, s, testkit.Ours)
	if got := receive(t, later); got != "3" {
		t.Errorf("the last write: %s", got)
	}
}

// TestLastReplicaLeaves: replies stay held when the replica dies. They are sent when another replica has loaded a full
// copy.
func TestLastReplicaLeaves(t *testing.T) {
	t.Parallel()
	s, r, c := held(t)
	r.Kill()
	s.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "connected_slaves", "0")
	isHeld(t, c, "without a replica")
	replica(t, s, testkit.Ours)
	if got := receive(t, c); got != "1" {
		t.Errorf("INCR: %s", got)
	}
}

// TestBacklogIsGone: without a backlog, writes do not move the offset. So acknowledgements of an earlier replica do not
// confirm these writes.
func TestBacklogIsGone(t *testing.T) {
	t.Parallel()
	s, all := replicas(t, testkit.Ours, 1, "--min-replicas-to-ack", "1", "--ack-timeout", long, "--repl-backlog-ttl", "1")
	s.Do("SET", "n", 0)
	all[0].Kill()
	s.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "repl_backlog_active", "0")
	c := s.Dial()
	send(t, c, "INCR", "n")
	state(t, s, "waiting")
	isHeld(t, c, "INCR")
	replica(t, s, testkit.Ours)
	if got := receive(t, c); got != "1" {
		t.Errorf("INCR: %s", got)
	}
}

// TestShutdown: a server that shuts down sends errors instead of held replies, unless the replica confirms them first.
func TestShutdown(t *testing.T) {
	t.Parallel()
	t.Run("the replica is silent", func(t *testing.T) {
		t.Parallel()
		s, _, c := held(t, "--shutdown-timeout", "1")
		s.Signal(syscall.SIGTERM)
		if got := receive(t, c); got != "UNCONFIRMED" {
			t.Errorf("INCR: %s", got)
		}
		s.Wait(testkit.Slowly(60 * time.Second))
	})
	t.Run("the replica answers", func(t *testing.T) {
		t.Parallel()
		s, r, c := held(t, "--shutdown-timeout", "600")
		s.Signal(syscall.SIGTERM)
		s.AwaitLog(testkit.Slowly(20*time.Second), "Waiting for replicas before shutting down")
		r.Signal(syscall.SIGCONT)
		if got := receive(t, c); got != "1" {
			t.Errorf("INCR: %s", got)
		}
		s.Wait(testkit.Slowly(60 * time.Second))
	})
	t.Run("at once", func(t *testing.T) {
		t.Parallel()
		s, _, c := held(t)
		send(t, s.Dial(), "SHUTDOWN", "NOSAVE", "NOW")
		if got := receive(t, c); got != "UNCONFIRMED" {
			t.Errorf("INCR: %s", got)
		}
		s.Wait(testkit.Slowly(60 * time.Second))
	})
}

// TestLentScript: the reply of a script that lends the turn waits for the replica. The replies of the commands before
// it wait too. An acknowledgement that comes while the script runs releases these earlier replies.
func TestLentScript(t *testing.T) {
	t.Parallel()
	s, r, c := held(t, "--busy-reply-threshold", "100")
	script := s.Dial()
	send(t, script, "EVAL",
		"redis.call('INCR', 'm') while redis.call('GET', 'stop') ~= '1' do redis.call('INCR', 'm') end return 7", 0)
	testkit.Until(t, testkit.Slowly(20*time.Second), "BUSY", func() error {
		if got := ask(t, s, "PING"); !strings.HasPrefix(got, "BUSY") {
			return testkit.Equal(got, "BUSY")
		}
		return nil
	})
	r.Signal(syscall.SIGCONT)
	if got := receive(t, c); got != "1" {
		t.Errorf("INCR before the script: %s", got)
	}
	isHeld(t, script, "EVAL")
	s.Kill()
}

// TestFailoverCommand: FAILOVER hands over to the replica. Confirmed replies are sent, and the others become errors.
func TestFailoverCommand(t *testing.T) {
	t.Parallel()
	s, all := replicas(t, testkit.Ours, 1, "--min-replicas-to-ack", "1", "--ack-timeout", long)
	c := s.Dial()
	done := make(chan int64)
	go func() {
		last := int64(0)
		for {
			v, err := c.Do("INCR", "n")
			if err != nil || v.Kind == '-' {
				done <- last
				return
			}
			last = v.Int
		}
	}()
	testkit.Until(t, testkit.Slowly(20*time.Second), "writes", func() error {
		if n, _ := strconv.Atoi(ask(t, s, "GET", "n")); n < 100 {
			return testkit.Equal(n, 100)
		}
		return nil
	})
	s.Do("FAILOVER")
	all[0].AwaitInfo(testkit.Slowly(60*time.Second), "replication", "role", "master")
	confirmed := <-done
	if n, _ := strconv.ParseInt(ask(t, all[0], "GET", "n"), 10, 64); n < confirmed {
		t.Errorf("%d increments were confirmed, the new primary has %d", confirmed, n)
	}
}

// TestPromotedInTransaction: a Sentinel promotes a replica by a transaction. The reply to the transaction waits for no
// replica, because there can be none yet. Replies to writes do wait.
func TestPromotedInTransaction(t *testing.T) {
	t.Parallel()
	s, all := replicas(t, testkit.Ours, 2, "--min-replicas-to-ack", "1", "--ack-timeout", long)
	s.Do("SET", "n", 0)
	s.Kill()
	next, other := all[0], all[1]
	next.Do("CONFIG", "SET", "min-replicas-to-ack", "1", "ack-timeout", long)
	c := next.Dial()
	c.Must("MULTI")
	c.Must("REPLICAOF", "NO", "ONE")
	send(t, c, "EXEC")
	next.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "role", "master")
	if got := receive(t, c); got != "[OK]" { // the Sentinel's PINGs come after it
		t.Errorf("EXEC: %s", got)
	}
	w := next.Dial()
	send(t, w, "INCR", "n")
	other.Do("REPLICAOF", "127.0.0.1", next.Port)
	if got := receive(t, w); got != "1" {
		t.Errorf("INCR: %s", got)
	}
}

// TestFiguresAreMetrics: /metrics has the fields of INFO about replies that wait, with the same values, in each state.
func TestFiguresAreMetrics(t *testing.T) {
	t.Parallel()
	for _, late := range []string{"error", "degrade"} {
		t.Run(late, func(t *testing.T) {
			t.Parallel()
			admin := "127.0.0.1:" + strconv.Itoa(testkit.FreePort(t))
			s, all := replicas(t, testkit.Ours, 1, "--min-replicas-to-ack", "1", "--ack-timeout", long, "--ack-on-timeout", late,
				"--admin-address", admin)
			same := func(want string) {
				t.Helper()
				state(t, s, want)
				testkit.Until(t, testkit.Slowly(60*time.Second), "/metrics as INFO in the state "+want, func() error {
					figures := metrics(t, admin)
					for name, value := range s.Info("replication") {
						if !strings.HasPrefix(name, "ack_") {
							continue
						}
						if name == "ack_state" {
							name, value = name+`{state="`+value+`"}`, "1"
						}
						if n, err := strconv.ParseFloat(figures["spindle_"+name], 64); err != nil ||
							strconv.FormatFloat(n, 'f', -1, 64) != value {
							return fmt.Errorf("%s is %s, and %q in /metrics", name, value, figures["spindle_"+name])
						}
					}
					return nil
				})
				for _, other := range []string{"ok", "waiting", "failing", "degraded"} {
					if n := metrics(t, admin)[`spindle_ack_state{state="`+other+`"}`]; (n == "1") != (other == want) {
						t.Errorf("in the state %s, %s is %q", want, other, n)
					}
				}
			}
			s.Do("SET", "k", "v")
			same("ok")
			stop(t, all[0])
			c := s.Dial()
			send(t, c, "SET", "k", "w")
			same("waiting")
			s.Do("CONFIG", "SET", "ack-timeout", 1)
			receive(t, c)
			same(map[string]string{"error": "failing", "degrade": "degraded"}[late])
			s.Do("CONFIG", "SET", "ack-timeout", long)
			all[0].Signal(syscall.SIGCONT)
			same("ok")
			if n := s.InfoInt("replication", "ack_timeouts"); n < 1 {
				t.Errorf("ack_timeouts is %d", n)
			}
		})
	}
}

// metrics returns the figures of /metrics, by their names and labels.
func metrics(t *testing.T, admin string) map[string]string {
	t.Helper()
	r, err := http.Get("http://" + admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	figures := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
			figures[line[:at]] = strings.TrimSpace(line[at:])
		}
	}
	return figures
}

// TestHoldAcks: a Sentinel that chooses a new primary has a replica confirm nothing. A write is confirmed when the
// Sentinel ends that, when its time is over, and when the replica has had another role or primary meanwhile. A server
// that is no replica ignores it, and bad times are refused.
func TestHoldAcks(t *testing.T) {
	t.Parallel()
	s, all := replicas(t, testkit.Ours, 1, "--min-replicas-to-ack", "1", "--ack-timeout", long)
	r := all[0]
	other := testkit.Start(t)
	c := s.Dial()
	for _, bad := range []string{"-1", "x", "86400001"} {
		if v, err := r.Ask("REPLCONF", "hold-acks", bad); err != nil || v.Err() == nil {
			t.Errorf("hold-acks %s: %v %v", bad, v, err)
		}
	}
	s.Do("REPLCONF", "hold-acks", long)
	other.Do("REPLCONF", "hold-acks", 1)
	for name, x := range map[string]struct {
		ms  string
		end func()
	}{
		"the Sentinel's end": {long, func() { r.Do("REPLCONF", "hold-acks", 0) }},
		"the end of two Sentinels": {long, func() {
			r.Do("REPLCONF", "holder", "a", "hold-acks", long)
			r.Do("REPLCONF", "hold-acks", 0)
			isHeld(t, c, "one of two Sentinels")
			r.Do("REPLCONF", "holder", "b", "hold-acks", 0)
			isHeld(t, c, "a Sentinel that holds nothing")
			r.Do("REPLCONF", "holder", "a", "hold-acks", 0)
		}},
		"the time's end": {"500", func() {}},
		"another primary": {long, func() {
			r.Do("REPLICAOF", "127.0.0.1", other.Port)
			r.Do("REPLICAOF", "127.0.0.1", s.Port)
		}},
		"a promotion": {long, func() {
			r.Do("REPLICAOF", "NO", "ONE")
			r.Do("REPLICAOF", "127.0.0.1", s.Port)
		}},
	} {
		r.Do("REPLCONF", "hold-acks", x.ms)
		send(t, c, "INCR", "n")
		if x.ms == long {
			state(t, s, "waiting")
			isHeld(t, c, name)
		}
		x.end()
		if got := receive(t, c); got == "UNCONFIRMED" {
			t.Errorf("%s: the write is not confirmed", name)
		}
	}
	if strings.Contains(other.Log(), "has not ended that in time") {
		t.Error("a primary, which acknowledges nothing, has logged the end of the time")
	}
}

// TestFailoverWhileHeld: a Sentinel is about to choose a new primary. The primary itself cannot hand its role to a
// replica before the Sentinel ends that.
func TestFailoverWhileHeld(t *testing.T) {
	t.Parallel()
	s, all := replicas(t, testkit.Ours, 1)
	r := all[0]
	r.Do("REPLCONF", "hold-acks", long)
	s.Do("FAILOVER")
	s.AwaitLog(testkit.Slowly(60*time.Second), "Failover target rejected psync request")
	r.Do("REPLCONF", "hold-acks", 0)
	online(t, s, 1)
	s.Do("FAILOVER")
	r.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "role", "master")
}
