package topology

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// redirecting lists the kinds of servers that redirect clients to their primary.
var redirecting = []string{testkit.Ours, testkit.Valkey9}

// eachRedirecting runs f as a parallel subtest for each kind, with two servers of that kind.
func eachRedirecting(t *testing.T, f func(t *testing.T, kind string, primary, other *testkit.Server)) {
	t.Parallel()
	for _, kind := range redirecting {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			spec := testkit.Kind(t, kind)
			f(t, kind, testkit.Launch(t, spec), testkit.Launch(t, spec))
		})
	}
}

// redirected returns a client of s that has sent CLIENT CAPA redirect.
func redirected(s *testkit.Server) *respclient.Client {
	c := s.Dial()
	c.SetTimeout(testkit.Slowly(testkit.ReplyTimeout))
	c.Must("CLIENT", "CAPA", "redirect")
	return c
}

// TestRedirect: for a client with CLIENT CAPA redirect, a replica replies to commands on data with its primary's
// address. After READONLY it serves reads. EXEC replies with only the redirection if its commands would be redirected.
func TestRedirect(t *testing.T) {
	eachRedirecting(t, func(t *testing.T, _ string, primary, replica *testkit.Server) {
		before := redirected(replica)
		for _, call := range []string{"MULTI", "SET k v"} {
			before.Must(words(call)...)
		}
		primary.Do("SET", "k", "v")
		replica.Do("REPLICAOF", "127.0.0.1", primary.Port)
		away := fmt.Sprintf("REDIRECT 127.0.0.1:%d", primary.Port)
		if v, err := before.Do("EXEC"); err != nil || v.Text != away {
			t.Errorf("EXEC of a transaction that began on a primary: %v, %v", v, err)
		}
		if v, err := before.Do("PING"); err != nil || v.Text != "PONG" {
			t.Errorf("after that EXEC: %v, %v", v, err)
		}
		replica.AwaitInfo(20*time.Second, "replication", "master_link_status", "up")
		other := replica.Dial()
		c := redirected(replica)
		for _, step := range []struct{ call, want string }{
			{"GET k", away}, {"SET k w", away}, {"KEYS *", away}, {"SCAN 0", away}, {"DBSIZE", away},
			{"TYPE k", away}, {"FLUSHALL", away}, {"BLPOP l 1", away}, {"OBJECT ENCODING k", away},
			{"EVAL_RO return(1) 0", away}, {"EVAL return(1) 0", "1"}, {"SET k", "ERR wrong number"},
			{"EVAL return(redis.call('get','k')) 0", "v"}, {"EVAL return(redis.call('set','k','w')) 0", "READONLY"},
			{"PING", "PONG"}, {"ECHO x", "x"}, {"PUBLISH c m", "0"}, {"SELECT 0", "OK"}, {"WATCH k", "OK"},
			{"MULTI", "OK"}, {"GET k", away}, {"EXEC", "EXECABORT"},
			{"MULTI", "OK"}, {"PING", "QUEUED"}, {"SET k w", away}, {"EXEC", "EXECABORT"},
			{"READONLY", "OK"}, {"GET k", "v"}, {"SET k w", away}, {"EVAL_RO return(1) 0", "1"},
			{"MULTI", "OK"}, {"GET k", "QUEUED"}, {"EXEC", "[v]"},
			{"READWRITE", "OK"}, {"GET k", away},
			{"READONLY", "OK"}, {"RESET", "RESET"}, {"GET k", away},
		} {
			v, err := c.Do(words(step.call)...)
			got := v.Word()
			if v.Kind == '*' {
				got = fmt.Sprint(v.Strings())
			}
			if err != nil || !strings.HasPrefix(got, step.want) {
				t.Errorf("%s: %q, %v; want %q", step.call, got, err, step.want)
			}
		}
		if v := other.Must("GET", "k"); v.Text != "v" {
			t.Errorf("a client without the capability reads %v", v)
		}
		replica.Do("CONFIG", "SET", "replica-read-only", "no")
		if v, err := c.Do("SET", "k", "w"); err != nil || v.Text != away {
			t.Errorf("a replica that may be written to: %v, %v", v, err)
		}
		replica.Do("REPLICAOF", "NO", "ONE")
		if v := c.Must("SET", "k", "w"); v.Text != "OK" {
			t.Errorf("a primary again: %v", v)
		}
	})
}

