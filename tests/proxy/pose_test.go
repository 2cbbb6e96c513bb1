package proxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestPose: with proxy-pose-cluster, a client that only supports clusters sees the proxy as one node with all slots.
func TestPose(t *testing.T) {
	t.Parallel()
	all := startTier(t, true, 0, 1)
	expect(t, all.proxies[0].Dial(), "ERR This instance has cluster support disabled", "CLUSTER", "SLOTS")
	p := startProxy(t, all.shards, "--proxy-pose-cluster", "yes")
	host, port, _ := strings.Cut(p.Addr, ":")
	c := p.Dial()
	id := c.Must("CLUSTER", "MYID").Text
	if len(id) != 40 {
		t.Errorf("the node's ID is %q", id)
	}
	expect(t, c, "[[0 16383 ["+host+" "+port+" "+id+" []]]]", "CLUSTER", "SLOTS")
	expect(t, c, id+" "+p.Addr+"@0 myself,master - 0 0 1 connected 0-16383\n", "CLUSTER", "NODES")
	expect(t, c, "12182", "CLUSTER", "KEYSLOT", "foo")
	expect(t, c, "OK", "SET", "foo", "x")
	expect(t, c, "1", "CLUSTER", "COUNTKEYSINSLOT", "12182")
	expect(t, c, "[foo]", "CLUSTER", "GETKEYSINSLOT", "12182", "10")
	expect(t, c, "ERR Invalid slot", "CLUSTER", "COUNTKEYSINSLOT", "16384")
	expect(t, c, "OK", "READONLY")
	expect(t, c, "OK", "ASKING")
	expect(t, c, "ERR CLUSTER MEET is not served by the proxy", "CLUSTER", "MEET", "127.0.0.1", "1")
	if text := c.Must("CLUSTER", "INFO").Text; !strings.HasPrefix(text, "cluster_state:ok\r\n") {
		t.Errorf("CLUSTER INFO: %s", text)
	}
	if text := show(c.Must("HELLO", "3")); !strings.Contains(text, "mode cluster") {
		t.Errorf("HELLO: %s", text)
	}
	if text := show(c.Must("CLUSTER", "SHARDS")); !strings.Contains(text, "slots [0 16383]") ||
		!strings.Contains(text, "port "+port) {
		t.Errorf("CLUSTER SHARDS: %s", text)
	}
	for i, key := range spread {
		out, code := testkit.Run(t, testkit.Slowly(time.Minute), "", "redis-cli", "-c", "-p", port, "SET", key, fmt.Sprint(i))
		if code != 0 || out != "OK\n" {
			t.Errorf("redis-cli -c: %d %s", code, out)
		}
	}
	out, code := testkit.Run(t, testkit.Slowly(time.Minute), "", "redis-cli", "--cluster", "call", p.Addr, "GET", "a")
	if code != 0 || !strings.Contains(out, p.Addr+": 0") {
		t.Errorf("redis-cli --cluster call: %d %s", code, out)
	}
}

