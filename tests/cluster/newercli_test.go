package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestNewerCLIs: the cluster tools of Redis 8 and Valkey 9 reshard and rebalance nodes of spindle, alone and beside
// nodes of their servers. Slots move one by one, or as a whole, in both directions. All keys are there afterwards.
func TestNewerCLIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		server, program, empty string // of a tool: its server's kind, its name, its word for primaries without slots
		args                   []string
		kinds                  []string
	}{
		{testkit.Redis8, "redis-cli", "masters", nil, []string{testkit.Ours, testkit.Ours, testkit.Ours}},
		{testkit.Redis8, "redis-cli", "masters", nil, []string{testkit.Ours, testkit.Redis8, testkit.Ours}},
		{testkit.Valkey9, "valkey-cli", "primaries", nil, []string{testkit.Ours, testkit.Ours, testkit.Ours}},
		{testkit.Valkey9, "valkey-cli", "primaries", nil, []string{testkit.Ours, testkit.Valkey9, testkit.Ours}},
		{testkit.Valkey9, "valkey-cli", "primaries", nil, []string{testkit.Valkey9, testkit.Ours, testkit.Valkey9}},
		{testkit.Valkey9, "valkey-cli", "primaries", whole, []string{testkit.Ours, testkit.Ours, testkit.Ours}},
		{testkit.Valkey9, "valkey-cli", "primaries", whole, []string{testkit.Ours, testkit.Valkey9, testkit.Ours}},
		{testkit.Valkey9, "valkey-cli", "primaries", whole, []string{testkit.Valkey9, testkit.Ours, testkit.Valkey9}},
	} {
		t.Run(fmt.Sprint(c.program, c.args, c.kinds), func(t *testing.T) {
			t.Parallel()
			cli := filepath.Join(filepath.Dir(testkit.Kind(t, c.server).Program), c.program)
			if _, err := os.Stat(cli); err != nil {
				t.Skipf("there is no %s beside its server", c.program)
			}
			var nodes []*testkit.Server
			for _, kind := range c.kinds {
				spec := testkit.Kind(t, kind)
				spec.Args = []string{"--cluster-enabled", "yes", "--cluster-node-timeout", strconv.Itoa(nodeTimeoutMs),
					"--cluster-port", strconv.Itoa(testkit.FreePort(t)), "--cluster-allow-replica-migration", "no"}
				if kind == testkit.Ours {
					spec.Args = append(spec.Args, "--rdb-version", "11") // that Valkey reads, too
				}
				nodes = append(nodes, testkit.Launch(t, spec))
			}
			join(t, nodes)
			keys := len(fill(nodes[0]))
			run := func(args ...string) {
				t.Helper()
				for _, n := range nodes {
					testkit.Until(t, testkit.Slowly(patience), "every node sees a well cluster",
						func() error { return well(n, len(nodes)) })
				}
				args = append(append([]string{"--cluster"}, args...), "--cluster-yes")
				out, code := testkit.Run(t, testkit.Slowly(180*time.Second), "", cli, append(args, c.args...)...)
				if code != 0 {
					t.Fatalf("%s %v: %d\n%s", c.program, args, code, out)
				}
			}
			id := func(i int) string { return nodes[i].Do("CLUSTER", "MYID").Text }
			weight := func(i, n int) string { return id(i) + "=" + strconv.Itoa(n) }
			run("reshard", nodes[0].Addr, "--cluster-from", id(0), "--cluster-to", id(1), "--cluster-slots", "300")
			run("reshard", nodes[0].Addr, "--cluster-from", id(1), "--cluster-to", id(2), "--cluster-slots", "100")
			run("reshard", nodes[0].Addr, "--cluster-from", id(1), "--cluster-to", id(0), "--cluster-slots", "100")
			run("rebalance", nodes[0].Addr, "--cluster-threshold", "1", "--cluster-use-empty-"+c.empty, "--cluster-weight",
				weight(0, 30), weight(1, 1), weight(2, 1))
			testkit.Until(t, testkit.Slowly(patience), "the check is content", func() error {
				out, code := testkit.Run(t, testkit.Slowly(60*time.Second), "", cli, "--cluster", "check", nodes[1].Addr)
				if code != 0 || !strings.Contains(out, "All 16384 slots covered.") {
					return fmt.Errorf("%d\n%s", code, out)
				}
				return nil
			})
			testkit.Until(t, testkit.Slowly(patience), "all keys are there once", func() error {
				n := int64(0)
				for i, node := range nodes {
					size := node.Do("DBSIZE").Int
					if n += size; size == 0 {
						return fmt.Errorf("node %d has no key", i)
					}
				}
				return testkit.Equal(n, int64(keys))
			})
			for i := range 200 {
				n, err := follow(nodes[0].Addr, fmt.Sprintf("{%d}s", i))
				if err := errors.Join(err, testkit.Equal(n, int64(i))); err != nil {
					t.Errorf("key %d: %v", i, err)
				}
			}
		})
	}
}

// whole has valkey-cli move slots as a whole.
var whole = []string{"--cluster-use-atomic-slot-migration"}
