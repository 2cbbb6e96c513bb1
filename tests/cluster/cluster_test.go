package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// Most of these tests spend their time waiting: for timeouts of nodes, agreement and redis-cli.
func TestMain(m *testing.M) { testkit.Waiting(m) }

const nodeTimeoutMs = 2000

// patience is how long a failover and a new agreement may take.
const patience = 30 * time.Second

// node starts a node with its bus port.
func node(t *testing.T, redis bool, args ...string) *testkit.Server {
	t.Helper()
	all := append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", strconv.Itoa(nodeTimeoutMs),
		"--cluster-port", strconv.Itoa(testkit.FreePort(t))}, args...)
	return testkit.Launch(t, testkit.Spec{Redis: redis, Args: all})
}

// create makes a cluster of nodes with redis-cli. The first half are primaries.
func create(t *testing.T, nodes []*testkit.Server, replicas int) {
	t.Helper()
	args := []string{"--cluster", "create"}
	for _, n := range nodes {
		args = append(args, n.Addr)
	}
	args = append(args, "--cluster-replicas", strconv.Itoa(replicas), "--cluster-yes")
	out, code := testkit.Run(t, testkit.Slowly(60*time.Second), "", "redis-cli", args...)
	if code != 0 || !strings.Contains(out, "All 16384 slots covered") {
		t.Fatalf("redis-cli --cluster create: %d\n%s", code, out)
	}
	for _, n := range nodes {
		testkit.Until(t, testkit.Slowly(patience), "every node sees a well cluster",
			func() error { return well(n, len(nodes)) })
	}
}

