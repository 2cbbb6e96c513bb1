package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// counting starts a node, of Valkey or ours, with statistics of slots enabled.
func counting(t *testing.T, kind string) *testkit.Server {
	t.Helper()
	spec := testkit.Kind(t, kind)
	spec.Args = []string{"--cluster-enabled", "yes", "--cluster-node-timeout", strconv.Itoa(nodeTimeoutMs),
		"--cluster-port", strconv.Itoa(testkit.FreePort(t)), "--cluster-slot-stats-enabled", "yes"}
	return testkit.Launch(t, spec)
}

// alone assigns all slots to n.
func alone(t *testing.T, n *testkit.Server) {
	t.Helper()
	n.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	testkit.Until(t, testkit.Slowly(patience), "the node serves", func() error { return well(n, 1) })
}

// cost returns SLOT-STATS as text: "7629: 1 key, cpu, 27 in, 5 out" for each slot with any figure. Then it resets the
// figures.
func cost(n *testkit.Server) string {
	var list []string
	for _, e := range n.Do("CLUSTER", "SLOT-STATS", "SLOTSRANGE", 0, 16383).Elems {
		figure := func(name string) int64 {
			v, _ := e.Elems[1].Get(name)
			return v.Int
		}
		keys, in, out := figure("key-count"), figure("network-bytes-in"), figure("network-bytes-out")
		cpu := ""
		if figure("cpu-usec") > 0 {
			cpu = " cpu,"
		}
		if keys+in+out > 0 || cpu != "" {
			list = append(list, fmt.Sprintf("%d: %d keys,%s %d in, %d out", e.Elems[0].Int, keys, cpu, in, out))
		}
	}
	n.Do("CONFIG", "RESETSTAT")
	return strings.Join(list, "; ")
}

// send sends the requests in a text that are separated by semicolons.
func send(c *respclient.Client, text string) error {
	for call := range strings.SplitSeq(text, "; ") {
		var args []any
		for _, w := range strings.Fields(call) {
			args = append(args, strings.ReplaceAll(w, "_", " "))
		}
		if _, err := c.Do(args...); err != nil {
			return err
		}
	}
	return nil
}

