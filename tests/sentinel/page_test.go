package sentinel

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestPage follows doc/replication.md about Sentinel to the letter, except for the ports. Meanwhile a client that asks
// Sentinels for the primary increments a counter. No acknowledged write is lost, in either direction of the migration.
// The test also runs with Redis 8 and Valkey 9 in redis-server's place.
func TestPage(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{testkit.Redis70, testkit.Redis8, testkit.Valkey9} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			page, err := os.ReadFile("../../doc/replication.md")
			if err != nil {
				t.Fatal(err)
			}
			_, part, _ := strings.Cut(string(page), "\n## Under Sentinel\n")
			part, _, _ = strings.Cut(part, "\n## ")
			var script strings.Builder
			for line := range strings.Lines(part) {
				if command, ok := strings.CutPrefix(line, "    "); ok {
					script.WriteString(command)
				}
			}
			dir := t.TempDir()
			testkit.PageServers(t, dir, kind)
			ports := map[string]string{}
			for _, name := range []string{"6379", "6380", "6381", "26379", "26380", "26381"} {
				port := testkit.FreePort(t)
				ports[name] = strconv.Itoa(port)
				t.Cleanup(func() { testkit.ShutDown(t, port) })
			}
			g := redisPair(t, dir, kind, ports)
			c := startCounter(t, ports["26379"], ports["26380"], ports["26381"])
			text := regexp.MustCompile(`\b2?63(79|80|81)\b`).ReplaceAllStringFunc(script.String(),
				func(s string) string { return ports[s] })
			out, code := testkit.Run(t, testkit.Slowly(4*time.Minute), "set -e\ncd "+dir+"\nPATH=$PWD:$PATH\n"+text, "/bin/sh")
			if code != 0 {
				t.Fatalf("the page ends with %d: %s", code, out)
			}
			c.settle()
			for _, s := range g.sentinels {
				if !s.Ended() {
					t.Error("a Sentinel that the page replaces still runs")
				}
			}
			if at := c.primary(); at != "127.0.0.1:"+ports["6380"] {
				t.Errorf("in the end the primary is %s", at)
			}
			if moves := c.moves.Load(); moves != 2 {
				t.Errorf("the primary moved %d times, want twice", moves)
			}
			t.Logf("%d writes acknowledged, %d in doubt", c.acked.Load(), c.doubts.Load())
		})
	}
}

// redisPair starts the servers with which the page begins: two servers and three Sentinels of a kind.
func redisPair(t *testing.T, dir, kind string, ports map[string]string) (g group) {
	t.Helper()
	for _, name := range []string{"6379", "6380"} {
		port, _ := strconv.Atoi(ports[name])
		spec := testkit.Kind(t, kind)
		spec.Port = port
		s := testkit.Launch(t, spec)
		if len(g.servers) > 0 {
			s.Do("REPLICAOF", "127.0.0.1", ports["6379"])
			s.AwaitInfo(patience, "replication", "master_link_status", "up")
		}
		g.servers = append(g.servers, s)
	}
	for _, name := range []string{"26379", "26380", "26381"} {
		port, _ := strconv.Atoi(ports[name])
		file := fmt.Sprintf("%s/sentinel-%d.conf", dir, port)
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor mymaster 127.0.0.1 %s 2\n"+
			"sentinel down-after-milliseconds mymaster 5000\n", port, dir, ports["6379"])
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		spec := testkit.Kind(t, kind)
		spec.Bare, spec.Dir, spec.Port, spec.Args = true, dir, port, []string{file, "--sentinel"}
		g.sentinels = append(g.sentinels, watched{testkit.Launch(t, spec), file})
	}
	for _, s := range g.sentinels {
		testkit.Until(t, patience, "the Sentinels to know each other", func() error {
			m := fields(s.Do("SENTINEL", "MASTER", "mymaster"))
			return testkit.Equal(m["num-other-sentinels"]+" "+m["num-slaves"], "2 1")
		})
	}
	return g
}

// A counter is a client that increments a key on the primary that the Sentinels name. When a write fails, it asks the
// Sentinels again.
type counter struct {
	t         *testing.T
	sentinels []string
	done      atomic.Bool
	over      chan struct{}
	acked     atomic.Int64 // the reply to the latest write
	doubts    atomic.Int64 // writes without a reply, which may have been carried out
	moves     atomic.Int64 // changes of the primary
}

func startCounter(t *testing.T, sentinels ...string) *counter {
	c := &counter{t: t, sentinels: sentinels, over: make(chan struct{})}
	go c.count()
	t.Cleanup(c.stop)
	return c
}

func (c *counter) stop() {
	c.done.Store(true)
	<-c.over
}

// settle waits for one more acknowledged write, and stops the client.
func (c *counter) settle() {
	c.t.Helper()
	before := c.acked.Load()
	testkit.Until(c.t, patience, "another write", func() error {
		if c.acked.Load() == before {
			return fmt.Errorf("none")
		}
		return nil
	})
	c.stop()
}

// primary returns the primary's address according to the first Sentinel that answers.
func (c *counter) primary() string {
	for _, port := range c.sentinels {
		conn, err := respclient.Dial("127.0.0.1:" + port)
		if err != nil {
			continue
		}
		conn.SetTimeout(5 * time.Second)
		v, err := conn.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")
		conn.Close()
		if err == nil && len(v.Elems) == 2 {
			return net.JoinHostPort(v.Elems[0].Text, v.Elems[1].Text)
		}
	}
	return ""
}

func (c *counter) count() {
	defer close(c.over)
	var conn *respclient.Client
	var written string // the primary of the latest write
	for pace := time.Tick(25 * time.Millisecond); !c.done.Load(); {
		<-pace
		at := written
		if conn == nil {
			var err error
			at = c.primary()
			if conn, err = respclient.Dial(at); err != nil {
				conn = nil
				continue
			}
			conn.SetTimeout(testkit.Slowly(20 * time.Second))
		}
		v, err := conn.Do("INCR", "counter")
		switch {
		case err != nil:
			c.doubts.Add(1)
		case v.Err() == nil:
			if before := c.acked.Load(); v.Int <= before || v.Int > before+1+c.doubts.Load() {
				c.t.Errorf("INCR at %s: %d, after %d, and %d in doubt", at, v.Int, before, c.doubts.Load())
				return
			}
			if written != "" && at != written {
				c.moves.Add(1)
			}
			written = at
			c.acked.Store(v.Int)
			continue
		}
		conn.Close()
		conn = nil
	}
}
