package acks

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// long is an ack-timeout that never passes during a test.
const long = "600000"

// replicas starts a primary with these directives and n replicas of a kind. It returns when all are online.
func replicas(t *testing.T, kind string, n int, args ...string) (s *testkit.Server, all []*testkit.Server) {
	t.Helper()
	s = testkit.Start(t, append([]string{"--repl-ping-replica-period", "1000"}, args...)...)
	for range n {
		all = append(all, replica(t, s, kind))
	}
	online(t, s, n)
	return s, all
}

// replica starts a replica of s with appendonly on.
func replica(t *testing.T, s *testkit.Server, kind string) *testkit.Server {
	t.Helper()
	spec := testkit.Kind(t, kind)
	spec.Args = []string{"--replicaof", "127.0.0.1 " + strconv.Itoa(s.Port), "--appendonly", "yes"}
	r := testkit.Launch(t, spec)
	r.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "master_link_status", "up")
	return r
}

func online(t *testing.T, s *testkit.Server, n int) {
	t.Helper()
	s.AwaitOnline(testkit.Slowly(60*time.Second), n)
}

// stop suspends a process with SIGSTOP and returns when all its threads are stopped. The process continues at the
// test's end.
func stop(t *testing.T, s *testkit.Server) {
	t.Helper()
	s.Signal(syscall.SIGSTOP)
	t.Cleanup(func() {
		if !s.Ended() {
			s.Signal(syscall.SIGCONT)
		}
	})
	testkit.Until(t, testkit.Slowly(20*time.Second), "the process stands still", func() error {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.PID))
		for _, task := range tasks {
			line, _ := os.ReadFile(task)
			if _, after, found := strings.Cut(string(line), ") "); found && after[0] != 'T' {
				return fmt.Errorf("%s: %c", task, after[0])
			}
		}
		return err
	})
}

// state waits until INFO shows this ack_state.
func state(t *testing.T, s *testkit.Server, want string) {
	t.Helper()
	s.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "ack_state", want)
}

// ask sends a request and returns its reply, which may be an error.
func ask(t *testing.T, s *testkit.Server, args ...any) string {
	t.Helper()
	v, err := s.Ask(args...)
	if err != nil {
		t.Fatal(err)
	}
	return text(v)
}

// isHeld fails the test if a reply comes. It waits for a short time only. So on a slow host it may miss a mistake, but
// it never reports a false one.
func isHeld(t *testing.T, c *respclient.Client, what string) {
	t.Helper()
	c.Conn().SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	if n, _ := c.Conn().Read(make([]byte, 1)); n > 0 {
		t.Errorf("%s: the reply has come", what)
	}
	c.Conn().SetReadDeadline(time.Time{})
}

// send sends a command without reading its reply.
func send(t *testing.T, c *respclient.Client, args ...any) {
	t.Helper()
	c.Send(args...)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
}

// receive reads a reply.
func receive(t *testing.T, c *respclient.Client) string {
	t.Helper()
	v, err := c.Receive()
	if err != nil {
		t.Fatal(err)
	}
	return text(v)
}

// text returns a reply in the form in which tests compare it.
func text(v respclient.Value) string {
	switch {
	case v.Kind == ':':
		return fmt.Sprint(v.Int)
	case len(v.Elems) > 0:
		var words []string
		for _, e := range v.Elems {
			words = append(words, text(e))
		}
		return "[" + strings.Join(words, " ") + "]"
	case strings.HasPrefix(v.Text, "UNCONFIRMED"):
		return "UNCONFIRMED"
	}
	return v.Text
}

// kinds are the programs that replicas run.
var kinds = []string{testkit.Ours, testkit.Redis70, testkit.Redis74}

