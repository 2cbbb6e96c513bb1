package acks

import (
	"strings"
	"syscall"
	"testing"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestClientAck: CLIENT ACK applies to one connection. It has priority over the user's rule, which has priority over
// the server's setting.
func TestClientAck(t *testing.T) {
	t.Parallel()
	s, all := replicas(t, testkit.Ours, 1, "--ack-timeout", long)
	s.Do("ACL", "SETUSER", "careful", "on", "nopass", "+@all", "~*", "ack=1")
	if line := s.Do("ACL", "LIST"); !strings.Contains(text(line), "ack=1") {
		t.Errorf("ACL LIST: %s", text(line))
	}
	dial := func(user string) *respclient.Client {
		c := s.Dial()
		c.Must("AUTH", user, "")
		return c
	}
	quick, asks, careful, hasty := dial("default"), dial("default"), dial("careful"), dial("careful")
	asks.Must("CLIENT", "ACK", 1)
	hasty.Must("CLIENT", "ACK", 0)
	for c, want := range map[*respclient.Client]int64{quick: 0, asks: 1, careful: 1, hasty: 0} {
		if n := c.Must("CLIENT", "ACK").Int; n != want {
			t.Errorf("CLIENT ACK is %d, want %d", n, want)
		}
	}
	stop(t, all[0])
	for _, c := range []*respclient.Client{quick, hasty} {
		if v := c.Must("INCR", "n"); v.Kind != ':' {
			t.Errorf("a client that does not wait: %v", v)
		}
	}
	send(t, careful, "INCR", "n")
	asks.Send("INCR", "m")
	asks.Send("CLIENT", "ACK", 0) // does not release the earlier replies
	asks.Flush()
	state(t, s, "waiting")
	isHeld(t, careful, "a user with a rule")
	isHeld(t, asks, "a client that waits")
	if v := quick.Must("GET", "m"); v.Text != "1" {
		t.Errorf("a read that does not wait: %v", v)
	}
	all[0].Signal(syscall.SIGCONT)
	if got := receive(t, careful); got != "3" {
		t.Errorf("a user with a rule: %s", got)
	}
	if n, ok := receive(t, asks), receive(t, asks); n != "1" || ok != "OK" {
		t.Errorf("a client that waits: %s, CLIENT ACK: %s", n, ok)
	}
	s.Do("ACL", "SETUSER", "careful", "resetack")
	if n := careful.Must("CLIENT", "ACK").Int; n != 0 {
		t.Errorf("CLIENT ACK after resetack: %d", n)
	}
	s.Do("CONFIG", "SET", "min-replicas-to-ack", "1")
	asks.Must("CLIENT", "ACK", "DEFAULT")
	for c, want := range map[*respclient.Client]int64{quick: 1, asks: 1, careful: 1, hasty: 0} {
		if n := c.Must("CLIENT", "ACK").Int; n != want {
			t.Errorf("CLIENT ACK is %d, want %d", n, want)
		}
	}
	hasty.Must("RESET")
	if n := hasty.Must("CLIENT", "ACK").Int; n != 1 {
		t.Errorf("CLIENT ACK after RESET: %d", n)
	}
}

// TestAckInTransaction: a transaction that lowers the number of acknowledgements still waits for the effects of the
// commands before the change. A transaction that raises it waits for the effects of the commands after it.
func TestAckInTransaction(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		before   int
		requests [][]any
		replies  string
	}{
		{0, [][]any{{"MULTI"}, {"CLIENT", "ACK", 1}, {"INCR", "n"}}, "[OK 1]"},
		{1, [][]any{{"MULTI"}, {"INCR", "n"}, {"CLIENT", "ACK", 0}}, "[1 OK]"},
	} {
		s, all := replicas(t, testkit.Ours, 1, "--ack-timeout", long)
		stop(t, all[0])
		c := s.Dial()
		c.Must("CLIENT", "ACK", x.before)
		for _, request := range x.requests {
			c.Must(request...)
		}
		send(t, c, "EXEC")
		other := s.Dial()
		other.Must("CLIENT", "ACK", 1)
		state(t, s, "waiting")
		isHeld(t, c, "EXEC")
		all[0].Signal(syscall.SIGCONT)
		if got := receive(t, c); got != x.replies {
			t.Errorf("EXEC: %s", got)
		}
	}
}

// TestDisk: with ack-mode disk, replies wait until the replica has synced its log. A replica without a log, or a
// replica of Redis 7.0, confirms nothing.
func TestDisk(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{testkit.Ours, testkit.Redis74} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, all := replicas(t, kind, 1, "--min-replicas-to-ack", "1", "--ack-timeout", long, "--ack-mode", "disk")
			for range 3 {
				if got := ask(t, s, "SET", "k", "v"); got != "OK" {
					t.Errorf("SET: %s", got)
				}
			}
			all[0].Do("CONFIG", "SET", "appendonly", "no")
			c := s.Dial()
			send(t, c, "SET", "k", "w")
			state(t, s, "waiting")
			isHeld(t, c, "without a log")
			s.Do("CONFIG", "SET", "ack-mode", "memory")
			if got := receive(t, c); got != "OK" {
				t.Errorf("SET in ack-mode memory: %s", got)
			}
		})
	}
	t.Run("Redis 7.0", func(t *testing.T) {
		t.Parallel()
		s, _ := replicas(t, testkit.Redis70, 1, "--min-replicas-to-ack", "1", "--ack-timeout", "200", "--ack-mode", "disk")
		if got := ask(t, s, "SET", "k", "v"); got != "UNCONFIRMED" {
			t.Errorf("SET: %s", got)
		}
	})
}