// words returns the arguments of a call that has no spaces in its arguments.
func words(call string) (args []any) {
	for _, w := range strings.Fields(call) {
		args = append(args, w)
	}
	return args
}

// TestRedirectOfTheBlocked: when a primary becomes a replica, it redirects blocked clients with the capability, and
// leaves them connected. A READONLY client that waits for a read stays blocked.
func TestRedirectOfTheBlocked(t *testing.T) {
	eachRedirecting(t, func(t *testing.T, _ string, primary, s *testkit.Server) {
		pops, reads, waits, reader := redirected(s), redirected(s), redirected(s), redirected(s)
		reader.Must("READONLY")
		for c, call := range map[*respclient.Client]string{pops: "BLPOP list 0",
			reads: "XREAD BLOCK 0 STREAMS stream $", waits: "WAIT 3 0", reader: "XREAD BLOCK 0 STREAMS stream $"} {
			c.Send(words(call)...)
			must2(t, c.Flush())
		}
		testkit.Until(t, testkit.Slowly(20*time.Second), "they wait",
			func() error { return testkit.Equal(s.Info("clients")["blocked_clients"], "4") })
		s.Do("REPLICAOF", "127.0.0.1", primary.Port)
		away := fmt.Sprintf("REDIRECT 127.0.0.1:%d", primary.Port)
		for name, c := range map[string]*respclient.Client{"BLPOP": pops, "XREAD": reads} {
			if v, err := c.Receive(); err != nil || v.Text != away {
				t.Errorf("%s is answered by %v, %v", name, v, err)
			}
			if v, err := c.Do("PING"); err != nil || v.Text != "PONG" {
				t.Errorf("after %s: %v, %v", name, v, err)
			}
		}
		if v, err := waits.Receive(); err != nil || !strings.HasPrefix(v.Text, "UNBLOCKED ") {
			t.Errorf("WAIT is answered by %v, %v", v, err)
		}
		s.AwaitInfo(20*time.Second, "replication", "master_link_status", "up")
		primary.Do("XADD", "stream", "1-1", "f", "v")
		if v, err := reader.Receive(); err != nil || v.Kind != '*' {
			t.Errorf("a READONLY client's XREAD is answered by %v, %v", v, err)
		}
	})
}

// TestRedirectDuringFailover: during a failover, while both servers are replicas, a client with the capability waits.
// Then it is redirected to the new primary.
func TestRedirectDuringFailover(t *testing.T) {
	eachRedirecting(t, func(t *testing.T, kind string, primary, replica *testkit.Server) {
		replica.Do("REPLICAOF", "127.0.0.1", primary.Port)
		up(t, replica)
		online(t, primary, 1)
		c := redirected(primary)
		replica.Signal(syscall.SIGSTOP)
		defer replica.Signal(syscall.SIGCONT)
		primary.Do("SET", "k", "v") // the replica does not acknowledge it
		primary.Do("FAILOVER", "TO", "127.0.0.1", replica.Port, "FORCE", "TIMEOUT", 100)
		primary.AwaitInfo(20*time.Second, "replication", "master_failover_state", "failover-in-progress")
		c.Send("GET", "k")
		must2(t, c.Flush())
		if kind == testkit.Ours {
			testkit.Until(t, testkit.Slowly(20*time.Second), "it waits", func() error {
				list := primary.Do("CLIENT", "LIST", "CAPA", "r").Text
				if !strings.Contains(list, " flags=b ") {
					return fmt.Errorf("clients: %s", list)
				}
				return nil
			})
		}
		replica.Signal(syscall.SIGCONT)
		if v, err := c.Receive(); err != nil || v.Text != fmt.Sprintf("REDIRECT 127.0.0.1:%d", replica.Port) {
			t.Errorf("after the failover: %v, %v", v, err)
		}
		if role := primary.Info("replication")["role"]; role != "slave" {
			t.Errorf("the old primary is %s", role)
		}
	})
}
