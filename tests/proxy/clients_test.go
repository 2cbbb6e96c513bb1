package proxy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// installed is the folder into which `make clients` installs other client libraries.
const installed = "../../bin/clients"

// A library is an independent client library: the command line of a program that uses it. The proxy's address follows.
type library struct {
	line    []string
	after   []string // arguments after the address
	missing string   // how to install it; "" if it is installed
}

func libraries(t *testing.T) map[string]library {
	t.Helper()
	absolute := func(path string) string {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	all := map[string]library{"redis-py": {missing: "apt-get install python3-redis"}}
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import redis").Run() == nil {
			all["redis-py"] = library{line: []string{python, absolute("testdata/clients/use.py")}, after: []string{"3"}}
			break
		}
	}
	modules := absolute(filepath.Join(installed, "node_modules"))
	for module, script := range map[string][]string{"ioredis": {"use.js", "ioredis"}, "redis": {"use.js", "redis"},
		"bullmq": {"jobs.js"}} {
		node, err := exec.LookPath("node")
		if _, missing := os.Stat(filepath.Join(modules, module)); missing != nil || err != nil {
			all[module] = library{missing: "make clients, with node and npm"}
			continue
		}
		line := []string{"env", "NODE_PATH=" + modules, node, absolute("testdata/clients/" + script[0])}
		all[module] = library{line: append(line, script[1:]...)}
	}
	jobs := all["bullmq"]
	jobs.after = []string{strconv.Itoa(min(10_000, 500*testkit.Scale()))}
	all["bullmq"] = jobs
	if program := absolute(filepath.Join(installed, "goredis-proxy")); exec.Command("test", "-x", program).Run() == nil {
		all["go-redis"] = library{line: []string{program}}
	} else {
		all["go-redis"] = library{missing: "make clients"}
	}
	return all
}

// TestClientLibraries: client libraries in single-server mode work through the proxy. They use pools, pipelines,
// transactions, scripts, pub/sub and queues, over shards of redis-server and of spindle.
func TestClientLibraries(t *testing.T) {
	t.Parallel()
	found := libraries(t)
	for kind, redis := range map[string]bool{"redis-server": true, "spindle": false} {
		t.Run("over "+kind, func(t *testing.T) {
			t.Parallel()
			address := startTier(t, redis, 0, 1).proxies[0].Addr
			for name, l := range found {
				t.Run(name, func(t *testing.T) {
					if l.missing != "" {
						t.Skipf("%s is not installed: %s", name, l.missing)
					}
					line := append(append(l.line[:len(l.line):len(l.line)], address), l.after...)
					out, code := testkit.Run(t, testkit.Slowly(5*time.Minute), "", line[0], line[1:]...)
					if code != 0 || !strings.HasSuffix(strings.TrimSpace(out), "ok") {
						t.Errorf("%d: %s", code, out)
					}
				})
			}
		})
	}
}

// TestTools: redis-cli and redis-benchmark work through the proxy as they do with one server.
func TestTools(t *testing.T) {
	t.Parallel()
	for kind, redis := range map[string]bool{"redis-server": true, "spindle": false} {
		t.Run("over "+kind, func(t *testing.T) {
			t.Parallel()
			p := startTier(t, redis, 0, 1).proxies[0]
			cli := func(in, want string, args ...string) {
				t.Helper()
				out, code := testkit.Run(t, testkit.Slowly(time.Minute), in, "redis-cli",
					append([]string{"-p", strconv.Itoa(p.Port)}, args...)...)
				if code != 0 || !strings.Contains(out, want) {
					t.Errorf("redis-cli %v: %d, without %q:\n%s", args, code, want, out)
				}
			}
			var lines, pipe strings.Builder
			for i := range 300 {
				fmt.Fprintf(&lines, "set key:%d %d\n", i, i)
				fmt.Fprintf(&pipe, "SET pipe:%d %d\r\n", i, i)
			}
			cli(lines.String()+"multi\nset {t}a 1\nget {t}a\nexec\ndbsize\nquit\n", "(integer) 301", "--no-raw")
			cli(pipe.String(), "errors: 0, replies: 300", "--pipe")
			cli("", "pipe:299", "--scan", "--pattern", "pipe:*")
			cli("", "601 strings", "--bigkeys")
			cli("hgetall none\nhset h a 1\nhgetall h\n", `1# "a" => "1"`, "-3", "--no-raw")
			cli("", " ", "--latency", "--raw", "-i", "1")
			benchmark(t, p)
		})
	}
}

// benchmark runs all tests of redis-benchmark. MSET names ten keys; with -r these are in several slots.
func benchmark(t *testing.T, p *testkit.Server) {
	t.Helper()
	requests := strconv.Itoa(200 * testkit.Scale())
	for _, args := range [][]string{{"-P", "1"}, {"-P", "16", "-r", "10000"}, {"-3", "-P", "4", "-r", "100"}} {
		line := append([]string{"-p", strconv.Itoa(p.Port), "-q", "-c", "20", "-n", requests}, args...)
		out, code := testkit.Run(t, testkit.Slowly(5*time.Minute), "", "redis-benchmark", line...)
		tests := strings.Count(out, "requests per second")
		if code != 0 || tests < 19 || strings.Contains(out, "Error") || strings.Contains(out, "ERR") {
			t.Errorf("redis-benchmark %v: %d, %d tests:\n%s", line, code, tests, out)
		}
	}
}