// TestSlotStats: the bytes of requests and replies count for the slot of their keys, also in transactions, scripts,
// blocked clients and shard channels. The test also runs on Valkey where Valkey counts the same.
func TestSlotStats(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{testkit.Ours, testkit.Valkey9} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			n := counting(t, kind)
			alone(t, n)
			c := n.Dial()
			for _, step := range []struct{ calls, want, valkey string }{
				{calls: "SET k v", want: "7629: 1 keys, 27 in, 5 out"},
				{calls: "SET k v; GET k", want: "7629: 1 keys, 47 in, 12 out"},
				{calls: "MSET k v {k}2 w", want: "7629: 2 keys, 45 in, 5 out"},
				{calls: "MGET k j; INFO; PING; KEYS *; SET k; PUBLISH c m"},
				{calls: "EXISTS k; EXISTS j", want: "3564: 0 keys, 23 in, 4 out; 7629: 0 keys, 23 in, 4 out"},
				{calls: "MULTI; SET k v; DISCARD", want: "7629: 0 keys, 27 in, 0 out"},
				{calls: "MULTI; SET k v; EXEC", want: "7629: 1 keys, 56 in, 9 out", valkey: "7629: 1 keys, 56 in, 18 out"},
				{calls: "EVAL return_1 1 k", want: "7629: 0 keys, 42 in, 4 out"},
				{calls: "EVAL redis.call('set',KEYS[1],'v')return_1 1 k", want: "7629: 1 keys, 72 in, 4 out",
					valkey: "7629: 1 keys, 0 in, 5 out"},
				{calls: "EVAL redis.call('set','k','v')redis.call('get','j') 0", want: "7629: 1 keys, 0 in, 0 out",
					valkey: "3564: 0 keys, 0 in, 5 out; 7629: 1 keys, 0 in, 5 out"},
				{calls: "SSUBSCRIBE channel; SUNSUBSCRIBE", want: "10328: 0 keys, 34 in, 38 out"},
			} {
				if err := send(c, step.calls); err != nil {
					t.Fatal(step.calls, err)
				}
				want := step.want
				if kind == testkit.Valkey9 {
					want = cmp.Or(step.valkey, want)
				}
				if got := strings.ReplaceAll(cost(n), " cpu,", ""); got != want {
					t.Errorf("%s: %q, want %q", step.calls, got, want)
				}
				n.Do("FLUSHALL")
				n.Do("CONFIG", "RESETSTAT")
			}

			waiting, listening := n.Dial(), n.Dial()
			waiting.Send("BLPOP", "k", 0)
			if err := waiting.Flush(); err != nil {
				t.Fatal(err)
			}
			testkit.Until(t, testkit.Slowly(patience), "it waits",
				func() error { return testkit.Equal(n.Info("clients")["blocked_clients"], "1") })
			if got := cost(n); got != "" {
				t.Errorf("a client waits: %q", got)
			}
			n.Do("RPUSH", "k", "v")
			if _, err := waiting.Receive(); err != nil {
				t.Fatal(err)
			}
			if got := cost(n); got != "7629: 0 keys, cpu, 58 in, 22 out" {
				t.Errorf("it is served: %q", got)
			}
			listening.Must("SSUBSCRIBE", "channel")
			n.Do("CONFIG", "RESETSTAT")
			n.Do("SPUBLISH", "channel", "hello")
			if got := strings.ReplaceAll(cost(n), " cpu,", ""); got != "10328: 0 keys, 42 in, 46 out" {
				t.Errorf("SPUBLISH: %q", got)
			}

			n.Do("SET", "k", "v")
			n.Do("CLUSTER", "DELSLOTS", 7629)
			n.Do("CLUSTER", "ADDSLOTS", 7629)
			if got := cost(n); got != "7629: 1 keys, 0 in, 0 out" {
				t.Errorf("a slot that was given up and taken again: %q", got)
			}
			n.Do("SET", "k", "v")
			n.Do("CONFIG", "SET", "cluster-slot-stats-enabled", "no")
			if got := cost(n); got != "7629: 1 keys, 0 in, 0 out" {
				t.Errorf("nothing is counted: %q", got)
			}
		})
	}
}

// TestSlotStatsReplies: errors and the order of CLUSTER SLOT-STATS equal those of valkey-server.
func TestSlotStatsReplies(t *testing.T) {
	t.Parallel()
	kinds := []string{testkit.Ours}
	if testkit.Has(testkit.Valkey9) {
		kinds = append(kinds, testkit.Valkey9)
	}
	var nodes []*testkit.Server
	for _, kind := range kinds {
		n := counting(t, kind)
		if v, err := n.Ask("CLUSTER", "SLOT-STATS", "ORDERBY", "cpu-usec"); err != nil || len(v.Elems) != 0 || v.Kind != '*' {
			t.Errorf("%s has no slots, and answers %v, %v", kind, v, err)
		}
		alone(t, n)
		for i, key := range []string{"k", "{k}2", "{k}3", "j", "{j}2", "channel"} {
			n.Do("SET", key, strings.Repeat("v", i))
		}
		nodes = append(nodes, n)
	}
	for _, request := range []string{
		"", "X", "X 1", "SLOTSRANGE 0", "SLOTSRANGE 0 1 2", "SLOTSRANGE x 1", "SLOTSRANGE 1 x", "SLOTSRANGE 0 16384",
		"SLOTSRANGE -1 1", "SLOTSRANGE 2 1", "slotsrange 5 6", "ORDERBY", "ORDERBY x", "ORDERBY KEY-COUNT LIMIT 4",
		"ORDERBY key-count LIMIT 4 ASC", "ORDERBY key-count ASC LIMIT 2", "ORDERBY network-bytes-in LIMIT 3",
		"ORDERBY network-bytes-out LIMIT 5 desc", "ORDERBY memory-bytes", "ORDERBY key-count LIMIT",
		"ORDERBY key-count LIMIT 0", "ORDERBY key-count LIMIT 16385", "ORDERBY key-count LIMIT x",
		"ORDERBY key-count LIMIT 1 LIMIT 2", "ORDERBY key-count ASC DESC", "ORDERBY key-count ASC ASC",
		"ORDERBY key-count y", "ORDERBY cpu-usec y",
	} {
		args := []any{"CLUSTER", "SLOT-STATS"}
		for _, w := range strings.Fields(request) {
			args = append(args, w)
		}
		var replies []string
		for _, n := range nodes {
			v, err := n.Ask(args...)
			if err != nil {
				t.Fatal(request, err)
			}
			for _, e := range v.Elems {
				figures := e.Elems[1].Elems
				if i := slices.IndexFunc(figures, func(f respclient.Value) bool { return f.Text == "cpu-usec" }); i >= 0 {
					figures[i+1].Int = 0
				}
			}
			replies = append(replies, written(v))
		}
		if len(replies) == 2 && replies[0] != replies[1] {
			t.Errorf("SLOT-STATS %s: ours\n%s\nValkey's\n%s", request, replies[0], replies[1])
		}
	}
}