// TestPoseOfSeveral: the proxies of a product pose as one cluster, and each owns a part of the slots. When a proxy
// stops, the others take over its slots.
func TestPoseOfSeveral(t *testing.T) {
	t.Parallel()
	d := startDashboard(t, "folder:"+testkit.MemoryDir(t))
	all := startGroups(t, d, true, "crc16", 3, 0)
	for i := range 2 {
		port := testkit.FreePort(t)
		all.proxies = append(all.proxies,
			testkit.Launch(t, testkit.Spec{Bare: true, Port: port, Args: append([]string{"--proxy",
				"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--proxy-product", "shop", "--proxy-id", fmt.Sprint("p", i),
				"--proxy-pose-cluster", "yes", "--proxy-refresh-interval", "200"}, d.store...)}))
	}
	one, two := all.proxies[0], all.proxies[1]
	a, b := one.Do("CLUSTER", "MYID").Text, two.Do("CLUSTER", "MYID").Text
	_, first, _ := strings.Cut(one.Addr, ":")
	_, second, _ := strings.Cut(two.Addr, ":")
	for _, p := range all.proxies {
		testkit.Until(t, testkit.Slowly(30*time.Second), "both proxies are nodes", func() error {
			a, b = one.Do("CLUSTER", "MYID").Text, two.Do("CLUSTER", "MYID").Text
			return testkit.Equal(show(p.Do("CLUSTER", "SLOTS")), fmt.Sprintf(
				"[[0 8191 [127.0.0.1 %s %s []]] [8192 16383 [127.0.0.1 %s %s []]]]", first, a, second, b))
		})
	}
	want := fmt.Sprintf("%s 127.0.0.1:%s@0 myself,master - 0 0 1 connected 0-8191\n"+
		"%s 127.0.0.1:%s@0 master - 0 0 1 connected 8192-16383\n", a, first, b, second)
	if text := one.Do("CLUSTER", "NODES").Text; text != want {
		t.Errorf("CLUSTER NODES: %s; want %s", text, want)
	}
	for i, key := range spread {
		out, code := testkit.Run(t, testkit.Slowly(time.Minute), "", "redis-cli", "-c", "-p", second, "SET", key,
			fmt.Sprint(i))
		if code != 0 || out != "OK\n" {
			t.Errorf("redis-cli -c: %d %s", code, out)
		}
	}
	for library, line := range clusterLibraries(t) {
		runLibrary(t, library, line, one)
	}
	two.Signal(syscall.SIGTERM)
	two.Wait(testkit.Slowly(20 * time.Second))
	testkit.Until(t, testkit.Slowly(30*time.Second), "the other proxy has all slots", func() error {
		return testkit.Equal(show(one.Do("CLUSTER", "SLOTS")), fmt.Sprintf("[[0 16383 [127.0.0.1 %s %s []]]]", first, a))
	})
}

// TestPoseForLibraries: independent cluster client libraries append to keys of all shards, as in TestClientLibraries of
// tests/cluster.
func TestPoseForLibraries(t *testing.T) {
	t.Parallel()
	lines := clusterLibraries(t)
	if len(lines) == 0 {
		t.Skip("redis-py, ioredis, node-redis and go-redis are not installed: make clients installs them")
	}
	p := startProxy(t, startTier(t, true, 0, 0).shards, "--proxy-pose-cluster", "yes")
	for library, line := range lines {
		t.Run(library, func(t *testing.T) {
			runLibrary(t, library, line, p)
		})
	}
}

// clusterLibraries returns the command lines of the installed cluster client libraries.
func clusterLibraries(t *testing.T) map[string][]string {
	t.Helper()
	clients, err := filepath.Abs("../../bin/clients")
	if err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Abs("../cluster/testdata/clients")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	if exec.Command("python3", "-c", "import redis.cluster").Run() == nil {
		found["redis-py"] = []string{"python3", filepath.Join(programs, "append.py")}
	}
	for library, module := range map[string]string{"ioredis": "ioredis", "node-redis": "redis"} {
		if _, err := os.Stat(filepath.Join(clients, "node_modules", module)); err == nil {
			found[library] = []string{"env", "NODE_PATH=" + filepath.Join(clients, "node_modules"), "node",
				filepath.Join(programs, "append.js"), module}
		}
	}
	if path := filepath.Join(clients, "goredis-cluster"); exec.Command("test", "-x", path).Run() == nil {
		found["go-redis"] = []string{path}
	}
	return found
}

// runLibrary makes a client library write through a proxy for a while. Every write must be acknowledged and stored.
func runLibrary(t *testing.T, library string, line []string, p *testkit.Server) {
	cmd := exec.Command(line[0], append(line[1:], p.Addr, library)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	lines := bufio.NewReaderSize(out, 1<<20)
	testkit.Until(t, testkit.Slowly(time.Minute), library+" writes to all lists", func() error {
		if _, err := io.WriteString(in, "\n"); err != nil {
			return err
		}
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		var said struct {
			Lists  map[string]struct{ Last int }
			Errors map[string]int
		}
		if err := json.Unmarshal(line, &said); err != nil {
			return err
		}
		if len(said.Errors) > 0 {
			t.Fatalf("%s: %v", library, said.Errors)
		}
		if len(said.Lists) < 16 {
			return fmt.Errorf("%d lists", len(said.Lists))
		}
		for key, list := range said.Lists {
			if v, err := p.Ask("LLEN", key); err != nil || list.Last < 20 || v.Int < int64(list.Last) {
				return fmt.Errorf("%s: %d written, %v there, %v", key, list.Last, v.Int, err)
			}
		}
		return nil
	})
}
