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

	"spindle/internal/slots"
	"spindle/tests/testkit"
)

// configured starts a node with a configuration file, which CONFIG REWRITE can write.
func configured(t *testing.T, redis bool) *testkit.Server {
	t.Helper()
	dir, port, busPort := t.TempDir(), testkit.FreePort(t), testkit.FreePort(t)
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsave \"\"\nenable-debug-command "+
		"local\nrepl-diskless-sync-delay 0\n"+
		"cluster-enabled yes\ncluster-node-timeout %d\ncluster-port %d\n", port, dir, nodeTimeoutMs, busPort)
	file := filepath.Join(dir, "redis.conf")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return testkit.Launch(t, testkit.Spec{Redis: redis, Bare: true, Args: []string{file}, Dir: dir, Port: port})
}

// verb runs redis-cli --cluster. It must succeed and print each text of want.
func verb(t *testing.T, args []string, want ...string) string {
	t.Helper()
	args = append([]string{"--cluster"}, args...)
	out, code := testkit.Run(t, testkit.Slowly(120*time.Second), "", "redis-cli", append(args, "--cluster-yes")...)
	if code != 0 {
		t.Fatalf("redis-cli %v: %d\n%s", args, code, out)
	}
	for _, text := range want {
		if !strings.Contains(out, text) {
			t.Errorf("redis-cli %v does not print %q:\n%s", args, text, out)
		}
	}
	return out
}

// TestVerbs: an operator can use all commands of redis-cli --cluster, with spindle nodes and with one redis-server
// among them. In make test, spindle nodes alone get those that make a cluster, import, and move slots.
func TestVerbs(t *testing.T) {
	t.Parallel()
	for name, redis := range map[string]bool{"ours": false, "mixed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := []*testkit.Server{configured(t, false), configured(t, redis), configured(t, false)}
			spare, copied := configured(t, false), configured(t, false)
			entry := nodes[0].Addr
			agreed := func(nodes ...*testkit.Server) {
				t.Helper()
				for _, n := range nodes {
					testkit.Until(t, testkit.Slowly(patience), "all see a well cluster", func() error { return well(n, len(nodes)) })
				}
			}
			covered := func() {
				t.Helper()
				testkit.Until(t, testkit.Slowly(patience), "redis-cli --cluster check is content", func() error {
					out, code := testkit.Run(t, testkit.Slowly(60*time.Second), "", "redis-cli", "--cluster", "check", entry)
					if code != 0 || !strings.Contains(out, "All 16384 slots covered.") || !strings.Contains(out, "All nodes agree") {
						return fmt.Errorf("%d\n%s", code, out)
					}
					return nil
				})
			}

			verb(t, []string{"create", nodes[0].Addr, nodes[1].Addr, nodes[2].Addr},
				"All nodes agree about slots configuration.", "All 16384 slots covered.")
			agreed(nodes...)
			covered()

			// Import from a server outside of the cluster.
			outside := testkit.Start(t)
			const keys = 100
			names := firstSlots(keys)
			for i, name := range names {
				outside.Do("SET", name, i)
			}
			verb(t, []string{"import", entry, "--cluster-from", outside.Addr, "--cluster-copy"},
				"*** Importing 100 keys from DB 0")
			verb(t, []string{"info", entry}, "[OK] 100 keys in 3 masters.")
			if n := outside.Do("DBSIZE").Int; n != keys {
				t.Errorf("--cluster-copy has left %d keys", n)
			}

			// Move slots to another primary, and back where they are missing. Each slot costs the nodes many writes of
			// nodes.conf, so few slots move. All of them have keys.
			ids := []string{nodes[0].Do("CLUSTER", "MYID").Text, nodes[1].Do("CLUSTER", "MYID").Text,
				nodes[2].Do("CLUSTER", "MYID").Text}
			verb(t, []string{"reshard", entry, "--cluster-from", ids[0], "--cluster-to", ids[1], "--cluster-slots", "24"},
				"Moving slot")
			verb(t, []string{"reshard", entry, "--cluster-from", ids[1] + "," + ids[2], "--cluster-to", ids[0],
				"--cluster-slots", "8"}, "Moving slot")
			covered()
			verb(t, []string{"rebalance", entry, "--cluster-threshold", "0.1"}, "Rebalancing across 3 nodes")
			covered()
			if !redis && testkit.Scale() == 1 {
				return
			}

			// A fourth primary gets a share of the slots and gives it back. A fifth node is its replica for a
			// while.
			testkit.Until(t, testkit.Slowly(patience), "all agree", func() error { return wellAll(nodes...) })
			verb(t, []string{"add-node", spare.Addr, entry}, "[OK] New node added correctly.")
			agreed(append(nodes, spare)...)
			spareID := spare.Do("CLUSTER", "MYID").Text
			verb(t, []string{"rebalance", entry, "--cluster-use-empty-masters", "--cluster-weight", spareID + "=0.004"},
				"Rebalancing across 4 nodes")
			covered()
			if info(spare)["cluster_size"] != "4" {
				t.Errorf("the new primary has no slots: %v", info(spare))
			}
			verb(t, []string{"add-node", copied.Addr, entry, "--cluster-slave", "--cluster-master-id", spareID},
				"[OK] New node added correctly.")
			agreed(append(nodes, spare, copied)...)
			synced(t, copied)
			verb(t, []string{"info", entry}, "[OK] 100 keys in 4 masters.")
			verb(t, []string{"del-node", entry, copied.Do("CLUSTER", "MYID").Text},
				"Sending CLUSTER RESET SOFT to the deleted node.")
			verb(t, []string{"rebalance", entry, "--cluster-weight", spareID + "=0"}, "Rebalancing across 4 nodes")
			covered()
			verb(t, []string{"del-node", entry, spareID}, "Sending CLUSTER RESET SOFT to the deleted node.")
			agreed(nodes...)

			// An interrupted move, and a slot without an owner.
			key, owner := "", nodes[0]
			for i := 0; key == "" && i < keys; i++ {
				name := names[i]
				if v, err := owner.Ask("GET", name); err == nil && v.Err() == nil {
					key = name
				}
			}
			slot := owner.Do("CLUSTER", "KEYSLOT", key).Int
			owner.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
			nodes[1].Do("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
			if out, code := testkit.Run(t, testkit.Slowly(60*time.Second), "", "redis-cli", "--cluster", "check",
				entry); code == 0 || !strings.Contains(out, "has slots in migrating state") {
				t.Errorf("check of an open slot: %d\n%s", code, out)
			}
			verb(t, []string{"fix", entry}, "Fixing open slot", "All 16384 slots covered.")
			covered()
			for _, n := range nodes {
				n.Do("CLUSTER", "DELSLOTS", slot)
			}
			uncovered, code := testkit.Run(t, testkit.Slowly(60*time.Second), "yes\n", "redis-cli", "--cluster", "fix", entry)
			if code != 0 || !strings.Contains(uncovered, "Fixing slots coverage") ||
				!strings.Contains(uncovered, "Covering slot "+strconv.FormatInt(slot, 10)) {
				t.Fatalf("fix of a slot without an owner: %d\n%s", code, uncovered)
			}
			covered()
			agreed(nodes...)
			count := int64(0)
			for _, n := range nodes {
				count += n.Do("DBSIZE").Int
			}
			if count != keys {
				t.Errorf("there are %d keys after all moves", count)
			}

			verb(t, []string{"set-timeout", entry, "2500"}, "New node timeout set. 3 OK, 0 ERR.")
			if text, err := os.ReadFile(nodes[0].File("redis.conf")); err != nil ||
				!strings.Contains(string(text), "cluster-node-timeout 2500") {
				t.Errorf("set-timeout is not in the file: %v\n%s", err, text)
			}
			if out := verb(t, []string{"call", entry, "CONFIG", "GET", "cluster-node-timeout"}); strings.Count(out,
				"2500") != 3 {
				t.Errorf("call:\n%s", out)
			}
			backup := t.TempDir()
			verb(t, []string{"backup", entry, backup}, "[OK] Backup created into: "+backup)
			files, err := filepath.Glob(filepath.Join(backup, "redis-node-*.rdb"))
			if err != nil || len(files) != 3 {
				t.Errorf("a backup of %q, %v", files, err)
			}
			for _, file := range files {
				if out, code := testkit.Run(t, testkit.Slowly(60*time.Second), "", "redis-check-rdb", file); code != 0 {
					t.Errorf("%s: %s", file, out)
				}
			}
			if text, err := os.ReadFile(filepath.Join(backup, "nodes.json")); err != nil ||
				!strings.Contains(string(text), ids[2]) {
				t.Errorf("nodes.json: %v\n%s", err, text)
			}
		})
	}
}

