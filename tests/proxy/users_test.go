package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestUsers: the shards check AUTH, HELLO and rights. Each client's requests run under that client's user.
func TestUsers(t *testing.T) {
	for name, redis := range map[string]bool{"spindle": false, "redis": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := startTier(t, redis, 0, 1, "--proxy-refresh-interval", "300")
			for _, s := range all.shards {
				s.Do("ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+auth", "+hello", "+ping", "+acl|whoami")
				s.Do("ACL", "SETUSER", "writer", "on", ">word", "~w:*", "+@all")
			}
			c := all.proxies[0].Dial()
			says := func(want string, args ...any) {
				t.Helper()
				if v := ask(t, c, args...); v.Kind != '%' && v.Text != want && !strings.HasPrefix(v.Text, want+" ") {
					t.Errorf("%v: %v, want %s", args, v, want)
				}
			}
			says("OK", "SET", "w:a", "1")
			says("WRONGPASS", "AUTH", "reader", "wrong")
			says("OK", "SET", "w:b", "1") // a failed AUTH changes nothing
			says("OK", "AUTH", "reader", "secret")
			says("1", "GET", "w:a")
			says("NOPERM", "SET", "w:a", "2")
			says("OK", "AUTH", "writer", "word")
			says("OK", "SET", "w:a", "3")
			says("NOPERM", "SET", "other", "3")
			says("writer", "ACL", "WHOAMI")
			says("WRONGPASS", "HELLO", 3, "AUTH", "reader", "no")
			says("OK", "HELLO", 3, "AUTH", "reader", "secret", "SETNAME", "me")
			says("reader", "ACL", "WHOAMI")
			says("me", "CLIENT", "GETNAME")
			says("RESET", "RESET")
			says("default", "ACL", "WHOAMI")

			// The requests after AUTH in a pipeline run as the new user.
			replies, err := c.Pipeline([]any{"SET", "x", "1"}, []any{"AUTH", "reader", "secret"}, []any{"SET", "x", "2"},
				[]any{"GET", "x"}, []any{"AUTH", "default", "nopass"}, []any{"SET", "x", "3"})
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []string{"OK", "OK", "NOPERM", "1", "OK", "OK"} {
				if got, _, _ := strings.Cut(replies[i].Text, " "); got != want {
					t.Errorf("reply %d of the pipeline: %v, want %s", i, replies[i], want)
				}
			}

			for _, s := range all.shards {
				s.Do("CONFIG", "SET", "requirepass", "front")
			}
			stranger := all.proxies[0].Dial()
			testkit.Until(t, testkit.Slowly(10*time.Second), "a stranger has to give the new password", func() error {
				if v := ask(t, stranger, "GET", "w:a"); !strings.HasPrefix(v.Text, "NOAUTH") {
					return fmt.Errorf("GET: %v", v)
				}
				return nil
			})
			if v := ask(t, stranger, "AUTH", "front"); v.Text != "OK" {
				t.Errorf("AUTH with the new password: %v", v)
			}
			if v := ask(t, stranger, "GET", "w:a"); v.Text != "3" {
				t.Errorf("GET after AUTH: %v", v)
			}
		})
	}
}

// TestWaitWithoutMulti: WAIT also counts replicas for a user without the right to MULTI or EXEC. It blocks no other
// client of that user.
func TestWaitWithoutMulti(t *testing.T) {
	t.Parallel()
	all := startTier(t, false, 0, 1)
	p := all.proxies[0]
	for _, without := range []string{"multi", "exec"} {
		for _, s := range all.shards {
			s.Do("ACL", "SETUSER", "plain"+without, "on", ">word", "~*", "+@all", "-"+without)
		}
		c, other := p.Dial(), p.Dial()
		expect(t, c, "OK", "AUTH", "plain"+without, "word")
		expect(t, other, "OK", "AUTH", "plain"+without, "word")
		expect(t, c, "OK", "SET", "a", "x")
		send(t, c, "WAIT", 1, 0)
		p.AwaitInfo(testkit.Slowly(10*time.Second), "clients", "blocked_clients", "1")
		for range 20 {
			for _, key := range spread {
				expect(t, other, "OK", "SET", key, "x")
			}
		}
		expect(t, other, "0", "WAIT", 1, 200)
		c.Close()
		p.AwaitInfo(testkit.Slowly(10*time.Second), "clients", "blocked_clients", "0")
	}
}