// TestWritesAndReadsWait: the reply to a write is sent when the replica has the write. A read, a wake-up and a pub/sub
// message that show the write wait as long. PING and INFO do not wait.
func TestWritesAndReadsWait(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, all := replicas(t, kind, 1, "--min-replicas-to-ack", "1", "--ack-timeout", long)
			popper, listener := s.Dial(), s.Dial()
			if v := s.Do("SET", "a", "0"); v.Text != "OK" {
				t.Fatalf("SET with a replica: %v", v)
			}
			send(t, popper, "BLPOP", "l", "0")
			send(t, listener, "SUBSCRIBE", "news")
			receive(t, listener)
			s.AwaitInfo(testkit.Slowly(20*time.Second), "clients", "blocked_clients", "1")
			stop(t, all[0])
			writer, reader, pusher := s.Dial(), s.Dial(), s.Dial()
			send(t, writer, "SET", "a", "1")
			state(t, s, "waiting")
			send(t, reader, "GET", "a")
			send(t, pusher, "RPUSH", "l", "x")
			s.AwaitInfo(testkit.Slowly(20*time.Second), "clients", "blocked_clients", "0")
			send(t, pusher, "PUBLISH", "news", "hello")
			isHeld(t, writer, "SET")
			isHeld(t, reader, "GET")
			isHeld(t, popper, "BLPOP")
			isHeld(t, listener, "a message")
			if v := s.Do("PING"); v.Text != "PONG" {
				t.Errorf("PING: %v", v)
			}
			all[0].Signal(syscall.SIGCONT)
			for _, want := range []struct {
				c    *respclient.Client
				text string
			}{{writer, "OK"}, {reader, "1"}, {pusher, "1"}, {pusher, "1"}, {popper, "[l x]"},
				{listener, "[message news hello]"}} {
				if got := receive(t, want.c); got != want.text {
					t.Errorf("%s, want %s", got, want.text)
				}
			}
			state(t, s, "ok")
		})
	}
}

// TestCommandsWithoutDataDoNotWait: a server that lacks replicas replies at once to the commands of Sentinels. A
// transaction waits only if it has shown data.
func TestCommandsWithoutDataDoNotWait(t *testing.T) {
	t.Parallel()
	s, all := replicas(t, kinds[0], 1, "--min-replicas-to-ack", "1", "--ack-timeout", long)
	s.Do("SET", "a", "0")
	watcher, writer, reader, sentinel := s.Dial(), s.Dial(), s.Dial(), s.Dial()
	send(t, watcher, "WATCH", "a")
	receive(t, watcher)
	stop(t, all[0])
	send(t, writer, "SET", "a", "1")
	state(t, s, "waiting")
	for _, request := range [][]any{{"PING"}, {"PUBLISH", "__sentinel__:hello", "x"}, {"INFO"}, {"MULTI"},
		{"CONFIG", "GET", "port"}, {"CLIENT", "LIST"}, {"EXEC"}} {
		if v, err := sentinel.Do(request...); err != nil || v.Err() != nil {
			t.Errorf("%v: %v, %v", request, v, err)
		}
	}
	send(t, reader, "MULTI")
	send(t, reader, "GET", "a")
	receive(t, reader)
	receive(t, reader)
	send(t, reader, "EXEC")
	isHeld(t, reader, "EXEC with GET")
	send(t, watcher, "MULTI")
	send(t, watcher, "PING")
	receive(t, watcher)
	receive(t, watcher)
	send(t, watcher, "EXEC")
	isHeld(t, watcher, "EXEC that shows that a key has changed")
	all[0].Signal(syscall.SIGCONT)
	if got := receive(t, reader); got != "[1]" {
		t.Errorf("EXEC: %s", got)
	}
	if got := receive(t, watcher); got != "null" && got != "" {
		t.Errorf("EXEC after WATCH: %s", got)
	}
}

