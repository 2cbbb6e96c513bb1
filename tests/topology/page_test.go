package topology

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestReplicationPage follows doc/replication.md to the letter up to Sentinel, except for the ports, while a client
// increments a counter. The counter is right in the end, and no write is lost. The test also runs with Redis 8 and
// Valkey 9 in redis-server's place.
func TestReplicationPage(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{testkit.Redis70, testkit.Redis8, testkit.Valkey9} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			page, err := os.ReadFile("../../doc/replication.md")
			must2(t, err)
			script := "set -e\n"
			plain, _, _ := strings.Cut(string(page), "\n## Under Sentinel\n") // tests/sentinel has that part
			for line := range strings.Lines(plain) {
				if command, ok := strings.CutPrefix(line, "    "); ok {
					script += command
				}
			}
			dir := t.TempDir()
			testkit.PageServers(t, dir, kind)
			spec := testkit.Kind(t, kind)
			a := testkit.Launch(t, spec)
			spec.Args = []string{"--replicaof", "127.0.0.1 " + strconv.Itoa(a.Port)}
			b := testkit.Launch(t, spec)
			up(t, b)
			testkit.Pipe(t, a.Dial(), 5000, func(i int) []any { return []any{"SET", fmt.Sprint("still:", i), i} })
			ports := map[string]int{"6379": a.Port, "6380": b.Port, "6381": testkit.FreePort(t)}
			for name, port := range ports {
				script = strings.ReplaceAll(script, name, strconv.Itoa(port))
				t.Cleanup(func() { testkit.ShutDown(t, port) })
			}
			c := startWanderer(t, ports["6379"], ports["6381"], ports["6380"])
			out, code := testkit.Run(t, testkit.Slowly(2*time.Minute), "cd "+dir+"\nPATH=$PWD:$PATH\n"+script, "/bin/sh")
			if c.stop(); code != 0 {
				t.Fatalf("the page ends with %d: %s", code, out)
			}
			for _, name := range []string{"6380", "6379"} {
				conn := c.dial(ports[name])
				if strings.Contains(conn.Must("INFO", "server").Text, "spindle") {
					t.Errorf("%s is no redis-server", name)
				}
				testkit.Until(t, testkit.Slowly(20*time.Second), "all that was written", func() error {
					got := conn.Must("GET", "wanderer").Text + " " + strconv.FormatInt(conn.Must("DBSIZE").Int, 10)
					return testkit.Equal(got, strconv.FormatInt(c.acked.Load(), 10)+" 5001")
				})
			}
			t.Logf("%d writes, at %d primaries", c.acked.Load(), c.moves.Load()+1)
			if c.moves.Load() != 2 {
				t.Errorf("the writer moved %d times, want twice", c.moves.Load())
			}
		})
	}
}

// A wanderer is a client that increments a counter on one primary after another. On READONLY it connects to the next
// server.
type wanderer struct {
	t     *testing.T
	done  atomic.Bool
	over  chan struct{}
	acked atomic.Int64
	moves atomic.Int64
}

func startWanderer(t *testing.T, ports ...int) *wanderer {
	c := &wanderer{t: t, over: make(chan struct{})}
	conn := c.dial(ports[0])
	go func() {
		defer close(c.over)
		for pace := time.Tick(time.Millisecond); !c.done.Load(); <-pace {
			v, err := conn.Do("INCR", "wanderer")
			switch {
			case err == nil && strings.HasPrefix(v.Text, "READONLY"):
				if c.moves.Add(1) == int64(len(ports)) {
					t.Error("no primary is left")
					return
				}
				conn = c.dial(ports[c.moves.Load()])
			case err != nil || v.Int != c.acked.Add(1):
				t.Errorf("INCR: %v %v, want %d", v, err, c.acked.Load())
				return
			}
		}
	}()
	return c
}

func (c *wanderer) dial(port int) *respclient.Client {
	conn, err := respclient.Dial("127.0.0.1:" + strconv.Itoa(port))
	if err != nil {
		c.t.Error(err)
		return nil
	}
	conn.SetTimeout(testkit.Slowly(testkit.ReplyTimeout))
	c.t.Cleanup(func() { conn.Close() })
	return conn
}

func (c *wanderer) stop() {
	c.done.Store(true)
	<-c.over
}