// TestSortGetsElements: in cluster mode, SORT with GET # is allowed, because GET # refers to no key.
func TestSortGetsElements(t *testing.T) {
	t.Parallel()
	n := node(t, false)
	n.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	testkit.Until(t, testkit.Slowly(patience), "the node serves", func() error { return well(n, 1) })
	n.Do("RPUSH", "{a}list", 2, 1)
	n.Do("MSET", "{a}w1", "x", "{a}w2", "y")
	for request, want := range map[string]string{
		"SORT {a}list GET #":              "1 2",
		"SORT_RO {a}list GET # GET {a}w*": "1 x 2 y",
		"SORT {a}list BY nosort GET #":    "2 1",
	} {
		var args []any
		for _, word := range strings.Fields(request) {
			args = append(args, word)
		}
		var got []string
		v := n.Do(args...)
		for _, e := range v.Elems {
			got = append(got, e.Text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %+v, not %s", request, v, want)
		}
	}
	if v, _ := n.Ask("SORT", "{a}list", "GET", "w*"); !strings.Contains(v.Text,
		"GET option of SORT denied in Cluster mode") {
		t.Errorf("SORT GET of a pattern without the key's slot: %+v", v)
	}
}

// info returns the fields of CLUSTER INFO.
func info(n *testkit.Server) map[string]string {
	fields := map[string]string{}
	v, err := n.Ask("CLUSTER", "INFO")
	if err != nil {
		return fields
	}
	for line := range strings.SplitSeq(v.Text, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

func well(n *testkit.Server, nodes int) error {
	f := info(n)
	if f["cluster_state"] != "ok" || f["cluster_slots_ok"] != "16384" || f["cluster_known_nodes"] != strconv.Itoa(nodes) {
		return fmt.Errorf("%s: %v", n.Addr, f)
	}
	return nil
}

// role returns an error unless the node reports the role "master".
func role(n *testkit.Server) error { return is(n, "role", "master") }

func is(n *testkit.Server, field, want string) error {
	if got := n.Info("replication")[field]; got != want {
		return fmt.Errorf("%s: %s is %q, not %q", n.Addr, field, got, want)
	}
	return nil
}

// synced waits until replicas have their primaries' data.
func synced(t *testing.T, replicas ...*testkit.Server) {
	t.Helper()
	for _, n := range replicas {
		testkit.Until(t, testkit.Slowly(patience), "the replica is in step",
			func() error { return is(n, "master_link_status", "up") })
	}
}

// primaryOf returns the node that n replicates.
func primaryOf(t *testing.T, n *testkit.Server, all []*testkit.Server) *testkit.Server {
	t.Helper()
	port := n.Info("replication")["master_port"]
	for _, other := range all {
		if strconv.Itoa(other.Port) == port {
			return other
		}
	}
	t.Fatalf("%s follows no node of the cluster (port %s)", n.Addr, port)
	return nil
}

// TestFailover: the clusters have only spindle nodes, and then redis-server in each role too. A primary is killed, and
// its replica takes over with the data. The old primary comes back as a replica. Then an operator exchanges the roles
// of the two.
func TestFailover(t *testing.T) {
	t.Parallel()
	for name, kinds := range map[string][6]bool{ // whether a node is redis-server
		"ours":            {},
		"our primaries":   {3: true, 4: true, 5: true},
		"our replicas":    {0: true, 1: true, 2: true},
		"one each, mixed": {0: true, 4: true},
	} {
		if testkit.Scale() == 1 && strings.HasPrefix(name, "our ") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var nodes []*testkit.Server
			for _, redis := range kinds {
				nodes = append(nodes, node(t, redis))
			}
			create(t, nodes, 1)
			synced(t, nodes[3:]...)
			heir := nodes[3]
			old := primaryOf(t, heir, nodes)
			key := keyOf(t, old)
			old.Do("SET", key, "kept")
			testkit.Until(t, testkit.Slowly(patience), "the write reaches the replica", func() error {
				return testkit.Equal(heir.Info("keyspace")["db0"] != "", true)
			})
			old.Kill()
			testkit.Until(t, testkit.Slowly(patience), "the replica takes over", func() error { return role(heir) })
			testkit.Until(t, testkit.Slowly(patience), "it serves", func() error {
				v, err := heir.Ask("GET", key)
				return errors.Join(err, testkit.Equal(v.Text, "kept"))
			})
			old.Restart()
			testkit.Until(t, testkit.Slowly(patience), "the old primary follows",
				func() error { return is(old, "role", "slave") })
			synced(t, old)
			for _, n := range nodes {
				testkit.Until(t, testkit.Slowly(patience), "all see a well cluster", func() error { return well(n, 6) })
			}
			testkit.Until(t, testkit.Slowly(patience), "the new primary knows its replica", func() error {
				v, err := heir.Ask("CLUSTER", "REPLICAS", heir.Do("CLUSTER", "MYID").Text)
				return errors.Join(err, testkit.Equal(len(v.Elems), 1))
			})
			// The replica may have no link to its primary yet. Then no node receives the failover request, which lapses
			// after five seconds.
			var asked time.Time
			testkit.Until(t, testkit.Slowly(patience), "they change places", func() error {
				if time.Since(asked) > 6*time.Second {
					if v, err := old.Ask("CLUSTER", "FAILOVER"); err != nil || v.Err() != nil {
						return errors.Join(err, v.Err())
					}
					asked = time.Now()
				}
				return errors.Join(role(old), is(heir, "role", "slave"))
			})
			if v := old.Do("GET", key); v.Text != "kept" {
				t.Errorf("after the manual failover: %v", v)
			}
		})
	}
}

// keyOf returns a key that n serves.
func keyOf(t *testing.T, n *testkit.Server) string {
	t.Helper()
	for i := range 1000 {
		key := fmt.Sprintf("key:%d", i)
		if v, err := n.Ask("GET", key); err == nil && !strings.HasPrefix(v.Text, "MOVED") {
			return key
		}
	}
	t.Fatal("no key is of the node")
	return ""
}

// TestNodesFile: spindle reads redis-server's nodes.conf. Only one process may use a nodes.conf. The error about a
// damaged file names the line.
func TestNodesFile(t *testing.T) {
	t.Parallel()
	theirs := node(t, true)
	theirs.Do("CLUSTER", "ADDSLOTSRANGE", 0, 100, 200, 16383)
	theirs.Do("CLUSTER", "BUMPEPOCH")
	id := theirs.Do("CLUSTER", "MYID").Text
	theirs.Terminate()
	file, err := os.ReadFile(theirs.File("nodes.conf"))
	if err != nil {
		t.Fatal(err)
	}
	ours := node(t, false)
	ours.Terminate()
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(ours.File("nodes.conf"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(string(file))
	ours.Restart()
	if got := ours.Do("CLUSTER", "MYID").Text; got != id {
		t.Errorf("the ID is %s, not %s", got, id)
	}
	if f := info(ours); f["cluster_slots_assigned"] != strconv.Itoa(101+16184) || f["cluster_my_epoch"] != "1" {
		t.Errorf("%v", f)
	}
	second := testkit.Launch(t, testkit.Spec{NoWait: true, Dir: ours.Dir, Args: []string{"--cluster-enabled", "yes"}})
	second.Crashes()
	if code := second.Wait(testkit.Slowly(20 * time.Second)); code != 1 ||
		!strings.Contains(second.Log(), "already used by a different Redis Cluster node") {
		t.Errorf("a second process on one nodes.conf ended with %d: %s", code, second.Log())
	}
	ours.Terminate()
	put(strings.Replace(string(file), "myself,", "", 1))
	bad := testkit.Launch(t, testkit.Spec{NoWait: true, Dir: ours.Dir, Args: []string{"--cluster-enabled", "yes"}})
	bad.Crashes()
	if code := bad.Wait(testkit.Slowly(20 * time.Second)); code != 1 ||
		!strings.Contains(bad.Log(), "corrupted cluster config file") {
		t.Errorf("a damaged nodes.conf: %d, %s", code, bad.Log())
	}
}

// TestNonsenseOnTheBus: if a link sends invalid bytes, it is closed, with one line in the log. No node is forgotten or
// added.
func TestNonsenseOnTheBus(t *testing.T) {
	t.Parallel()
	busPort := testkit.FreePort(t)
	n := node(t, false, "--cluster-port", strconv.Itoa(busPort))
	before := n.Do("CLUSTER", "NODES").Text
	huge := "RCmb\x7f\xff\xff\xff\x00\x01\x00\x00\x00\x00" + strings.Repeat("x", 3000)
	for i, text := range []string{"*1\r\n$4\r\nPING\r\n", "PING\r\nPING\r\n",
		"RCmb\x00\x00\x00\x10" + strings.Repeat("\x00", 100), huge, strings.Repeat("\x00", 64)} {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", busPort))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(testkit.Slowly(time.Minute)))
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: the link is open", text[:8])
		}
		_ = conn.Close()
		testkit.Until(t, testkit.Slowly(patience), "a line in the log", func() error {
			return testkit.Equal(strings.Count(n.Log(), "Bad message length or signature received"), i+1)
		})
	}
	if after := n.Do("CLUSTER", "NODES").Text; after != before {
		t.Errorf("%s\nbefore: %s", after, before)
	}
}

// alike has requests, in order, whose replies are the same in every version.
const alike = `
CLUSTER NODES
CLUSTER SLOTS
CLUSTER LINKS
CLUSTER MYID
CLUSTER ADDSLOTS x
CLUSTER ADDSLOTS 1 1
CLUSTER ADDSLOTS 16384
CLUSTER ADDSLOTS 0 1
CLUSTER ADDSLOTS 1 2
CLUSTER DELSLOTS 9
CLUSTER ADDSLOTSRANGE 5 4
CLUSTER ADDSLOTSRANGE 5
CLUSTER ADDSLOTSRANGE 5 9 8 12
CLUSTER ADDSLOTSRANGE 5 9 20 20
CLUSTER SLOTS
CLUSTER NODES
CLUSTER DELSLOTSRANGE 0 3
CLUSTER DELSLOTSRANGE 0 1
CLUSTER SETSLOT 7 MIGRATING nobody
CLUSTER SETSLOT 7 IMPORTING nobody
CLUSTER SETSLOT 7 STABLE
CLUSTER SETSLOT 7 NODE nobody
CLUSTER SETSLOT 7 what
CLUSTER SETSLOT x STABLE
CLUSTER MEET nowhere 1
CLUSTER MEET 127.0.0.1 0
CLUSTER MEET 127.0.0.1 70000
CLUSTER FORGET nobody
CLUSTER REPLICATE nobody
CLUSTER REPLICAS nobody
CLUSTER SLAVES nobody
CLUSTER COUNT-FAILURE-REPORTS nobody
CLUSTER FAILOVER
CLUSTER FAILOVER what
CLUSTER FAILOVER FORCE
CLUSTER KEYSLOT a{b}c
CLUSTER COUNTKEYSINSLOT 7
CLUSTER COUNTKEYSINSLOT -1
CLUSTER COUNTKEYSINSLOT x
CLUSTER GETKEYSINSLOT 7 5
CLUSTER GETKEYSINSLOT 7 -5
CLUSTER GETKEYSINSLOT 7 x
CLUSTER BUMPEPOCH
CLUSTER BUMPEPOCH
CLUSTER SET-CONFIG-EPOCH 5
CLUSTER SET-CONFIG-EPOCH x
CLUSTER SET-CONFIG-EPOCH -1
CLUSTER FLUSHSLOTS
CLUSTER SAVECONFIG
CLUSTER RESET what
CLUSTER RESET
CLUSTER RESET HARD
CLUSTER SET-CONFIG-EPOCH 5
CLUSTER NODES
CLUSTER NOSUCH
CLUSTER MEET 1 2 3 4
CLUSTER
REPLICAOF 127.0.0.1 1
FAILOVER
SELECT 1
CONFIG SET cluster-enabled no
CONFIG SET cluster-announce-hostname a.example
CLUSTER NODES
`

// TestRepliesAlike: CLUSTER's replies of a single node equal redis-server's, except for the node's own names and for
// texts that differ between 7.0 and 7.4.
func TestRepliesAlike(t *testing.T) {
	t.Parallel()
	ours, theirs := node(t, false), node(t, true)
	name := func(n *testkit.Server, text string) string {
		text = strings.ReplaceAll(text, strconv.Itoa(n.Port), "PORT")
		text = regexp.MustCompile(`@[0-9]+`).ReplaceAllString(text, "@BUS")
		return regexp.MustCompile(`[0-9a-f]{40}`).ReplaceAllString(text, "ID")
	}
	for line := range strings.SplitSeq(strings.TrimSpace(alike), "\n") {
		var words []any
		for _, word := range strings.Fields(line) {
			words = append(words, word)
		}
		for _, protocol := range []int{2, 3} {
			if protocol == 3 && strings.Contains(fmt.Sprint(words...), "BUMP") {
				continue
			}
			ours.Do("HELLO", protocol)
			theirs.Do("HELLO", protocol)
			got, err := ours.Ask(words...)
			if err != nil {
				t.Fatal(err)
			}
			want, err := theirs.Ask(words...)
			if err != nil {
				t.Fatal(err)
			}
			a, b := name(ours, fmt.Sprintf("%+v", got)), name(theirs, fmt.Sprintf("%+v", want))
			if a != b {
				t.Errorf("%v, RESP%d:\n got %s\nwant %s", words, protocol, a, b)
			}
		}
	}
}

// TestASlowCommandIsNoFailure: while one command holds the core for several timeouts, no node marks that node as
// failed. The long form has a command of five timeouts.
func TestASlowCommandIsNoFailure(t *testing.T) {
	nodes := []*testkit.Server{node(t, false), node(t, false), node(t, false)}
	create(t, nodes, 0)
	slow := nodes[0].Dial()
	defer slow.Close()
	const timeout = nodeTimeoutMs * time.Millisecond
	wanted := 2 * timeout
	if testkit.Scale() > 1 {
		wanted = 5 * timeout
	}
	// The first command shows how many keys the second command needs.
	took, keys := time.Duration(0), 1_000_000
	for range 2 {
		if took >= wanted {
			break
		}
		if took > 0 {
			keys = min(int(float64(keys)*1.2*float64(wanted)/float64(took)), 32_000_000)
		}
		slow.Must("FLUSHALL")
		began, ended := time.Now(), make(chan error, 1)
		go func() {
			_, err := slow.Do("DEBUG", "POPULATE", keys)
			ended <- err
		}()
		for over := false; !over; {
			select {
			case err := <-ended:
				if over = true; err != nil {
					t.Fatal(err)
				}
			case <-time.After(50 * time.Millisecond):
			}
			if took = time.Since(began); took > 8*timeout {
				break // after ten timeouts the node counts as failed
			}
			for _, other := range nodes[1:] {
				if line := lineOf(other, nodes[0]); strings.Contains(line, ",fail ") {
					t.Fatalf("after %v: %s", took, line)
				}
			}
		}
	}
	t.Logf("the longest command took %v", took)
}

// lineOf returns the line about another node in n's CLUSTER NODES.
func lineOf(n, about *testkit.Server) string {
	for line := range strings.SplitSeq(n.Do("CLUSTER", "NODES").Text, "\n") {
		if strings.Contains(line, fmt.Sprintf(":%d@", about.Port)) {
			return line
		}
	}
	return ""
}

// TestTLS: the bus and replication use TLS. Clients with and without TLS get the right ports.
func TestTLS(t *testing.T) {
	t.Parallel()
	certificates := testkit.NewCertificates(t)
	var nodes []*testkit.Server
	var tlsPorts, busPorts []int
	for range 3 {
		port, busPort := testkit.FreePort(t), testkit.FreePort(t)
		args := append([]string{"--tls-cluster", "yes", "--cluster-port", strconv.Itoa(busPort)},
			certificates.Following(port)...)
		nodes, tlsPorts, busPorts = append(nodes, node(t, false, args...)), append(tlsPorts, port), append(busPorts, busPort)
	}
	nodes[0].Do("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
	nodes[1].Do("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
	for i := range 2 {
		if v := nodes[2].Do("CLUSTER", "MEET", "127.0.0.1", tlsPorts[i], busPorts[i]); v.Text != "OK" {
			t.Fatal(v)
		}
	}
	for _, n := range nodes {
		testkit.Until(t, testkit.Slowly(patience), "every node sees a well cluster", func() error { return well(n, 3) })
	}
	id := nodes[0].Do("CLUSTER", "MYID").Text
	testkit.Until(t, testkit.Slowly(patience), "a replica", func() error {
		v, err := nodes[2].Ask("CLUSTER", "REPLICATE", id)
		return errors.Join(err, v.Err())
	})
	synced(t, nodes[2])
	if line := lineOf(nodes[1], nodes[0]); !strings.HasPrefix(line, id) {
		t.Errorf("clients without TLS are not shown the plain port: %q", line)
	}
	plain, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", busPorts[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	_, _ = plain.Write(make([]byte, 4096))
	_ = plain.SetReadDeadline(time.Now().Add(testkit.Slowly(20 * time.Second)))
	buffer := make([]byte, 64)
	for err == nil {
		_, err = plain.Read(buffer)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a peer without TLS is kept")
	}
}

// TestPortTooHigh: if the bus port would exceed the highest port, the node reports it before it listens, even if its
// own port is in use. It leaves nothing that would prevent a start with a valid port.
func TestPortTooHigh(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	taken, err := listenAbove(55535)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	bad := testkit.Launch(t, testkit.Spec{NoWait: true, Dir: dir, Port: port, Args: []string{"--cluster-enabled", "yes"}})
	bad.Crashes()
	if code := bad.Wait(testkit.Slowly(20 * time.Second)); code != 1 || !strings.Contains(bad.Log(),
		"port number too high") {
		t.Fatalf("the node has ended with %d: %s", code, bad.Log())
	}
	good := testkit.Launch(t, testkit.Spec{Dir: dir, Args: []string{"--cluster-enabled", "yes", "--cluster-port",
		strconv.Itoa(testkit.FreePort(t))}})
	if f := info(good); f["cluster_known_nodes"] != "1" {
		t.Errorf("%v", f)
	}
}

// listenAbove listens on a loopback port above low.
func listenAbove(low int) (l net.Listener, err error) {
	for range 50 {
		port := low + 1 + rand.IntN(65535-low)
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return l, nil
		}
	}
	return nil, err
}

// TestNodeThatCannotSaveEnds: a node that cannot replace its nodes.conf replies to no claim, and exits.
func TestNodeThatCannotSaveEnds(t *testing.T) {
	t.Parallel()
	n := node(t, false)
	n.Crashes()
	file := n.File("nodes.conf")
	if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o755)); err != nil {
		t.Fatal(err)
	}
	if v, err := n.Ask("CLUSTER", "ADDSLOTS", 1); err == nil {
		t.Errorf("the claim is answered by %v", v)
	}
	if code := n.Wait(testkit.Slowly(20 * time.Second)); code != 1 ||
		!strings.Contains(n.Log(), "can't update cluster config file") {
		t.Errorf("the node has ended with %d: %s", code, n.Log())
	}
}

// TestStrangerAtAnAddress: when a node of another cluster appears at a node's address, its epochs are ignored. The node
// that was at the address keeps its slots and its epoch.
func TestStrangerAtAnAddress(t *testing.T) {
	t.Parallel()
	nodes := []*testkit.Server{node(t, false), node(t, false), node(t, false)}
	create(t, nodes, 0)
	a, b := nodes[0], nodes[1]
	before := strings.Fields(lineOf(a, b))
	stranger := node(t, false)
	stranger.Do("CLUSTER", "SET-CONFIG-EPOCH", 1000)
	stranger.Terminate()
	bus := busPortOf(b)
	b.Kill()
	testkit.Launch(t, testkit.Spec{Dir: stranger.Dir, Port: b.Port, Args: []string{"--cluster-enabled", "yes",
		"--cluster-node-timeout", strconv.Itoa(nodeTimeoutMs), "--cluster-port", fmt.Sprint(bus)}})
	var after []string
	testkit.Until(t, testkit.Slowly(patience), "no node has the address", func() error {
		for line := range strings.SplitSeq(a.Do("CLUSTER", "NODES").Text, "\n") {
			if strings.HasPrefix(line, before[0]) {
				after = strings.Fields(line)
			}
		}
		if !strings.Contains(after[2], "noaddr") {
			return errors.New(after[2])
		}
		return nil
	})
	if after[6] != before[6] || !slices.Equal(after[8:], before[8:]) {
		t.Errorf("%v\nbefore: %v", after, before)
	}
	if f := info(a); f["cluster_current_epoch"] != "3" || f["cluster_known_nodes"] != "3" {
		t.Errorf("%v", f)
	}
}

// TestAStuckCoreIsFailed: a core that stays in one turn for more than ten timeouts cannot serve. Its heartbeats end,
// and the other nodes mark it as failed while the turn still lasts.
func TestAStuckCoreIsFailed(t *testing.T) {
	nodes := []*testkit.Server{node(t, false), node(t, false), node(t, false)}
	create(t, nodes, 0)
	nodes[0].Do("CONFIG", "SET", "cluster-node-timeout", 100) // its own timeout; a turn of ten timeouts is too long
	for _, n := range nodes[1:] {
		n.Do("CONFIG", "SET", "cluster-node-timeout", 1000) // so that a slow machine is not taken for a failure
	}
	slow := nodes[0].Dial()
	defer slow.Close()
	slow.SetTimeout(testkit.Slowly(2 * time.Minute))
	for keys, failed := 4_000_000, false; !failed; keys *= 2 {
		if keys > 16_000_000 {
			t.Fatal("no command took long enough, or no node calls it failed")
		}
		slow.Must("FLUSHALL")
		ended := make(chan error, 1)
		go func() {
			_, err := slow.Do("DEBUG", "POPULATE", keys, "stuck")
			ended <- err
		}()
		for over := false; !over; {
			failed = failed || strings.Contains(lineOf(nodes[1], nodes[0]), ",fail ")
			select {
			case err := <-ended:
				if over = true; err != nil {
					t.Fatal(err)
				}
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	for _, n := range nodes {
		n.Do("CONFIG", "SET", "cluster-node-timeout", nodeTimeoutMs)
	}
	testkit.Until(t, testkit.Slowly(patience), "it is taken back", func() error { return well(nodes[1], 3) })
}

// TestIPv6: the bus and redirections work between nodes that know each other by IPv6 addresses.
func TestIPv6(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("this host has no IPv6")
	}
	l.Close()
	both := []string{"--bind", "127.0.0.1 ::1"}
	nodes := []*testkit.Server{node(t, false, both...), node(t, true, both...)}
	nodes[0].Do("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
	nodes[1].Do("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
	nodes[0].Do("CLUSTER", "MEET", "::1", nodes[1].Port, busPortOf(nodes[1]))
	for i, n := range nodes {
		testkit.Until(t, testkit.Slowly(patience), "every node sees a well cluster", func() error { return well(n, 2) })
		other := nodes[1-i]
		key := []string{"bar", "foo"}[1-i] // slots 5061 and 12182
		want := fmt.Sprintf(" ::1:%d", other.Port)
		if v, err := n.Ask("GET", key); err != nil || !strings.HasPrefix(v.Text, "MOVED") ||
			!strings.HasSuffix(v.Text, want) {
			t.Errorf("%s is answered by %v, %v, not %q", key, v, err, want)
		}
	}
	nodes[0].Terminate()
	nodes[0].Restart()
	testkit.Until(t, testkit.Slowly(patience), "nodes.conf has the address", func() error { return well(nodes[0], 2) })
}
