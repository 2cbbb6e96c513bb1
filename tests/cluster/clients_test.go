package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/internal/slots"
	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// A program is an unmodified client library in a process that writes continuously (testdata/clients).
type program struct {
	t       *testing.T
	library string
	in      io.WriteCloser
	out     *bufio.Reader
}

// A tally is a program's report: how far each of its lists is, and which numbers were not acknowledged.
type tally struct {
	Lists map[string]struct {
		Last    int
		Unacked []int
	}
	Errors map[string]int
}

// installed is the folder into which `make clients` installs other client libraries.
const installed = "../../bin/clients"

// libraries returns how to start each installed library's program. The addresses follow these arguments.
func libraries(t *testing.T) map[string][]string {
	t.Helper()
	absolute := func(path string) string {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	found := map[string][]string{}
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import redis.cluster").Run() == nil {
			found["redis-py"] = []string{python, absolute("testdata/clients/append.py")}
			break
		}
	}
	for library, module := range map[string]string{"ioredis": "ioredis", "node-redis": "redis"} {
		if _, err := os.Stat(filepath.Join(installed, "node_modules", module)); err == nil {
			found[library] = []string{"env", "NODE_PATH=" + absolute(filepath.Join(installed, "node_modules")),
				testkit.Program(t, "node"), absolute("testdata/clients/append.js"), module}
		}
	}
	if path := absolute(filepath.Join(installed, "goredis-cluster")); exec.Command("test", "-x", path).Run() == nil {
		found["go-redis"] = []string{path}
	}
	return found
}

func startProgram(t *testing.T, library string, line []string) *program {
	t.Helper()
	cmd := exec.Command(line[0], line[1:]...)
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
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &program{t: t, library: library, in: in, out: bufio.NewReaderSize(out, 1<<20)}
}

// report asks the program for its tally.
func (p *program) report() (all tally) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		p.t.Fatal(p.library, err)
	}
	line, err := p.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &all)
	}
	if err != nil {
		p.t.Fatal(p.library, err)
	}
	return all
}

// writes returns the number of acknowledged writes.
func (a tally) writes() (count int) {
	for _, list := range a.Lists {
		count += list.Last - len(list.Unacked)
	}
	return count
}

// lost returns the number of acknowledged writes that no node has.
func (a tally) lost(t *testing.T, nodes []*testkit.Server) (count int) {
	t.Helper()
	for key, list := range a.Lists {
		there := map[int]bool{}
		for _, text := range everywhere(t, nodes, key) {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			there[n] = true
		}
		for n := 1; n <= list.Last; n++ {
			if !there[n] && !slices.Contains(list.Unacked, n) {
				count++
			}
		}
	}
	return count
}

// everywhere reads a list from the node that owns it.
func everywhere(t *testing.T, nodes []*testkit.Server, key string) []string {
	t.Helper()
	var reply respclient.Value
	testkit.Until(t, testkit.Slowly(patience), "the list is served", func() error {
		var last error
		for _, n := range nodes {
			v, err := n.Ask("LRANGE", key, 0, -1)
			if last = errors.Join(err, v.Err()); last == nil {
				reply = v
				return nil
			}
		}
		return last
	})
	return reply.Strings()
}

// TestClientLibraries: clients of up to four libraries write to a cluster during a manual failover and a reshard. No
// acknowledged write is lost. Then a primary is killed. Writes that its replica had not received may be lost, and the
// test reports their number. The long form also has clusters of only one kind of server.
func TestClientLibraries(t *testing.T) {
	t.Parallel()
	found := libraries(t)
	if len(found) == 0 {
		t.Skip("redis-py, ioredis, node-redis and go-redis are not installed: make clients installs them " +
			"(redis-py: python3-redis)")
	}
	t.Logf("clients of %v", slices.Sorted(maps.Keys(found)))
	for name, redis := range map[string]func(i int) bool{
		"ours": func(int) bool { return false }, "mixed": func(i int) bool { return i%2 == 1 },
		"redis-server": func(int) bool { return true }} {
		if name != "mixed" && testkit.Scale() == 1 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var nodes []*testkit.Server
			var addresses []string
			for i := range 6 {
				nodes = append(nodes, node(t, redis(i)))
				addresses = append(addresses, nodes[i].Addr)
			}
			create(t, nodes, 1)
			synced(t, nodes[3:]...)
			var programs []*program
			for library, line := range found {
				line = append(slices.Clone(line), strings.Join(addresses, ","), library)
				programs = append(programs, startProgram(t, library, line))
			}
			// onwards waits until every library has written more, which shows that it has found the new primary.
			onwards := func(what string) {
				t.Helper()
				for _, p := range programs {
					before := p.report().writes()
					testkit.Until(t, testkit.Slowly(patience), p.library+" goes on after "+what, func() error {
						if now := p.report().writes(); now < before+200 {
							return fmt.Errorf("%d writes, %d before: %v", now, before, p.report().Errors)
						}
						return nil
					})
				}
			}
			onwards("the start")
			heir := nodes[3]
			testkit.Until(t, testkit.Slowly(patience), "the replica takes over by hand", func() error {
				if _, err := heir.Ask("CLUSTER", "FAILOVER"); err != nil {
					return err
				}
				// A second command during the failover would restart it. An attempt lapses after five seconds.
				return testkit.Poll(6*time.Second, func() error { return role(heir) })
			})
			onwards("the failover")
			from, to := primaryOf(t, nodes[4], nodes), primaryOf(t, nodes[5], nodes)
			verb(t, []string{"reshard", nodes[0].Addr, "--cluster-from", from.Do("CLUSTER", "MYID").Text, "--cluster-to",
				to.Do("CLUSTER", "MYID").Text, "--cluster-slots", strconv.Itoa(slots.Count / 50)}, "Moving slot")
			onwards("the reshard")
			for _, p := range programs {
				all := p.report()
				if n := all.lost(t, nodes); n > 0 {
					t.Errorf("%s: %d of %d acknowledged writes are lost", p.library, n, all.writes())
				}
				t.Logf("%s: %d writes through a failover and a reshard, errors %v", p.library, all.writes(), all.Errors)
			}
			heir = nodes[5]
			victim := primaryOf(t, heir, nodes)
			victim.Kill()
			testkit.Until(t, testkit.Slowly(patience), "the replica takes over", func() error { return role(heir) })
			onwards("the kill")
			victim.Restart()
			testkit.Until(t, testkit.Slowly(patience), "the old primary follows",
				func() error { return is(victim, "role", "slave") })
			onwards("the new start")
			for _, p := range programs {
				all := p.report()
				n := all.lost(t, nodes)
				if n > all.writes()/100 {
					t.Errorf("%s: %d of %d acknowledged writes are lost", p.library, n, all.writes())
				}
				t.Logf("%s: %d writes, %d lost by the kill, errors %v", p.library, all.writes(), n, all.Errors)
			}
		})
	}
}
