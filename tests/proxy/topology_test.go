package proxy

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"spindle/internal/logging"
	"spindle/proxy/topology"
	"spindle/tests/testkit"
)

// untilMap waits until holds is true for the current Map of a Finder.
func untilMap(t *testing.T, current func() *topology.Map, what string, holds func(m *topology.Map) bool) *topology.Map {
	t.Helper()
	testkit.Await(t, testkit.Slowly(30*time.Second), what, func() bool { return holds(current()) })
	return current()
}

// nonsense listens and replies to every request with the same bytes.
func nonsense(t *testing.T, answer string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 4096)
				for {
					if _, err := c.Read(buf); err != nil {
						return
					}
					if _, err := c.Write([]byte(answer)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// TestFinderFollowsACluster: the Map covers all slots. A failover changes one shard's primary and no ID. A redirection
// changes the Map at once.
func TestFinderFollowsACluster(t *testing.T) {
	for _, redis := range []bool{false, true} {
		t.Run(fmt.Sprintf("redis %t", redis), func(t *testing.T) {
			t.Parallel()
			all := startTier(t, redis, 1, 0)
			closed := fmt.Sprint("127.0.0.1:", testkit.FreePort(t))
			f := topology.New(topology.Options{
				Seeds: []string{closed, nonsense(t, "+OK\r\n"), nonsense(t, "HTTP/1.1 400 Bad Request\r\n\r\n"),
					all.shards[5].Addr},
				Every: time.Hour, Lag: 50 * time.Millisecond,
			})
			defer f.Close()
			var mu sync.Mutex
			var versions []uint64
			f.OnChange(func(m *topology.Map) {
				mu.Lock()
				versions = append(versions, m.Version)
				mu.Unlock()
			})
			before := untilMap(t, f.Current, "three shards with a replica each", func(m *topology.Map) bool {
				f.Refresh()
				return len(m.Shards) == 3 && m.Uncovered() == 0 &&
					!slices.ContainsFunc(m.Shards, func(s *topology.Shard) bool { return len(s.Replicas) != 1 })
			})
			replica := before.Shards[0].Replicas[0]
			untilMap(t, f.Current, "the replica's lag is small", func(*topology.Map) bool {
				lag, known := replica.Lag()
				return known && lag < testkit.Slowly(5*time.Second)
			})

			next := all.shards[slices.IndexFunc(all.shards, func(s *testkit.Server) bool { return s.Addr == replica.Addr })]
			var begun time.Time
			after := untilMap(t, f.Current, "the replica is the primary", func(m *topology.Map) bool {
				if time.Since(begun) > testkit.Slowly(6*time.Second) { // a manual failover lapses after 5 s
					next.Ask("CLUSTER", "FAILOVER")
					begun = time.Now()
				}
				f.Refresh()
				if m.Uncovered() > 0 {
					t.Errorf("%d slots have no shard in the failover", m.Uncovered())
				}
				return m.Shard(0).Primary == replica.Addr
			})
			if after.Shard(0).ID != before.Shard(0).ID || after.Owner(0) != before.Owner(0) ||
				after.Shards[1].ID != before.Shards[1].ID || after.Shards[1].Primary != before.Shards[1].Primary {
				t.Errorf("the failover changed more than the primary: %v, %v; %v, %v", before.Shards[0], before.Shards[1],
					after.Shards[0], after.Shards[1])
			}

			// A wrong redirection is corrected by the refresh that it causes.
			other := after.Shards[1].Primary
			f.Moved(7, other)
			if now := f.Current(); now.Shard(7).Primary != other || now.Shard(8).Primary != replica.Addr {
				t.Error("a redirection has not changed its slot at once")
			}
			untilMap(t, f.Current, "the slot is back", func(m *topology.Map) bool { return m.Shard(7).Primary == replica.Addr })
			mu.Lock()
			for i, v := range versions {
				if i > 0 && v != versions[i-1]+1 {
					t.Errorf("versions %v", versions)
				}
			}
			mu.Unlock()
		})
	}
}

// lines is a log that tests read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.text.Bytes(), []byte(text))
}

// TestFinderKeepsTheLastMap: when no node replies any more, the last Map stays.
func TestFinderKeepsTheLastMap(t *testing.T) {
	all := startTier(t, true, 0, 0)
	var log lines
	f := topology.New(topology.Options{Seeds: []string{all.shards[0].Addr}, Every: 20 * time.Millisecond,
		Access: topology.Access{Timeout: time.Second}, Log: logging.New(&log)})
	defer f.Close()
	m := untilMap(t, f.Current, "three shards", func(m *topology.Map) bool {
		return len(m.Shards) == 3 && m.Uncovered() ==
			0
	})
	for _, s := range all.shards {
		testkit.ShutDown(t, s.Port)
	}
	testkit.Await(t, testkit.Slowly(30*time.Second), "each node was asked without success", func() bool {
		return !slices.ContainsFunc(all.shards,
			func(s *testkit.Server) bool { return !log.has("node " + s.Addr + " does not count") })
	})
	if now := f.Current(); now.Uncovered() != 0 || len(now.Shards) != 3 || now.Slots() != m.Slots() {
		t.Errorf("the Map has %d shards, %d slots without one", len(now.Shards), now.Uncovered())
	}
}

// TestFinderHasPasswordAndTLS: a Finder reaches a node only with a user's password and TLS.
func TestFinderHasPasswordAndTLS(t *testing.T) {
	certificates := testkit.NewCertificates(t)
	port := testkit.FreePort(t)
	args := append(certificates.Directives(port), "--cluster-enabled", "yes", "--cluster-port",
		strconv.Itoa(testkit.FreePort(t)))
	s := testkit.Start(t, args...)
	s.Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	s.Do("ACL", "SETUSER", "finder", "on", ">secret", "+cluster|shards", "+cluster|slots", "+cluster|info")
	find := func(user, password string, config *tls.Config) int {
		f := topology.New(topology.Options{Seeds: []string{fmt.Sprint("127.0.0.1:", port)}, Every: time.Hour,
			Access: topology.Access{User: user, Password: password,
				TLS: func() *tls.Config { return config }, Timeout: testkit.Slowly(5 * time.Second)}})
		defer f.Close()
		m := f.Current()
		if len(m.Shards) > 0 && m.Shards[0].Primary != fmt.Sprint("127.0.0.1:", port) {
			t.Errorf("the primary is at %s", m.Shards[0].Primary)
		}
		return m.Slots() - m.Uncovered()
	}
	config := certificates.Client(t, true)
	if n := find("finder", "secret", config); n != 16384 {
		t.Errorf("%d slots are known", n)
	}
	if n := find("finder", "wrong", config); n != 0 {
		t.Errorf("%d slots are known with a wrong password", n)
	}
	if n := find("finder", "secret", &tls.Config{}); n != 0 {
		t.Errorf("%d slots are known without trust in the certificate", n)
	}
}

// TestFinderFollowsSentinels: a Sentinel's message about a failover changes the Map. Unreachable Sentinels do not
// matter.
func TestFinderFollowsSentinels(t *testing.T) {
	for _, redis := range []bool{false, true} {
		t.Run(fmt.Sprintf("redis %t", redis), func(t *testing.T) {
			t.Parallel()
			launch := func(args ...string) *testkit.Server { return testkit.Launch(t, testkit.Spec{Redis: redis, Args: args}) }
			primary, other := launch(), launch()
			replica := launch("--replicaof", "127.0.0.1 "+strconv.Itoa(primary.Port))
			dir, port := t.TempDir(), testkit.FreePort(t)
			file := filepath.Join(dir, "sentinel.conf")
			text := fmt.Sprintf(
				"port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor a 127.0.0.1 %d 1\nsentinel monitor b 127.0.0.1 %d 1\n", port,
				dir, primary.Port, other.Port)
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			sentinel := testkit.Launch(t, testkit.Spec{Redis: redis, Bare: true, Dir: dir, Port: port,
				Args: []string{file, "--sentinel"}})
			f := topology.FindSentinel(topology.SentinelOptions{
				Sentinels: []string{nonsense(t, "*2\r\n+127.0.0.1\r\n"), fmt.Sprint("127.0.0.1:", testkit.FreePort(t)),
					sentinel.Addr},
				Masters: []string{"a", "b"}, Owners: topology.EqualRanges(1024, 2),
				Sentinel: topology.Access{Timeout: testkit.Slowly(time.Second)}, Every: time.Second, Lag: 50 * time.Millisecond,
			})
			defer f.Close()
			m := untilMap(t, f.Current, "both primaries and the replica", func(m *topology.Map) bool {
				f.Refresh()
				return len(m.Shards) == 2 && len(m.Shards[0].Replicas) == 1 && m.Uncovered() == 0
			})
			if m.Slots() != 1024 || m.Shard(0).Primary != primary.Addr || m.Shard(1023).Primary != other.Addr ||
				m.Shard(0).ID != "a" || m.Shards[0].Replicas[0].Addr != replica.Addr {
				t.Errorf("the Map has %v and %v", m.Shards[0], m.Shards[1])
			}
			testkit.Until(t, testkit.Slowly(60*time.Second), "the Sentinel begins a failover", func() error {
				v, err := sentinel.Ask("SENTINEL", "FAILOVER", "a")
				if err == nil {
					err = v.Err()
				}
				return err
			})
			untilMap(t, f.Current, "the replica took over", func(m *topology.Map) bool {
				return m.Shard(0).Primary ==
					replica.Addr
			})
			if now := f.Current(); now.Shard(0).ID != "a" || now.Shard(1023).Primary != other.Addr {
				t.Errorf("the Map has %v and %v", now.Shards[0], now.Shards[1])
			}
		})
	}
}
