package cluster

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spindle/internal/slots"
	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestClusterPage follows doc/cluster.md to the letter, except for the ports, while clients increment counters in each
// shard. The clients get no error but MOVED, and the counters are right in the end. The test also runs with Redis 8 and
// Valkey 9 in redis-server's place.
func TestClusterPage(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{testkit.Redis70, testkit.Redis8, testkit.Valkey9} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			page, err := os.ReadFile("../../doc/cluster.md")
			if err != nil {
				t.Fatal(err)
			}
			script := "set -e\n"
			for line := range strings.Lines(string(page)) {
				if command, ok := strings.CutPrefix(line, "    "); ok {
					script += command
				}
			}
			dir, first := t.TempDir(), testkit.FreePorts(t, 6)
			testkit.PageServers(t, dir, kind)
			var nodes []*testkit.Server
			for i := range 6 {
				port := strconv.Itoa(first + i)
				script = strings.ReplaceAll(script, strconv.Itoa(7000+i), port)
				folder := filepath.Join(dir, "node-"+port)
				if err := os.Mkdir(folder, 0o755); err != nil {
					t.Fatal(err)
				}
				spec := testkit.Kind(t, kind)
				spec.Dir, spec.Port = folder, first+i
				spec.Args = []string{"--cluster-enabled", "yes", "--cluster-node-timeout", strconv.Itoa(nodeTimeoutMs)}
				nodes = append(nodes, testkit.Launch(t, spec))
				t.Cleanup(func() { testkit.ShutDown(t, first+i) })
			}
			create(t, nodes, 1)
			synced(t, nodes[3:]...)
			stop := make(chan struct{})
			var counting sync.WaitGroup
			counters := make([]*counter, 3)
			for i := range counters {
				counters[i] = &counter{t: t, dir: dir, key: keyIn(i), at: first + i}
				counting.Go(func() { counters[i].run(stop) })
			}
			out, code := testkit.Run(t, testkit.Slowly(4*time.Minute), "cd "+dir+"\nPATH=$PWD:$PATH\n"+script, "/bin/sh")
			close(stop)
			counting.Wait()
			if code != 0 {
				t.Fatalf("the page ends with %d: %s", code, out)
			}
			if n := strings.Count(out, "All 16384 slots covered"); n < 2 {
				t.Errorf("redis-cli --cluster check was content %d times: %s", n, out)
			}
			for i := range 6 {
				if v, err := ask(first+i, "INFO", "server"); err != nil || strings.Contains(v.Text, "spindle") {
					t.Errorf("the node on port %d is no redis-server: %v", first+i, err)
				}
			}
			for i, c := range counters {
				v, err := ask(c.at, "GET", c.key)
				if err != nil || v.Text != strconv.FormatInt(c.acked.Load(), 10) || c.acked.Load() == 0 {
					t.Errorf("shard %d: counted to %d, and there is %q, %v", i, c.acked.Load(), v.Text, err)
				}
				if c.moves.Load() < 2 {
					t.Errorf("shard %d: its counter moved %d times, want twice at least", i, c.moves.Load())
				}
				t.Logf("shard %d: %d writes, moved %d times", i, c.acked.Load(), c.moves.Load())
			}
		})
	}
}

// keyIn returns a key of one of the three shards that redis-cli makes.
func keyIn(shard int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("count:", i); int(slots.Of([]byte(key)))*3/slots.Count == shard {
			return key
		}
	}
}

// A counter is a client that increments a key and follows MOVED.
type counter struct {
	t            *testing.T
	dir          string // of the page's files
	key          string
	at           int // the port of the node that the client uses
	pid          int // of its process; 0: unknown
	acked, moves atomic.Int64
}

func (c *counter) run(stop <-chan struct{}) {
	var conn *respclient.Client
	for {
		select {
		case <-stop:
			conn.Close()
			return
		case <-time.After(100 * time.Millisecond):
		}
		if conn == nil {
			var err error
			if conn, err = respclient.Dial("127.0.0.1:" + strconv.Itoa(c.at)); err != nil {
				c.t.Errorf("%s: %v", c.key, err)
				return
			}
			conn.SetTimeout(testkit.Slowly(testkit.ReplyTimeout))
			info, _ := conn.Do("INFO", "server")
			_, pid, _ := strings.Cut(info.Text, "process_id:")
			c.pid = 0
			_, _ = fmt.Sscan(pid, &c.pid)
		}
		v, err := conn.Do("INCR", c.key)
		switch {
		case err == nil && strings.HasPrefix(v.Text, "MOVED "):
			c.moves.Add(1)
			_, port, _ := strings.Cut(v.Text, "127.0.0.1:")
			c.at, _ = strconv.Atoi(port)
			conn.Close()
			conn = nil
		case err != nil:
			c.t.Errorf("INCR %s at %d after %d: %v\n%s", c.key, c.at, c.acked.Load(), err, c.traces(conn))
			return
		case v.Int != c.acked.Add(1):
			c.t.Errorf("INCR %s at %d: %v, want %d", c.key, c.at, v, c.acked.Load())
			return
		}
	}
}

// traces shows where an INCR without a reply may be: the queues of both sockets, and what the server knows of its
// clients. It also shows whether the key was incremented, and whether the reply still comes.
func (c *counter) traces(conn *respclient.Client) (text string) {
	_, own, _ := net.SplitHostPort(conn.Conn().LocalAddr().String())
	n, _ := strconv.Atoi(own)
	all, err := os.ReadFile("/proc/net/tcp")
	text = fmt.Sprintln("local port", own, err)
	for line := range strings.Lines(string(all)) {
		if strings.Contains(line, fmt.Sprintf(":%04X ", n)) || strings.Contains(line, "tx_queue") {
			text += line
		}
	}
	for _, request := range [][]any{{"CLIENT", "LIST"}, {"INFO", "everything"}, {"CLUSTER", "NODES"}, {"GET", c.key},
		{"STALLS", "GET"}} {
		v, err := ask(c.at, request...)
		if text += fmt.Sprintln(request, v.Text, v.Elems, err); err != nil {
			break // the whole server may be stuck
		}
	}
	conn.SetTimeout(5 * time.Second)
	late, err := conn.Receive()
	text += fmt.Sprintln("late reply:", late, err)
	// The last trace ends the server: a dump of its goroutines goes to its log.
	if c.pid > 0 {
		_ = syscall.Kill(c.pid, syscall.SIGQUIT)
	}
	var dump []byte
	testkit.Holds(5*time.Second, func() bool {
		dump, err = os.ReadFile(filepath.Join(c.dir, fmt.Sprintf("node-%d.log", c.at)))
		return strings.Contains(string(dump), "goroutine 1 ")
	})
	return text + fmt.Sprintf("its log, %v:\n%s", err, dump)
}
