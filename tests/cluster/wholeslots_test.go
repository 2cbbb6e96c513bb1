package cluster

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// These tests are about slots that move as a whole: MIGRATESLOTS on the source, MIGRATION on the target.

// owners starts a cluster of primaries, one of each kind. The first node owns all slots.
func owners(t *testing.T, args []string, kinds ...string) (nodes []*testkit.Server) {
	t.Helper()
	for _, kind := range kinds {
		testkit.Kind(t, kind) // skips the test before any server starts
	}
	for _, kind := range kinds {
		spec := testkit.Kind(t, kind)
		spec.Args = append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", strconv.Itoa(nodeTimeoutMs),
			"--cluster-port", strconv.Itoa(testkit.FreePort(t)), "--cluster-allow-replica-migration", "no"}, args...)
		nodes = append(nodes, testkit.Launch(t, spec))
	}
	join(t, nodes)
	return nodes
}

// join makes a cluster of nodes. The first node owns all slots.
func join(t *testing.T, nodes []*testkit.Server) {
	t.Helper()
	nodes[0].Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	for i, n := range nodes {
		n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	testkit.Meet(t, nodes[0], busPortOf(nodes[0]), nodes[1:]...)
	for _, n := range nodes {
		testkit.Until(t, testkit.Slowly(patience), "every node sees a well cluster",
			func() error { return well(n, len(nodes)) })
	}
}

// moveState returns a field of the latest move in a node's list.
func moveState(n *testkit.Server, field string) string {
	v, err := n.Ask("CLUSTER", "GETSLOTMIGRATIONS")
	if err != nil || len(v.Elems) == 0 {
		return ""
	}
	for i := 0; i+1 < len(v.Elems[0].Elems); i += 2 {
		if v.Elems[0].Elems[i].Text == field {
			return v.Elems[0].Elems[i+1].Text
		}
	}
	return ""
}

// moved waits until the latest move of a node is over, and fails the test unless its state is want.
func moved(t *testing.T, n *testkit.Server, want string) {
	t.Helper()
	testkit.Until(t, testkit.Slowly(patience), "the move is over", func() error {
		switch got := moveState(n, "state"); got {
		case want:
			return nil
		case "success", "failed", "cancelled":
			t.Fatalf("the move ended as %s: %s", got, moveState(n, "message"))
			return nil
		default:
			return errors.New(got)
		}
	})
}

// fill makes keys of each type in many slots, and returns their names.
func fill(n *testkit.Server) (keys []string) {
	for i := range 200 {
		tag := "{" + strconv.Itoa(i) + "}"
		n.Do("SET", tag+"s", i)
		n.Do("RPUSH", tag+"l", "a", i, "c")
		n.Do("SADD", tag+"e", 1, 2, i)
		n.Do("ZADD", tag+"z", 1, "a", 2.5, i)
		n.Do("HSET", tag+"h", "f", "v", "n", i)
		n.Do("XADD", tag+"x", "1-1", "f", i)
		n.Do("XGROUP", "CREATE", tag+"x", "g", "0")
		n.Do("SET", tag+"t", "v", "EX", 10000)
		for _, name := range []string{"s", "l", "e", "z", "h", "x", "t"} {
			keys = append(keys, tag+name)
		}
	}
	n.Do("SET", "{0}long", strings.Repeat("0123456789", 100_000))
	many := []any{"HSET", "{1}many"}
	for i := range 5000 {
		many = append(many, i, strings.Repeat("v", i%200))
	}
	n.Do(many...)
	return append(keys, "{0}long", "{1}many")
}

// digests returns the digest of each key.
func digests(n *testkit.Server, keys []string) map[string]string {
	all := map[string]string{}
	for _, key := range keys {
		v := n.Do("DEBUG", "DIGEST-VALUE", key)
		all[key] = fmt.Sprint(v.Elems[0].Text, n.Do("PEXPIRETIME", key).Int)
	}
	return all
}

// increments is a client that increments keys, follows MOVED, and counts the acknowledged increments.
type increments struct {
	acked map[string]int64
	stop  chan struct{}
	done  sync.WaitGroup
	err   error
}

func count(t *testing.T, nodes []*testkit.Server) *increments {
	c := &increments{acked: map[string]int64{}, stop: make(chan struct{})}
	links := map[string]*respclient.Client{}
	for _, n := range nodes {
		links[strconv.Itoa(n.Port)] = n.Dial()
	}
	at := strconv.Itoa(nodes[0].Port)
	c.done.Add(1)
	go func() {
		defer c.done.Done()
		for i := 0; ; i++ {
			select {
			case <-c.stop:
				return
			case <-time.After(time.Millisecond):
			}
			key, to := fmt.Sprintf("{%d}count", i%200), at
			for range 100 {
				v, err := links[to].Do("INCR", key)
				if err != nil {
					c.err = err
					return
				}
				if v.Kind == '-' {
					words := strings.Fields(v.Text)
					if words[0] != "MOVED" {
						c.err = errors.New(v.Text)
						return
					}
					to = words[2][strings.LastIndexByte(words[2], ':')+1:]
					continue
				}
				if c.acked[key]++; v.Int != c.acked[key] {
					c.err = fmt.Errorf("%s is %d after %d increments", key, v.Int, c.acked[key])
					return
				}
				break
			}
		}
	}()
	return c
}

// end stops the client, and fails the test if the client got another error than MOVED or lost an increment.
func (c *increments) end(t *testing.T) {
	t.Helper()
	close(c.stop)
	c.done.Wait()
	if c.err != nil {
		t.Error(c.err)
	}
}

// TestSlotsMoveWhole: while clients write, nearly all slots of a node move to another node, and back. All values
// arrive, and clients get no error but MOVED. Both nodes run spindle, or one runs Valkey.
func TestSlotsMoveWhole(t *testing.T) {
	t.Parallel()
	for _, kinds := range [][]string{{testkit.Ours, testkit.Ours}, {testkit.Ours, testkit.Valkey9},
		{testkit.Valkey9, testkit.Ours}} {
		t.Run(kinds[0]+" and "+kinds[1], func(t *testing.T) {
			t.Parallel()
			nodes := owners(t, []string{"--enable-debug-command", "yes"}, kinds...)
			keys := fill(nodes[0])
			want := digests(nodes[0], keys)
			c := count(t, nodes)
			for turn := range 2 {
				from, to := nodes[turn], nodes[1-turn]
				from.Do("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, 8191, 8192, 16382, "NODE", to.Do("CLUSTER", "MYID").Text)
				moved(t, from, "success")
				moved(t, to, "success")
				testkit.Until(t, testkit.Slowly(patience), "the source drops the keys",
					func() error { return testkit.Equal(from.Do("DBSIZE").Int, 0) })
				for key, got := range digests(to, keys) {
					if got != want[key] {
						t.Errorf("%s is %s, not %s", key, got, want[key])
					}
				}
				for _, n := range nodes {
					testkit.Until(t, testkit.Slowly(patience), "every node sees a well cluster",
						func() error { return well(n, len(nodes)) })
				}
			}
			c.end(t)
		})
	}
}

// A peer is a test that plays the source of a move to a node.
type peer struct {
	t    *testing.T
	link *respclient.Client
}

// establish begins a move of slots 0 to 16382 from one node to another. The returned peer plays the source.
func establish(t *testing.T, from, to *testkit.Server, name byte) *peer {
	t.Helper()
	s := &peer{t, to.Dial()}
	v, err := s.link.Do("CLUSTER", "SYNCSLOTS", "ESTABLISH", "SOURCE", from.Do("CLUSTER", "MYID").Text, "NAME",
		strings.Repeat(string(name), 40), "SLOTSRANGE", 0, 16382)
	if err != nil || v.Text != "OK" {
		t.Fatalf("ESTABLISH: %+v, %v", v, err)
	}
	s.say("CLUSTER", "SYNCSLOTS", "ACK")
	return s
}

// say sends a command that gets no reply.
func (s *peer) say(args ...any) {
	s.t.Helper()
	s.link.Send(args...)
	if err := s.link.Flush(); err != nil {
		s.t.Fatal(err)
	}
}

// hears waits for a given message of the target.
func (s *peer) hears(word string) {
	s.t.Helper()
	for {
		v, err := s.link.Receive()
		if err != nil {
			s.t.Fatalf("the target did not say %s: %v", word, err)
		}
		if len(v.Elems) == 3 && v.Elems[2].Text == word {
			return
		}
	}
}

// bring sends keys of some types, and waits until the target has loaded them.
func (s *peer) bring() {
	s.t.Helper()
	for i := range 100 {
		s.say("SET", fmt.Sprintf("{%d}staged", i), i)
		s.say("HSET", fmt.Sprintf("{%d}hash", i), "f", i)
		s.say("SET", fmt.Sprintf("{%d}brief", i), i, "PX", 1)
	}
	s.say("CLUSTER", "SYNCSLOTS", "SNAPSHOT-EOF")
	s.hears("REQUEST-PAUSE")
}

// showsNone fails the test if any command of a node shows a staged key.
func showsNone(t *testing.T, n *testkit.Server) {
	t.Helper()
	for _, request := range [][]any{{"DBSIZE"}, {"KEYS", "*"}, {"KEYS", "{1}*"}, {"RANDOMKEY"},
		{"SCAN", 0, "COUNT", 10000}, {"CLUSTER", "COUNTKEYSINSLOT", 9842}, {"CLUSTER", "GETKEYSINSLOT", 9842, 10}} {
		v := n.Do(request...)
		if request[0] == "SCAN" {
			v = v.Elems[1]
		}
		if v.Int != 0 || len(v.Elems) > 0 || v.Text != "" {
			t.Errorf("%v shows %+v", request, v)
		}
	}
	if text := n.Do("INFO", "keyspace").Text; strings.Contains(text, "db0") {
		t.Errorf("INFO keyspace has %q", text)
	}
}

// TestStagedKeysAreHidden: while slots move to a node, neither the node nor its replica shows their keys, and none of
// these keys expires. A saved file does not have them. When the source disconnects, both remove the keys. The next
// attempt succeeds.
func TestStagedKeysAreHidden(t *testing.T) {
	t.Parallel()
	for _, log := range []string{"no", "yes"} {
		t.Run("appendonly "+log, func(t *testing.T) {
			t.Parallel()
			nodes := owners(t, []string{"--appendonly", log, "--save", "", "--enable-debug-command", "yes"},
				testkit.Ours, testkit.Ours, testkit.Ours)
			from, to, replica := nodes[0], nodes[1], nodes[2]
			replica.Do("CLUSTER", "REPLICATE", to.Do("CLUSTER", "MYID").Text)
			synced(t, replica)
			used := to.InfoInt("stats", "expired_keys")

			s := establish(t, from, to, 'a')
			s.bring()
			showsNone(t, to)
			testkit.Until(t, testkit.Slowly(patience), "keys past their deadline expire", func() error {
				from.Do("SET", "brief", 1, "PX", 1)
				return testkit.Equal(from.InfoInt("stats", "expired_keys") > 3, true)
			})
			showsNone(t, to)
			testkit.Until(t, testkit.Slowly(patience), "the replica has the keys", func() error {
				return testkit.Equal(moveState(replica, "state"), "occurring-on-primary")
			})
			showsNone(t, replica)
			if n := to.InfoInt("stats", "expired_keys"); n != used {
				t.Errorf("%d staged keys expired", n-used)
			}
			if v, _ := to.Ask("GET", "{1}staged"); !strings.HasPrefix(v.Text, "MOVED") {
				t.Errorf("GET of a staged key: %+v", v)
			}
			if log == "no" {
				to.Do("SAVE")
				to.Do("DEBUG", "RELOAD", "NOSAVE")
			} else {
				s.link.Close()
			}
			for _, n := range []*testkit.Server{to, replica} {
				testkit.Until(t, testkit.Slowly(patience), "the move has failed", func() error {
					return testkit.Equal(moveState(n, "state"), "failed")
				})
				showsNone(t, n)
			}
			if n := to.InfoInt("memory", "used_memory_dataset"); n > 50<<20 {
				t.Errorf("%d bytes are in use", n)
			}
			if log == "yes" {
				s = establish(t, from, to, 'b')
				s.bring()
				to.Crashes()
				to.Kill()
				to.Restart()
				testkit.Until(t, testkit.Slowly(patience), "a restart ends the move", func() error {
					return testkit.Equal(moveState(to, "state"), "failed")
				})
				showsNone(t, to)
			}

			from.Do("SET", "key", "value")
			testkit.Until(t, testkit.Slowly(patience), "the next move begins", func() error {
				v, err := from.Ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, 16382, "NODE", to.Do("CLUSTER", "MYID").Text)
				return errors.Join(err, testkit.Equal(v.Text, "OK"))
			})
			moved(t, from, "success")
			for _, n := range []*testkit.Server{to, replica} {
				testkit.Until(t, testkit.Slowly(patience), "the key has moved",
					func() error { return testkit.Equal(n.Do("DBSIZE").Int, 1) })
			}
		})
	}
}

// TestPromotedInAMove: the replica of a target takes over while slots move to the target. The replica removes the
// staged keys, and the next move to it succeeds.
func TestPromotedInAMove(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", ""}, testkit.Ours, testkit.Ours, testkit.Ours)
	from, to, replica := nodes[0], nodes[1], nodes[2]
	replica.Do("CLUSTER", "REPLICATE", to.Do("CLUSTER", "MYID").Text)
	synced(t, replica)
	establish(t, from, to, 'a').bring()
	testkit.Until(t, testkit.Slowly(patience), "the replica knows the move", func() error {
		return testkit.Equal(moveState(replica, "state"), "occurring-on-primary")
	})
	to.Crashes()
	to.Kill()
	replica.Do("CLUSTER", "FAILOVER", "TAKEOVER")
	testkit.Until(t, testkit.Slowly(patience), "the new primary ends the move",
		func() error { return testkit.Equal(moveState(replica, "state"), "failed") })
	showsNone(t, replica)
	from.Do("SET", "key", "value")
	from.Do("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, 16382, "NODE", replica.Do("CLUSTER", "MYID").Text)
	moved(t, from, "success")
	if n := replica.Do("DBSIZE").Int; n != 1 {
		t.Errorf("%d keys are at the target, not 1", n)
	}
}

// TestMoveIsRefused: the errors of the commands have Valkey's words.
func TestMoveIsRefused(t *testing.T) {
	t.Parallel()
	nodes := owners(t, nil, testkit.Ours, testkit.Ours)
	from, to := nodes[0], nodes[1]
	me, id, other := from.Do("CLUSTER", "MYID").Text, to.Do("CLUSTER", "MYID").Text, strings.Repeat("0", 40)
	for _, c := range []struct {
		request string
		want    string
	}{
		{"MIGRATESLOTS SLOTSRANGE 0 1 NODE " + other, "ERR Unknown node name: " + other},
		{"MIGRATESLOTS SLOTSRANGE 0 1 NODE x", "ERR Invalid node name: x"},
		{"MIGRATESLOTS SLOTSRANGE 0 1 NODE " + me, "ERR Target node can not be this node."},
		{"MIGRATESLOTS SLOTSRANGE 1 0 NODE " + id, "ERR Start slot number 1 is greater than end slot number 0."},
		{"MIGRATESLOTS SLOTSRANGE 0 NODE " + id, "ERR Invalid or out of range slot"},
		{"MIGRATESLOTS SLOTSRANGE 0 5 5 6 NODE " + id, "ERR Slot range 5-6 overlaps with previous range 0-5."},
		{"MIGRATESLOTS SLOTSRANGE NODE " + id, "ERR No slot ranges specified"},
		{"MIGRATESLOTS SLOTS 0 1 NODE " + id, "ERR syntax error"},
		{"MIGRATESLOTS SLOTSRANGE 0 1 NODE " + id + " SLOTSRANGE 1 2 NODE " + id, "ERR Slot ranges in migrations overlap"},
		{"CANCELSLOTMIGRATIONS", "ERR No migrations ongoing"},
		{"SYNCSLOTS PAUSED", "ERR CLUSTER SYNCSLOTS PAUSED should only be used by slot migration clients"},
		{"SYNCSLOTS FINISH STATE success NAME " + other, "ERR No such slot migration job"},
		{"SYNCSLOTS ESTABLISH NAME " + other + " SLOTSRANGE 0 1", "ERR syntax error"},
		{"SYNCSLOTS ESTABLISH SOURCE " + me + " NAME " + other + " SLOTSRANGE 0 1", "ERR Source node is target node itself"},
		{"SYNCSLOTS ESTABLISH SOURCE " + id + " NAME " + other + " SLOTSRANGE 0 1",
			"ERR Target node does not agree about current slot ownership"},
		{"MIGRATION IMPORT 0 1", "ERR This node already serves the slots"},
		{"MIGRATION STATUS SOME", "ERR syntax error"},
	} {
		args := []any{"CLUSTER"}
		for _, word := range strings.Fields(c.request) {
			args = append(args, word)
		}
		if v, err := from.Ask(args...); err != nil || v.Text != c.want {
			t.Errorf("%s: %q, %v, not %q", c.request, v.Text, err, c.want)
		}
	}
}

// TestMigrationImport: the target requests slots, as the tools of Redis 8.4 do.
func TestMigrationImport(t *testing.T) {
	t.Parallel()
	nodes := owners(t, nil, testkit.Ours, testkit.Ours)
	from, to := nodes[0], nodes[1]
	keys := fill(from)
	for _, n := range nodes {
		n.Do("CONFIG", "SET", "masterauth", "secret", "requirepass", "secret")
	}
	id := to.Do("CLUSTER", "MIGRATION", "IMPORT", 0, 8000, 8001, 16382).Text
	if len(id) != 40 {
		t.Fatalf("IMPORT: %q", id)
	}
	status := func(field string) string {
		for _, task := range to.Do("CLUSTER", "MIGRATION", "STATUS", "ID", id).Elems {
			if len(task.Elems) != 24 {
				t.Fatalf("a task has %d words", len(task.Elems))
			}
			for i := 0; i < len(task.Elems); i += 2 {
				if task.Elems[i].Text == field {
					return task.Elems[i+1].Text
				}
			}
		}
		return ""
	}
	testkit.Until(t, testkit.Slowly(patience), "the task is over",
		func() error { return testkit.Equal(status("state"), "completed") })
	for field, want := range map[string]string{"slots": "0-8000 8001-16382", "operation": "import", "last_error": "",
		"source": from.Do("CLUSTER", "MYID").Text, "dest": to.Do("CLUSTER", "MYID").Text} {
		if got := status(field); got != want {
			t.Errorf("%s is %q, not %q", field, got, want)
		}
	}
	if n := to.Do("DBSIZE").Int; n != int64(len(keys)) {
		t.Errorf("%d keys have moved, not %d", n, len(keys))
	}
	const long = 1_000_000 // the largest of the keys
	if n := from.InfoInt("stats", "total_net_cluster_slot_export_bytes"); n < long {
		t.Errorf("the source has written %d bytes", n)
	}
	if n := to.InfoInt("stats", "total_net_cluster_slot_import_bytes"); n < long {
		t.Errorf("the target has read %d bytes", n)
	}
	if n := to.Do("CLUSTER", "MIGRATION", "CANCEL", "ALL").Int; n != 0 {
		t.Errorf("CANCEL of nothing cancels %d", n)
	}
}

// TestMigrationImportFromOlder: if the owner does not support moves of whole slots, the error names the other way to
// move them.
func TestMigrationImportFromOlder(t *testing.T) {
	t.Parallel()
	nodes := owners(t, nil, testkit.Redis70, testkit.Ours)
	v, err := nodes[1].Ask("CLUSTER", "MIGRATION", "IMPORT", 0, 100)
	if err != nil || !strings.Contains(v.Text, "redis-cli --cluster reshard") {
		t.Errorf("IMPORT from a server that cannot: %+v, %v", v, err)
	}
}

// TestCompatVersion: a server that is configured to report version 8.4.0 does so in INFO, HELLO and LOLWUT.
func TestCompatVersion(t *testing.T) {
	t.Parallel()
	n := testkit.Start(t)
	for _, c := range []struct{ word, version string }{{"8.4", "8.4.0"}, {"7.4", "7.4.1"}} {
		n.Do("CONFIG", "SET", "compat-version", c.word)
		if got := n.Info("server")["redis_version"]; got != c.version {
			t.Errorf("INFO with compat-version %s: %s", c.word, got)
		}
		if v := n.Do("HELLO"); v.Elems[3].Text != c.version {
			t.Errorf("HELLO with compat-version %s: %+v", c.word, v)
		}
		if v := n.Do("LOLWUT"); !strings.Contains(v.Text, c.version) {
			t.Errorf("LOLWUT with compat-version %s: %+v", c.word, v)
		}
	}
}
