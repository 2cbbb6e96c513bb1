package sentinel

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"spindle/tests/testkit"
)

// installed is the folder into which `make clients` installs other client libraries.
const installed = "../../bin/clients"

// programs returns how to start a counting client of each installed library. The ports follow these arguments.
func programs(t *testing.T) map[string]testkit.Spec {
	t.Helper()
	found := map[string]testkit.Spec{}
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import redis.sentinel").Run() == nil {
			found["python"] = testkit.Spec{Program: python, Args: []string{absolute(t, "testdata/clients/count.py")}}
			break
		}
	}
	modules := filepath.Join(installed, "node_modules")
	if _, err := os.Stat(filepath.Join(modules, "ioredis")); err == nil {
		found["ioredis"] = testkit.Spec{Program: testkit.Program(t, "node"),
			Shell: "export NODE_PATH=" + absolute(t, modules),
			Args:  []string{absolute(t, "testdata/clients/count.js")}}
	}
	if _, err := os.Stat(filepath.Join(installed, "goredis")); err == nil {
		found["goredis"] = testkit.Spec{Program: absolute(t, filepath.Join(installed, "goredis"))}
	}
	return found
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestClientsFollow: redis-py, ioredis and go-redis ask Sentinels of both kinds for the primary and for a replica. The
// test causes failovers by killing the primary, by command, and by suspending its process. After each failover every
// client writes and reads again.
func TestClientsFollow(t *testing.T) {
	t.Parallel()
	clients := programs(t)
	if len(clients) == 0 {
		t.Skip("redis-py, ioredis and go-redis are not installed: make clients installs them (redis-py: python3-redis)")
	}
	g := newGroup(t, []string{testkit.Ours, testkit.Redis70, testkit.Ours}, []string{testkit.Ours, testkit.Redis70,
		testkit.Ours})
	for _, s := range g.sentinels {
		s.hasten()
	}
	started := map[string]*testkit.Server{}
	for name, spec := range clients {
		spec.Bare, spec.NoWait = true, true
		for _, s := range g.sentinels {
			spec.Args = append(spec.Args, strconv.Itoa(s.Port))
		}
		started[name] = testkit.Launch(t, spec)
	}
	primary := g.servers[0]
	g.awaitCounts(t, primary, started)
	rounds := min(20, 3*testkit.Scale())
	for round := range rounds {
		old := primary
		g.downAfter(alertMs)
		switch round % 3 {
		case 0:
			old.Kill()
		case 1:
			g.sentinels[round%len(g.sentinels)].Do("SENTINEL", "FAILOVER", "m")
		case 2:
			old.Signal(syscall.SIGSTOP)
		}
		primary = g.awaitSwitch(t, old.Addr)
		await(t, primary, "role", "master")
		g.awaitCounts(t, primary, started)
		switch round % 3 {
		case 0:
			old.Restart()
		case 2:
			old.Signal(syscall.SIGCONT)
		}
		testkit.Until(t, patience, "all to be well", func() error {
			for _, s := range g.sentinels {
				if err := s.whyNotWell(len(g.servers)-1, len(g.sentinels)-1); err != nil {
					return err
				}
			}
			return nil
		})
		g.awaitCounts(t, primary, started)
	}
	for name := range started {
		t.Logf("%s has followed %d failovers", name, rounds)
	}
}

// awaitCounts waits until each client has incremented its counter on the primary, and has read it on a replica.
func (g group) awaitCounts(t *testing.T, primary *testkit.Server, clients map[string]*testkit.Server) {
	t.Helper()
	for name, client := range clients {
		for _, key := range []string{name, name + ":read"} {
			first := int64(-1)
			testkit.Until(t, patience, fmt.Sprintf("%s to rise at %s", key, primary.Addr), func() error {
				if client.Ended() {
					t.Fatalf("%s has ended:\n%s", name, client.Log())
				}
				v, err := primary.Ask("GET", key)
				if err != nil {
					return err
				}
				n, _ := strconv.ParseInt(v.Text, 10, 64)
				if first < 0 || n < first {
					first = n
				}
				if n < first+5 {
					return fmt.Errorf("it was %d and is %d", first, n)
				}
				return nil
			})
		}
	}
}
