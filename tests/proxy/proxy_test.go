package proxy

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// Most of these tests spend their time waiting for servers.
func TestMain(m *testing.M) { testkit.Waiting(m) }

// A tier is a cluster and proxies in front of it.
type tier struct {
	shards  []*testkit.Server
	proxies []*testkit.Server
}

// startTier starts a cluster of three primaries, each with this many replicas, and proxies. Without replicas no node
// can take over. Then the nodes have a longer timeout, so that a busy host does not bring the cluster down.
func startTier(t *testing.T, redis bool, replicas, proxies int, args ...string) *tier {
	t.Helper()
	all, timeout := &tier{}, "2000"
	if replicas == 0 {
		timeout = "15000"
	}
	create := []string{"--cluster", "create"}
	for range 3 * (1 + replicas) {
		s := testkit.Launch(t, testkit.Spec{Redis: redis, Args: []string{"--cluster-enabled", "yes",
			"--cluster-node-timeout", timeout, "--cluster-port", strconv.Itoa(testkit.FreePort(t))}})
		all.shards = append(all.shards, s)
		create = append(create, s.Addr)
	}
	create = append(create, "--cluster-replicas", strconv.Itoa(replicas), "--cluster-yes")
	out, code := testkit.Run(t, testkit.Slowly(60*time.Second), "", "redis-cli", create...)
	if code != 0 || !strings.Contains(out, "All 16384 slots covered") {
		t.Fatalf("redis-cli --cluster create: %d\n%s", code, out)
	}
	for _, s := range all.shards {
		testkit.Until(t, testkit.Slowly(30*time.Second), "every node sees the cluster", func() error {
			v, err := s.Ask("CLUSTER", "INFO")
			if err != nil || !strings.Contains(v.Text, "cluster_state:ok") ||
				!strings.Contains(v.Text, fmt.Sprintf("cluster_known_nodes:%d", len(all.shards))) {
				return fmt.Errorf("%s: %q (%v)", s.Addr, v.Text, err)
			}
			return nil
		})
	}
	for i := range proxies { // the second proxy has several loops
		all.proxies = append(all.proxies, startProxy(t, all.shards, append([]string{"--io-threads", strconv.Itoa(1 + 2*i)},
			args...)...))
	}
	return all
}

// startProxy starts a proxy of a cluster.
func startProxy(t *testing.T, shards []*testkit.Server, args ...string) *testkit.Server {
	t.Helper()
	port := testkit.FreePort(t)
	all := []string{"--proxy", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--proxy-cluster"}
	for _, s := range shards {
		all = append(all, s.Addr)
	}
	return testkit.Launch(t, testkit.Spec{Bare: true, Port: port, Args: append(all, args...)})
}

// TestServerCPUs: a server, a proxy and a dashboard run on the processors of server-cpulist.
func TestServerCPUs(t *testing.T) {
	t.Parallel()
	allowed := func(path string) string {
		status, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, list, _ := strings.Cut(string(status), "Cpus_allowed_list:\t")
		list, _, _ = strings.Cut(list, "\n")
		return list
	}
	first := strings.FieldsFunc(allowed("/proc/self/status"), func(r rune) bool { return r == ',' || r == '-' })[0]
	own := []string{"--server-cpulist", first}
	shard := testkit.Start(t, append(own, "--cluster-enabled", "yes")...)
	shard.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	for name, s := range map[string]*testkit.Server{"server": shard, "dashboard": startDashboard(t, "folder:"+t.TempDir(),
		own...).server, "proxy": startProxy(t, []*testkit.Server{shard}, own...)} {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", s.PID))
		if err != nil || len(threads) == 0 {
			t.Fatalf("%s: no threads: %v", name, err)
		}
		for _, thread := range threads {
			if list := allowed(thread); list != first {
				t.Errorf("%s: a thread runs on %s, want %s", name, list, first)
			}
		}
	}
}
