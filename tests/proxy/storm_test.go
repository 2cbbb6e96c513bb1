package proxy

import (
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

var backends = []string{"epoll", "gnet", "io_uring"}

// TestKnownClientsInAStorm: new connections come as fast as the host makes them, and most of them log in. Each request
// of the clients that were there before is answered, and each new client is served.
func TestKnownClientsInAStorm(t *testing.T) {
	all := startTier(t, true, 0, 0)
	for _, s := range all.shards {
		s.Do("ACL", "SETUSER", "visitor", "on", ">secret", "~*", "+@all")
	}
	certificates := testkit.NewCertificates(t)
	config := certificates.Client(t, false)
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			secure := testkit.FreePort(t)
			p := startProxy(t, all.shards, append(certificates.Directives(secure), "--reactor-backend", backend,
				"--tls-auth-clients", "no", "--proxy-timeout", patient)...)
			quiet := serveKnown(t, p, func() { testkit.Lapse(testkit.Slowly(time.Second)) })
			var greeted atomic.Int64
			newcomers := 800 * testkit.Scale()
			begun := time.Now()
			stormy := serveKnown(t, p, func() {
				var storm sync.WaitGroup
				for worker := range 8 {
					storm.Go(func() {
						for i := worker; i < newcomers; i += 8 {
							if err := visit(p, secure, config, i); err != nil {
								t.Errorf("new client %d: %v", i, err)
								return
							}
							greeted.Add(1)
						}
					})
				}
				storm.Wait()
			})
			took := time.Since(begun)
			if int(greeted.Load()) != newcomers {
				t.Errorf("%d of %d new clients were served", greeted.Load(), newcomers)
			}
			t.Logf("quiet: %v; beside %d new clients, %.0f a second: %v", quiet, newcomers,
				float64(newcomers)/took.Seconds(), stormy)
		})
	}
}

// visit is a new client: every sixteenth comes under TLS, and most of the others log in.
func visit(p *testkit.Server, secure int, config *tls.Config, i int) error {
	var c *respclient.Client
	var err error
	if i%16 == 0 {
		conn, failed := tls.DialWithDialer(&net.Dialer{Timeout: testkit.Slowly(testkit.ReplyTimeout)}, "tcp",
			"127.0.0.1:"+strconv.Itoa(secure), config)
		if failed != nil {
			return failed
		}
		c = respclient.New(conn)
	} else if c, err = respclient.DialTimeout(p.Addr, testkit.Slowly(testkit.ReplyTimeout)); err != nil {
		return err
	}
	defer c.Close()
	c.SetTimeout(testkit.Slowly(testkit.ReplyTimeout))
	request := [][]any{{"AUTH", "visitor", "secret"}, {"HELLO", 3, "AUTH", "visitor", "secret"}, {"PING"}}[i%3]
	v, err := c.Do(request...)
	if err == nil {
		err = v.Err()
	}
	return err
}

// latencies are the times that requests took.
type latencies []time.Duration

func (l latencies) String() string {
	if len(l) == 0 {
		return "none"
	}
	slices.Sort(l)
	return fmt.Sprintf("%d requests, median %v, p99 %v, longest %v", len(l), l[len(l)/2], l[len(l)*99/100], l[len(l)-1])
}

// serveKnown has eight clients send requests while f runs. It returns how long each took.
func serveKnown(t *testing.T, p *testkit.Server, f func()) (took latencies) {
	t.Helper()
	stop := make(chan struct{})
	var mu sync.Mutex
	var known sync.WaitGroup
	for i := range 8 {
		c := p.Dial()
		known.Go(func() {
			var own latencies
			for n := 0; ; n++ {
				select {
				case <-stop:
					mu.Lock()
					took = append(took, own...)
					mu.Unlock()
					return
				default:
				}
				key, begun := fmt.Sprintf("known:%d", i), time.Now()
				v, err := c.Do("SET", key, n)
				if err != nil || v.Text != "OK" {
					t.Errorf("SET of known client %d: %v (%v)", i, v, err)
					return
				}
				own = append(own, time.Since(begun))
				testkit.Lapse(time.Millisecond)
			}
		})
	}
	f()
	close(stop)
	known.Wait()
	return took
}

// TestKnownClientsComeFirst: connections wait to be accepted when a known client's request arrives. The request is
// answered before the first of them is accepted.
func TestKnownClientsComeFirst(t *testing.T) {
	all := startTier(t, true, 0, 0)
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			const waiting = 200
			p := startProxy(t, all.shards, "--reactor-backend", backend, "--io-threads", "1")
			c := p.Dial()
			accepted := func() int {
				for line := range strings.Lines(ask(t, c, "INFO", "clients").Text) {
					if n, found := strings.CutPrefix(strings.TrimSpace(line), "total_connections_received:"); found {
						count, err := strconv.Atoi(n)
						if err != nil {
							t.Fatal(err)
						}
						return count
					}
				}
				t.Fatal("INFO does not tell how many connections were accepted")
				return 0
			}
			before := accepted()
			freeze(t, p)
			for range waiting {
				n, err := net.Dial("tcp", p.Addr)
				if err != nil {
					t.Fatal(err)
				}
				defer n.Close()
			}
			send(t, c, "INFO", "clients")
			p.Signal(syscall.SIGCONT)
			v, err := c.Receive()
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("total_connections_received:%d\r\n", before); !strings.Contains(v.Text, want) {
				t.Errorf("connections were accepted before the known client was served: %q, want %q", v.Text, want)
			}
			testkit.Until(t, testkit.Slowly(30*time.Second), "all are accepted", func() error {
				return testkit.Equal(accepted(), before+waiting)
			})
		})
	}
}

