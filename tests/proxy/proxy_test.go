package proxy

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

// Most of these tests spend their time waiting for servers.
func TestMain(m *testing.M) { testkit.Waiting(m) }

// A tier is a cluster and proxies in front of it.
type tier struct {
	shards  []*testkit.Server
	proxies []*testkit.Server
}

// startTier starts a cluster of three primaries, each with this many replicas, and proxies. Without replicas no node
// can take over. Then the nodes have a longer timeout, so that a busy host does not bring the cluster down. The proxies
// have a longer timeout than by default for the same reason.
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
		all.proxies = append(all.proxies, startProxy(t, all.shards, append([]string{"--io-threads", strconv.Itoa(1 + 2*i),
			"--proxy-timeout", "60000"}, args...)...))
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

// TestLinesOfServers: a proxy and a dashboard refuse a line that servers alone can carry out.
func TestLinesOfServers(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"--proxy", "--dashboard"} {
		for line, words := range map[string][]string{"user": {"a", "on"}, "rename-command": {"GET", "FETCH"},
			"loadmodule": {"/m.so"}} {
			out, code := testkit.Run(t, testkit.Slowly(time.Minute), "", testkit.Spindle(t),
				append([]string{role, "--" + line}, words...)...)
			if code != 1 || !strings.Contains(out, "Only a server or a Sentinel takes this directive") {
				t.Errorf("%s with %s ends with %d: %s", role, line, code, out)
			}
		}
	}
}

// TestProcessSettings: a proxy and a dashboard have the title and the score that their settings ask for. They write the
// trace of a fatal signal into the log file. The log names a setting without an effect.
func TestProcessSettings(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	base := strings.TrimSpace(read("/proc/self/oom_score_adj"))
	shard := testkit.Start(t, "--cluster-enabled", "yes")
	shard.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	for name, launch := range map[string]func(args ...string) *testkit.Server{
		"dashboard": func(args ...string) *testkit.Server {
			return startDashboard(t, "folder:"+testkit.MemoryDir(t), args...).server
		},
		"proxy": func(args ...string) *testkit.Server {
			return startProxy(t, []*testkit.Server{shard}, args...)
		},
	} {
		log := filepath.Join(t.TempDir(), "log")
		s := launch("--logfile", log, "--oom-score-adj", "yes", "--oom-score-adj-values", "7", "0", "0",
			"--tls-cluster", "yes", "--proc-title-template", "a {server-mode} on {listen-addr}")
		of := fmt.Sprintf("/proc/%d/", s.PID)
		title, _, _ := strings.Cut(read(of+"cmdline"), "\x00")
		if want := fmt.Sprintf("a [%s] on 127.0.0.1:%d", name, s.Port); title != want {
			t.Errorf("the title is %q, want %q", title, want)
		}
		before, _ := strconv.Atoi(base)
		if score, _ := strconv.Atoi(strings.TrimSpace(read(of + "oom_score_adj"))); score != min(before+7, 1000) {
			t.Errorf("%s: the score is %d, was %d before", name, score, before)
		}
		if name == "proxy" {
			s.Do("CONFIG", "SET", "oom-score-adj", "absolute", "oom-score-adj-values", "900 0 0", "proc-title-template", "b")
			if score := read(of + "oom_score_adj"); score != "900\n" || !strings.HasPrefix(read(of+"cmdline"), "b\x00") {
				t.Errorf("after CONFIG SET the score is %q, and the title %q", score, read(of+"cmdline"))
			}
		}
		if text := read(log); !strings.Contains(text, "without effect in this version: tls-cluster\n") {
			t.Errorf("%s: the log does not say that tls-cluster is without effect: %s", name, text)
		}
		s.Crashes()
		s.Signal(syscall.SIGQUIT)
		s.Wait(testkit.Slowly(20 * time.Second))
		if text := read(log); !strings.Contains(text, "goroutine ") {
			t.Errorf("%s: no trace in the log: %s", name, text)
		}
	}
}

// TestShutdownLimit: a proxy that owes a reply waits for it for shutdown-timeout seconds at most. One proxy still waits
// when the others have ended. So they have not ended at a limit that all have.
func TestShutdownLimit(t *testing.T) {
	t.Parallel()
	shard := testkit.Start(t, "--cluster-enabled", "yes")
	shard.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	shard.Do("CLIENT", "PAUSE", 3600000, "WRITE")
	owing := 0
	owes := func(args ...string) (*testkit.Server, *respclient.Client) {
		p := startProxy(t, []*testkit.Server{shard}, append(args, "--proxy-timeout", "3600000")...)
		c := p.Dial()
		c.Send("SET", "k", "v")
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		owing++
		shard.AwaitInfo(testkit.Slowly(10*time.Second), "clients", "blocked_clients", strconv.Itoa(owing))
		return p, c
	}
	patient, c := owes("--shutdown-timeout", "3600")
	short, _ := owes("--shutdown-timeout", "1")
	now, _ := owes("--shutdown-timeout", "3600", "--shutdown-on-sigterm", "now")
	for _, p := range []*testkit.Server{patient, short, now} {
		p.Signal(syscall.SIGTERM)
		p.AwaitLog(testkit.Slowly(10*time.Second), "Received SIGTERM scheduling shutdown...")
	}
	for name, p := range map[string]*testkit.Server{"a short timeout": short, "now": now} {
		if code := p.Wait(testkit.Slowly(30 * time.Second)); code != 0 {
			t.Errorf("%s: it ended with %d", name, code)
		}
	}
	shard.Do("CLIENT", "UNPAUSE")
	if v, err := c.Receive(); err != nil || v.Text != "OK" {
		t.Errorf("a long timeout: %v %v", v, err)
	}
	if code := patient.Wait(testkit.Slowly(30 * time.Second)); code != 0 {
		t.Errorf("a long timeout: it ended with %d", code)
	}
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
	dashboard := startDashboard(t, "folder:"+testkit.MemoryDir(t), own...).server
	for name, s := range map[string]*testkit.Server{"server": shard, "dashboard": dashboard,
		"proxy": startProxy(t, []*testkit.Server{shard}, own...)} {
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