// TestSlotStatsOfReplicas: a replica counts its primary's commands, without replies. The primary counts the stream to
// each replica. A replica that takes over starts counting at zero.
func TestSlotStatsOfReplicas(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{testkit.Ours, testkit.Valkey9} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			primary, replica := counting(t, kind), counting(t, kind)
			alone(t, primary)
			testkit.Meet(t, primary, busPortOf(primary), replica)
			testkit.Until(t, testkit.Slowly(patience), "they know each other", func() error {
				return errors.Join(well(primary, 2), well(replica, 2))
			})
			id := primary.Do("CLUSTER", "MYID").Text
			replica.Do("CLUSTER", "REPLICATE", id)
			synced(t, replica)
			testkit.Until(t, testkit.Slowly(patience), "the primary knows its replica",
				func() error { return testkit.Equal(len(primary.Do("CLUSTER", "REPLICAS", id).Elems), 1) })
			primary.Do("SET", "warm", "up") // this sends SELECT before the measurement
			testkit.Until(t, testkit.Slowly(patience), "the stream flows",
				func() error { return testkit.Equal(replica.Do("DBSIZE").Int, 1) })
			for _, n := range []*testkit.Server{primary, replica} {
				n.Do("CONFIG", "RESETSTAT")
			}
			primary.Do("SET", "k", "v")
			const slot = 7629
			testkit.Until(t, testkit.Slowly(patience), "the replica has the key",
				func() error { return testkit.Equal(replica.Do("DBSIZE").Int, 2) })
			figures := func(n *testkit.Server) string {
				return fmt.Sprint(n.Do("CLUSTER", "SLOT-STATS", "SLOTSRANGE", slot, slot).Elems[0].Elems[1].Strings())
			}
			for _, c := range []struct {
				of           *testkit.Server
				begins, ends string
			}{{primary, "[key-count 1 cpu-usec ", " network-bytes-in 27 network-bytes-out 32]"},
				{replica, "[key-count 1 cpu-usec ", " network-bytes-in 27 network-bytes-out 0]"}} {
				if got := figures(c.of); !strings.HasPrefix(got, c.begins) || !strings.HasSuffix(got, c.ends) {
					t.Errorf("%s: %s, want %s…%s", c.of.Addr, got, c.begins, c.ends)
				}
			}
			var asked time.Time
			testkit.Until(t, testkit.Slowly(patience), "the replica has taken over", func() error {
				if role(replica) != nil && time.Since(asked) > 6*time.Second { // an attempt lapses after 5 s
					asked = time.Now()
					if v, err := replica.Ask("CLUSTER", "FAILOVER"); err != nil || v.Err() != nil {
						return errors.Join(err, v.Err())
					}
				}
				return role(replica)
			})
			if got := figures(replica); got != "[key-count 1 cpu-usec 0 network-bytes-in 0 network-bytes-out 0]" {
				t.Errorf("after the failover: %s", got)
			}
		})
	}
}