// TestErrorsInTime: when the replica is silent, every reply becomes an error, and the number of replies stays the same.
// Pushes are sent unchanged. Later reads also fail until the replica is back, because they would show writes that may
// be lost.
func TestErrorsInTime(t *testing.T) {
	t.Parallel()
	s, all := replicas(t, testkit.Ours, 1, "--min-replicas-to-ack", "1", "--ack-timeout", long)
	s.Do("SET", "long", strings.Repeat("x", 300_000))
	state(t, s, "ok")
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
			c := s.Dial()
			c.Must("HELLO", protocol)
			if protocol == 3 {
				c.Must("CLIENT", "TRACKING", "ON", "BCAST")
			}
			stop(t, all[0])
			s.Do("CONFIG", "SET", "ack-timeout", 200)
			requests := [][]any{
				{"RPUSH", "l", "a", "b"}, {"GET", "long"}, {"LRANGE", "l", 0, -1}, {"MULTI"}, {"INCR", "n"}, {"EXEC"},
				{"EVAL", "return {1, {2, 'x'}, false}", 0}, {"HGETALL", "nothing"}, {"INCR", "l"},
			}
			for _, r := range requests {
				c.Send(r...)
			}
			c.Send("PING")
			c.Flush()
			replies, pushes := 0, 0
			for replies < len(requests)+1 || protocol == 3 && pushes == 0 {
				v, err := c.Receive()
				switch {
				case err != nil:
					t.Fatalf("after %d replies: %v", replies, err)
				case v.Kind == '>':
					pushes++
				default:
					replies++
					if got := text(v); got != "UNCONFIRMED" && got != "PONG" {
						t.Errorf("reply %d: %s", replies, got)
					}
				}
			}
			if got := ask(t, s, "GET", "n"); got != "UNCONFIRMED" {
				t.Errorf("a later read: %s", got)
			}
			state(t, s, "failing")
			if n := s.InfoInt("replication", "ack_errors"); n < int64(len(requests)) {
				t.Errorf("ack_errors is %d", n)
			}
			s.Do("CONFIG", "SET", "ack-timeout", long)
			all[0].Signal(syscall.SIGCONT)
			state(t, s, "ok")
			isHeld(t, c, "after the last reply")
			if v := c.Must("GET", "n"); v.Text == "" {
				t.Errorf("a read when the replica is back: %v", v)
			}
		})
	}
	s.AwaitLog(testkit.Slowly(20*time.Second), "replies become errors")
	s.AwaitLog(testkit.Slowly(20*time.Second), "acknowledge again")
}

// TestDegrades: with ack-on-timeout degrade, held replies are sent unchanged at the timeout, and later replies do not
// wait. When the replica is back, replies wait again.
func TestDegrades(t *testing.T) {
	t.Parallel()
	s, all := replicas(t, testkit.Ours, 1, "--min-replicas-to-ack", "1", "--ack-timeout", "200", "--ack-on-timeout",
		"degrade")
	stop(t, all[0])
	for range 3 {
		if v := s.Do("INCR", "n"); v.Kind != ':' {
			t.Errorf("INCR: %v", v)
		}
	}
	state(t, s, "degraded")
	s.Do("CONFIG", "SET", "ack-timeout", long)
	all[0].Signal(syscall.SIGCONT)
	state(t, s, "ok")
	stop(t, all[0])
	c := s.Dial()
	send(t, c, "INCR", "n")
	state(t, s, "waiting")
	isHeld(t, c, "INCR")
	all[0].Signal(syscall.SIGCONT)
	if got := receive(t, c); got != "4" {
		t.Errorf("INCR: %s", got)
	}
}

// TestNoReplica: without any replica, writes and reads fail. A client can still connect and set the number of replicas
// to zero.
func TestNoReplica(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--min-replicas-to-ack", "2", "--ack-timeout", "100")
	for _, request := range [][]any{{"SET", "k", "v"}, {"GET", "k"}, {"DBSIZE"}} {
		if got := ask(t, s, request...); got != "UNCONFIRMED" {
			t.Errorf("%v: %s", request, got)
		}
	}
	replica(t, s, testkit.Ours)
	online(t, s, 1)
	if got := ask(t, s, "GET", "k"); got != "UNCONFIRMED" {
		t.Errorf("GET with one of two replicas: %s", got)
	}
	second := replica(t, s, testkit.Ours)
	testkit.Until(t, testkit.Slowly(60*time.Second), "a confirmed read",
		func() error { return testkit.Equal(ask(t, s, "GET", "k"), "v") })
	second.Kill()
	testkit.Until(t, testkit.Slowly(60*time.Second), "an unconfirmed write", func() error {
		return testkit.Equal(ask(t, s, "SET", "k", "w"), "UNCONFIRMED")
	})
	if v := s.Do("CONFIG", "SET", "min-replicas-to-ack", "0"); v.Text != "OK" {
		t.Errorf("CONFIG SET: %v", v)
	}
	if v := s.Do("GET", "k"); v.Text != "w" {
		t.Errorf("GET without waiting: %v", v)
	}
}