// TestLoginsShareRequests: many clients log in at once. The proxy asks the shards a few times, and each client gets an
// answer that the shard has given after the client's request.
func TestLoginsShareRequests(t *testing.T) {
	all := startTier(t, true, 0, 1, "--proxy-timeout", patient)
	p := all.proxies[0]
	for _, s := range all.shards {
		s.Do("ACL", "SETUSER", "visitor", "on", ">secret", "~*", "+@all")
	}
	calls := func(command string) (sum int64) {
		for _, s := range all.shards {
			text := s.Info("commandstats")["cmdstat_"+command]
			n, _ := strconv.ParseInt(strings.TrimPrefix(strings.Split(text, ",")[0], "calls="), 10, 64)
			sum += n
		}
		return sum
	}
	const clients = 200
	var visitors []*respclient.Client
	for range clients {
		visitors = append(visitors, p.Dial())
	}
	for _, c := range visitors { // the proxy has accepted each
		expect(t, c, "PONG", "PING")
	}
	for _, request := range [][]any{{"AUTH", "visitor", "secret"}, {"AUTH", "visitor", "wrong"}, {"HELLO", 3}} {
		name := strings.ToLower(request[0].(string))
		before := calls(name)
		freeze(t, p)
		for _, c := range visitors {
			send(t, c, request...)
		}
		p.Signal(syscall.SIGCONT)
		for i, c := range visitors {
			v, err := c.Receive()
			if wrong := len(request) > 2 && request[2] == "wrong"; err != nil || (v.Err() != nil) != wrong ||
				wrong && !strings.HasPrefix(v.Text, "WRONGPASS") {
				t.Fatalf("%v of client %d: %v (%v)", request, i, v, err)
			}
		}
		if n := calls(name) - before; n > clients/4 {
			t.Errorf("%v of %d clients: the shards were asked %d times", request, clients, n)
		} else {
			t.Logf("%v of %d clients: the shards were asked %d times", request, clients, n)
		}
	}
	expect(t, visitors[0], "visitor", "ACL", "WHOAMI")
	for _, s := range all.shards {
		s.Do("ACL", "SETUSER", "visitor", "resetpass", ">other")
	}
	if v := ask(t, visitors[1], "AUTH", "visitor", "secret"); !strings.HasPrefix(v.Text, "WRONGPASS") {
		t.Errorf("AUTH with the password of before: %v", v)
	}
	expect(t, visitors[1], "OK", "AUTH", "visitor", "other")
}

// TestWrongPasswordsInAStorm: clients come with a different wrong password each. Each is told so, and the shards' limit
// of clients is not reached.
func TestWrongPasswordsInAStorm(t *testing.T) {
	all := startTier(t, true, 0, 1, "--proxy-timeout", patient)
	p := all.proxies[0]
	const clients, limit = 900, 150
	var visitors []*respclient.Client
	for range clients {
		visitors = append(visitors, p.Dial())
	}
	for _, s := range all.shards {
		s.Do("ACL", "SETUSER", "visitor", "on", ">secret", "~*", "+@all")
		s.Do("CONFIG", "SET", "maxclients", limit)
	}
	freeze(t, p)
	for i, c := range visitors {
		send(t, c, "AUTH", "visitor", "wrong:"+strconv.Itoa(i))
	}
	p.Signal(syscall.SIGCONT)
	for i, c := range visitors {
		if v, err := c.Receive(); err != nil || !strings.HasPrefix(v.Text, "WRONGPASS") {
			t.Fatalf("client %d: %v (%v)", i, v, err)
		}
	}
	expect(t, visitors[0], "OK", "AUTH", "visitor", "secret")
	expect(t, visitors[0], "OK", "SET", "a", "1")
}

// TestLoginsBesideAStoppedShard: many identities come while a shard stands still, or is dead. The other shards check
// them all, and tell those with a wrong password so.
func TestLoginsBesideAStoppedShard(t *testing.T) {
	const clients = 400 // many more than may wait for one shard
	for name, stop := range map[string]func(s *testkit.Server){
		"stopped": func(s *testkit.Server) { freeze(t, s) },
		"dead":    func(s *testkit.Server) { s.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			all := startTier(t, true, 0, 1, "--proxy-timeout", patient)
			for _, s := range all.shards {
				for i := range clients {
					s.Do("ACL", "SETUSER", "user"+strconv.Itoa(i), "on", ">secret", "~*", "+@all")
				}
			}
			var visitors []*respclient.Client
			for range clients {
				visitors = append(visitors, all.proxies[0].Dial())
			}
			stop(all.shards[1])
			for i, c := range visitors {
				send(t, c, "AUTH", "user"+strconv.Itoa(i), []string{"secret", "wrong"}[i%2])
			}
			for i, c := range visitors {
				if v, err := c.Receive(); err != nil || !strings.HasPrefix(v.Text, []string{"OK", "WRONGPASS"}[i%2]) {
					t.Fatalf("client %d: %v (%v)", i, v, err)
				}
			}
			expect(t, visitors[0], "user0", "ACL", "WHOAMI")
			if name == "stopped" {
				all.shards[1].Signal(syscall.SIGCONT)
				testkit.Until(t, testkit.Slowly(time.Minute), "the shard checks again", func() error {
					return testkit.Equal(ask(t, visitors[1], "AUTH", "user1", "secret").Text, "OK")
				})
			}
		})
	}
}