// firstSlots returns the names of n keys in the first slots of three equal shards. redis-cli moves these slots first.
func firstSlots(n int) (names []string) {
	const shard = (slots.Count + 2) / 3
	for i := 0; len(names) < n; i++ {
		if name := fmt.Sprint("key:", i); slots.Of([]byte(name))%shard < 25 {
			names = append(names, name)
		}
	}
	return names
}

// wellAll returns an error unless every node sees a healthy cluster of all nodes.
func wellAll(nodes ...*testkit.Server) (err error) {
	for _, n := range nodes {
		err = errors.Join(err, well(n, len(nodes)))
	}
	return err
}

// TestBenchmark: redis-benchmark --cluster finds and uses all primaries.
func TestBenchmark(t *testing.T) {
	t.Parallel()
	nodes := []*testkit.Server{node(t, false), node(t, true), node(t, false)}
	create(t, nodes, 0)
	out, code := testkit.Run(t, testkit.Slowly(60*time.Second), "", "redis-benchmark", "--cluster", "-p",
		strconv.Itoa(nodes[0].Port),
		"-t", "set,get", "-n", "6000", "-r", "1000", "-c", "9", "-q")
	if code != 0 || !strings.Contains(out, "Cluster has 3 master nodes") || !strings.Contains(out, "GET: ") {
		t.Fatalf("%d\n%s", code, out)
	}
	for _, n := range nodes {
		if keys := n.Do("DBSIZE").Int; keys == 0 {
			t.Errorf("%s was not reached", n.Addr)
		}
	}
}