// TestSlotStatsOfMovedSlots: the figures of a slot that moves away and back start at zero each time, on both nodes.
// CLUSTER RESET clears all figures.
func TestSlotStatsOfMovedSlots(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{testkit.Ours, testkit.Valkey9} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const slot = 7629 // the slot of k
			from, to := counting(t, kind), counting(t, kind)
			from.Do("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
			to.Do("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
			to.Do("CLUSTER", "SET-CONFIG-EPOCH", 2)
			testkit.Meet(t, from, busPortOf(from), to)
			testkit.Until(t, testkit.Slowly(patience), "a well cluster", func() error { return wellAll(from, to) })
			figures := func(n *testkit.Server) string {
				if list := n.Do("CLUSTER", "SLOT-STATS", "SLOTSRANGE", slot, slot).Elems; len(list) == 1 {
					return fmt.Sprint(list[0].Elems[1].Strings())
				}
				return "not its slot"
			}
			is := func(n *testkit.Server, when, want string) {
				t.Helper()
				if got := figures(n); got != want {
					t.Errorf("%s: %s, want %s", when, got, want)
				}
			}
			move := func(from, to *testkit.Server) {
				t.Helper()
				to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.Do("CLUSTER", "MYID").Text)
				from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.Do("CLUSTER", "MYID").Text)
				if v := from.Do("MIGRATE", "127.0.0.1", to.Port, "k", 0, 5000); v.Text != "OK" {
					t.Fatalf("MIGRATE: %v", v)
				}
				for _, n := range []*testkit.Server{to, from} {
					if v := n.Do("CLUSTER", "SETSLOT", slot, "NODE", to.Do("CLUSTER", "MYID").Text); v.Text != "OK" {
						t.Fatalf("SETSLOT: %v", v)
					}
				}
			}
			const zero = "[key-count 1 cpu-usec 0 network-bytes-in 0 network-bytes-out 0]"
			from.Do("SET", "k", "v")
			if got := figures(from); !strings.HasSuffix(got, " network-bytes-in 27 network-bytes-out 5]") {
				t.Errorf("before: %s", got)
			}
			move(from, to)
			is(from, "moved away", "not its slot")
			is(to, "taken over", zero)
			to.Do("GET", "k")
			if got := figures(to); !strings.HasSuffix(got, " network-bytes-in 20 network-bytes-out 7]") {
				t.Errorf("used at its new node: %s", got)
			}
			testkit.Until(t, testkit.Slowly(patience), "both agree", func() error { return wellAll(from, to) })
			move(to, from)
			is(to, "moved back", "not its slot")
			is(from, "it is back", zero)
			from.Do("GET", "k")
			from.Do("FLUSHALL")
			from.Do("CLUSTER", "RESET", "HARD")
			is(from, "after a reset", "not its slot")
			alone(t, from)
			is(from, "taken again", strings.Replace(zero, "key-count 1", "key-count 0", 1))
		})
	}
}

// TestSlotStatsOfALongScript: a script that lends the turn counts for its slot when it ends. Calls of other clients
// that run between its parts count for their own slots.
func TestSlotStatsOfALongScript(t *testing.T) {
	t.Parallel()
	n := counting(t, testkit.Ours)
	alone(t, n)
	n.Do("CONFIG", "SET", "busy-reply-threshold", 1)
	c := n.Dial()
	c.Send("EVAL", "redis.call('set',KEYS[1],'v') for i=1,30000000 do end return 1", 1, "k")
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, testkit.Slowly(patience), "others get BUSY", func() error {
		if v, err := n.Ask("GET", "j"); err != nil || !strings.HasPrefix(v.Text, "BUSY") {
			return fmt.Errorf("%v, %v", v, err)
		}
		return nil
	})
	if _, err := c.Receive(); err != nil {
		t.Fatal(err)
	}
	cpu := func() (sum time.Duration) {
		for _, e := range n.Do("CLUSTER", "SLOT-STATS", "SLOTSRANGE", 7629, 7629).Elems {
			v, _ := e.Elems[1].Get("cpu-usec")
			sum += time.Duration(v.Int) * time.Microsecond
		}
		return sum
	}()
	if cpu < 5*time.Millisecond {
		t.Errorf("the script counts %v", cpu)
	}
	if got := cost(n); !strings.HasSuffix(got, "7629: 1 keys, cpu, 97 in, 4 out") {
		t.Errorf("the script counts %q", got)
	}
}