// TestReplicaReads: with proxy-read-replicas, replicas with little enough lag serve the reads. Writes go to primaries.
func TestReplicaReads(t *testing.T) {
	t.Parallel()
	all := startTier(t, false, 1, 0)
	p := startProxy(t, all.shards, "--proxy-read-replicas", "yes")
	var clients []*respclient.Client
	for range 6 {
		clients = append(clients, p.Dial())
	}
	for i := range 100 {
		if v := ask(t, clients[0], "SET", fmt.Sprintf("key:%d", i), "x"); v.Text != "OK" {
			t.Fatal(v)
		}
	}
	served := func() (n int) {
		for _, s := range all.shards {
			if s.Info("replication")["role"] == "slave" && strings.Contains(s.Info("commandstats")["cmdstat_get"], "calls=") {
				n++
			}
		}
		return n
	}
	testkit.Until(t, testkit.Slowly(20*time.Second), "all replicas serve reads", func() error {
		for i := range 300 {
			if v := ask(t, clients[i%6], "GET", fmt.Sprintf("key:%d", i%100)); v.Text != "x" {
				return fmt.Errorf("GET: %v", v)
			}
		}
		return testkit.Equal(served(), 3)
	})
}

// TestStrangers: if the shards need a password, the proxy serves no client that has not given it.
func TestStrangers(t *testing.T) {
	t.Parallel()
	all := startTier(t, false, 0, 0)
	for _, s := range all.shards {
		s.Do("CONFIG", "SET", "masterauth", "front", "requirepass", "front")
	}
	p := startProxy(t, all.shards, "--proxy-password", "front")
	c := p.Dial()
	for _, request := range [][]any{{"GET", "a"}, {"MGET", "a", "b", "c"}, {"PING"}, {"DBSIZE"}, {"SUBSCRIBE", "x"},
		{"SCAN", "0"}, {"HELLO", 3}, {"CLIENT", "LIST"}, {"CLIENT", "KILL", "TYPE", "normal"}, {"CLIENT", "PAUSE", 100_000},
		{"CLIENT", "UNPAUSE"}, {"CLIENT", "UNBLOCK", 1}, {"CONFIG", "GET", "*"}, {"CONFIG", "SET", "proxy-timeout", 1},
		{"CONFIG", "RESETSTAT"}, {"PUBSUB", "CHANNELS"}, {"PUBSUB", "SHARDCHANNELS"}} {
		if v := ask(t, c, request...); !strings.HasPrefix(v.Text, "NOAUTH") {
			t.Errorf("%v of a stranger: %v", request, v)
		}
	}
	if v := ask(t, c, "AUTH", "front"); v.Text != "OK" {
		t.Fatal(v)
	}
	for _, s := range all.shards {
		s.Do("ACL", "SETUSER", "plain", "on", ">word", "~*", "+@all", "-@dangerous")
	}
	plain := p.Dial()
	expect(t, plain, "OK", "AUTH", "plain", "word")
	for _, request := range [][]any{{"CLIENT", "LIST"}, {"CLIENT", "PAUSE", 100_000}, {"CONFIG", "SET", "proxy-timeout",
		1}} {
		if v := ask(t, plain, request...); !strings.HasPrefix(v.Text, "NOPERM") {
			t.Errorf("%v of a user without the right: %v", request, v)
		}
	}
	replies, err := plain.Pipeline([]any{"SET", "ordered", "1"}, []any{"CLIENT", "LIST"}, []any{"GET", "ordered"})
	if err != nil || len(replies) != 3 || replies[0].Text != "OK" || replies[1].Err() == nil || replies[2].Text != "1" {
		t.Errorf("a pipeline: %v (%v)", replies, err)
	}
	expect(t, plain, "1", "DEL", "ordered")
	if v := ask(t, c, "CONFIG", "GET", "proxy-timeout"); v.Err() != nil {
		t.Error(v)
	}
	if v := ask(t, c, "MSET", "a", "1", "b", "2", "c", "3"); v.Text != "OK" {
		t.Error(v)
	}
	if v := ask(t, c, "DBSIZE"); v.Int != 3 {
		t.Error(v)
	}
}

// ask sends a request and returns its reply, which may be an error.
func ask(t *testing.T, c *respclient.Client, args ...any) respclient.Value {
	t.Helper()
	v, err := c.Do(args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}
