package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// The tests in this file play the target of a move, and check how its source ends the move.

// A taker is a test that plays the target of a move.
type taker struct {
	t  *testing.T
	in net.Listener
	*respclient.Client
}

// take makes a node move the slots up to lastMoving to the test, which listens in the place of another node.
func take(t *testing.T, from, to *testkit.Server) *taker {
	t.Helper()
	in, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	port := in.Addr().(*net.TCPAddr).Port
	to.Do("CONFIG", "SET", "cluster-announce-port", port)
	testkit.Until(t, testkit.Slowly(patience), "the source knows the other port", func() error {
		return testkit.Equal(strings.Contains(from.Do("CLUSTER", "NODES").Text, fmt.Sprintf(":%d@", port)), true)
	})
	from.Do("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, lastMoving, "NODE", to.Do("CLUSTER", "MYID").Text)
	conn, err := in.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s := &taker{t, in, respclient.New(conn)}
	s.SetTimeout(testkit.Slowly(patience))
	s.hears("ESTABLISH")
	s.SendRaw([]byte("+OK\r\n"))
	s.hears("SNAPSHOT-EOF")
	return s
}

// hears reads the source's messages, up to a given one.
func (s *taker) hears(word string) {
	s.t.Helper()
	if err := s.Flush(); err != nil {
		s.t.Fatal(err)
	}
	for {
		v, err := s.Receive()
		if err != nil {
			s.t.Fatalf("the source did not say %s: %v", word, err)
		}
		if len(v.Elems) > 2 && v.Elems[0].Text == "CLUSTER" && v.Elems[2].Text == word {
			return
		}
	}
}

// granted requests the hand-over, and returns when the source has granted it.
func (s *taker) granted() {
	s.t.Helper()
	s.Send("CLUSTER", "SYNCSLOTS", "REQUEST-PAUSE")
	s.hears("PAUSED")
	s.Send("CLUSTER", "SYNCSLOTS", "REQUEST-FAILOVER")
	s.hears("FAILOVER-GRANTED")
}

// ownEpoch returns a node's own configuration epoch.
func ownEpoch(t *testing.T, n *testkit.Server) int {
	t.Helper()
	epoch, err := strconv.Atoi(info(n)["cluster_my_epoch"])
	if err != nil {
		t.Fatal(err)
	}
	return epoch
}

// TestRestoreAtHandOver: a RESTORE that works outside the core's turns ends after the slot was handed over. It is
// refused, because the new owner would not have its key.
func TestRestoreAtHandOver(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", "", "--cluster-manual-failover-timeout", "60000"}, testkit.Ours, testkit.Ours)
	from := nodes[0]
	members := []any{"ZADD", "{1}z"}
	for i := range 200_000 {
		members = append(members, i, fmt.Sprint("member", i))
	}
	from.Do(members...)
	payload := from.Do("DUMP", "{1}z").Text
	from.Do("DEL", "{1}z")
	client, other := from.Dial(), from.Dial()
	for _, link := range []*respclient.Client{client, other} {
		link.SetTimeout(testkit.Slowly(patience))
	}
	send := func(link *respclient.Client, args ...any) {
		t.Helper()
		link.Send(args...)
		if err := link.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	isHeld := func() bool { return from.InfoInt("clients", "blocked_clients") == 1 }
	for try := 0; ; try++ { // until the pause comes during RESTORE: then a client of its key waits, before and after
		client.Must("PING")
		send(client, "RESTORE", "{1}copy", 0, payload, "REPLACE")
		for range 1000 { // another loop may still be reading it
			if strings.Contains(from.Do("CLIENT", "LIST").Text, "cmd=restore") {
				break
			}
		}
		send(other, "EXISTS", "{1}copy")
		held := false
		for range 20 {
			if held = isHeld(); held {
				break
			}
		}
		if from.Do("CLIENT", "PAUSE", 600_000, "WRITE"); held && isHeld() {
			break
		}
		from.Do("CLIENT", "UNPAUSE")
		for _, link := range []*respclient.Client{client, other} {
			if _, err := link.Receive(); err != nil || try == 100 {
				t.Fatalf("RESTORE was too fast: %v", err)
			}
		}
	}
	s := take(t, from, nodes[1])
	s.granted()
	from.Do("CLIENT", "UNPAUSE")
	v, err := client.Receive()
	if err != nil || !strings.HasPrefix(v.Text, "TRYAGAIN ") {
		t.Errorf("RESTORE after the hand-over: %+v, %v", v, err)
	}
}

// TestCancelAfterGrant: a move whose hand-over was granted can no longer be cancelled, because the target may have
// taken over.
func TestCancelAfterGrant(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", "", "--cluster-manual-failover-timeout", "60000"}, testkit.Ours, testkit.Ours)
	from := nodes[0]
	take(t, from, nodes[1]).granted()
	if v, err := from.Ask("CLUSTER", "CANCELSLOTMIGRATIONS"); err != nil || v.Text != "ERR No migrations ongoing" {
		t.Errorf("CANCELSLOTMIGRATIONS: %+v, %v", v, err)
	}
	if state := moveState(from, "state"); state != "failover-granted" {
		t.Errorf("the move is %s", state)
	}
}

// TestFlushAfterGrant: the target may have the slots after a source has granted the hand-over, so that FLUSHALL waits,
// and a script cannot run it. When the target does not claim the slots, the source raises its epoch. FLUSHALL removes
// their keys then, and a later claim of the target does not win.
func TestFlushAfterGrant(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", "", "--cluster-manual-failover-timeout", "5000"}, testkit.Ours, testkit.Ours)
	from := nodes[0]
	from.Do("SET", "{1}k", "v")
	was := ownEpoch(t, from)
	take(t, from, nodes[1]).granted()
	link := from.Dial()
	link.SetTimeout(testkit.Slowly(patience))
	link.Send("FLUSHALL")
	if err := link.Flush(); err != nil {
		t.Fatal(err)
	}
	from.AwaitInfo(testkit.Slowly(patience), "clients", "blocked_clients", "1")
	v, err := from.Ask("EVAL", "return redis.call('FLUSHALL')", 0)
	if err != nil || !strings.HasPrefix(v.Text, "TRYAGAIN") {
		t.Errorf("FLUSHALL in a script: %+v, %v", v, err)
	}
	if state := moveState(from, "state"); state != "failover-granted" {
		t.Errorf("the move is %s", state)
	}
	testkit.Until(t, testkit.Slowly(patience), "the move has failed",
		func() error { return testkit.Equal(moveState(from, "state"), "failed") })
	if now := ownEpoch(t, from); now <= was+1 {
		t.Errorf("the epoch was %d, and is %d", was, now)
	}
	if v, err = link.Receive(); err != nil || v.Text != "OK" || from.Do("DBSIZE").Int != 0 {
		t.Errorf("FLUSHALL: %+v, %v", v, err)
	}
}

// voters makes a cluster of nodes. The first three are primaries, of which the first has all slots but two.
func voters(t *testing.T, kinds ...string) (nodes []*testkit.Server) {
	t.Helper()
	nodes = owners(t, []string{"--save", "", "--cluster-manual-failover-timeout", "1000"}, kinds...)
	spread(t, nodes)
	return nodes
}

// spread gives the second and the third of some nodes a slot of the first, so that there are three voters.
func spread(t *testing.T, nodes []*testkit.Server) {
	t.Helper()
	for i, n := range nodes[1:3] {
		slot, id := lastMoving+2+i, n.Do("CLUSTER", "MYID").Text
		nodes[0].Do("CLUSTER", "SETSLOT", slot, "NODE", id)
		n.Do("CLUSTER", "SETSLOT", slot, "NODE", id)
	}
	for _, n := range nodes {
		testkit.Until(t, testkit.Slowly(patience), "all nodes know the primaries",
			func() error { return testkit.Equal(info(n)["cluster_size"], "3") })
	}
}

// TestSourceStandsStillAfterGrant: the source of a move stops when it has granted the hand-over, and its replica is
// elected. When the source continues, its hold is over, and it has not heard of the election. It follows its replica,
// which keeps what it has confirmed meanwhile.
func TestSourceStandsStillAfterGrant(t *testing.T) {
	t.Parallel()
	nodes := voters(t, testkit.Ours, testkit.Ours, testkit.Ours, testkit.Ours)
	from, heir := nodes[0], nodes[3]
	heir.Do("CLUSTER", "REPLICATE", from.Do("CLUSTER", "MYID").Text)
	synced(t, heir)
	for _, n := range nodes {
		testkit.Until(t, testkit.Slowly(patience), "all nodes know the replica", func() error {
			return testkit.Equal(strings.Count(n.Do("CLUSTER", "NODES").Text, "slave "), 1)
		})
	}
	take(t, from, nodes[1]).granted()
	from.Signal(syscall.SIGSTOP)
	testkit.Until(t, testkit.Slowly(patience), "the replica takes over, and confirms a write", func() error {
		v, err := heir.Ask("SET", "{1}kept", "v")
		return errors.Join(err, v.Err())
	})
	from.Signal(syscall.SIGCONT)
	testkit.Until(t, testkit.Slowly(patience), "one of the two follows the other", func() error {
		if from, heir := is(from, "role", "slave"), is(heir, "role", "slave"); from != nil && heir != nil {
			return errors.Join(from, heir)
		}
		return nil
	})
	testkit.Until(t, testkit.Slowly(patience), "the move is over", func() error { return movesOver(from) })
	if err := errors.Join(is(from, "role", "slave"), role(heir)); err != nil {
		t.Fatal(err)
	}
	if v := heir.Do("GET", "{1}kept"); v.Text != "v" {
		t.Errorf("the heir has %+v", v)
	}
}

// TestSourceInAMinorityAfterGrant: the other primaries stop when the source of a move has granted the hand-over. The
// source does not decide about the slots, and a client of them hears that the cluster is down. When the others
// continue, the source keeps the slots, and serves clients.
func TestSourceInAMinorityAfterGrant(t *testing.T) {
	t.Parallel()
	nodes := voters(t, testkit.Ours, testkit.Ours, testkit.Ours)
	from, was := nodes[0], ownEpoch(t, nodes[0])
	from.Do("CONFIG", "SET", "cluster-manual-failover-timeout", 3000) // the others stop before the hold ends
	take(t, from, nodes[1]).granted()
	for _, n := range nodes[1:] {
		n.Signal(syscall.SIGSTOP)
	}
	client := from.Dial()
	client.SetTimeout(testkit.Slowly(patience))
	v, err := client.Do("SET", "{1}key", "v")
	if err != nil || !strings.HasPrefix(v.Text, "CLUSTERDOWN ") {
		t.Errorf("a client that waits gets %+v, %v", v, err)
	}
	testkit.Until(t, testkit.Slowly(patience), "the hold ends", func() error {
		return testkit.Equal(strings.Contains(from.Log(), "Asking the other primaries"), true)
	})
	if state, now := moveState(from, "state"), ownEpoch(t, from); state != "failover-granted" || now != was {
		t.Errorf("in the minority the move is %s, and the epoch is %d", state, now)
	}
	for _, n := range nodes[1:] {
		n.Signal(syscall.SIGCONT)
	}
	testkit.Until(t, testkit.Slowly(patience), "the source serves the slots", func() error {
		v, err := from.Ask("SET", "{1}key", "v")
		return errors.Join(err, v.Err())
	})
	if state, now := moveState(from, "state"), ownEpoch(t, from); state != "failed" || now <= was+1 {
		t.Errorf("the move is %s, and the epoch is %d", state, now)
	}
}

// TestAssignedInAMove: an operator assigns a slot to the target of a move that is under way. The move fails, and later
// writes of clients stay.
func TestAssignedInAMove(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", ""}, testkit.Ours, testkit.Ours, testkit.Ours)
	from, to, replica := nodes[0], nodes[1], nodes[2]
	replica.Do("CLUSTER", "REPLICATE", to.Do("CLUSTER", "MYID").Text)
	synced(t, replica)
	s := establish(t, from, to, 'a')
	var b bytes.Buffer
	for i := range 100_000 {
		b.Reset()
		fmt.Fprintf(&b, "{1}staged%d", i)
		s.link.Send("SET", b.String(), i)
	}
	s.bring()
	slot := to.Do("CLUSTER", "KEYSLOT", "{1}").Int
	for _, n := range []*testkit.Server{to, from} {
		n.Do("CLUSTER", "SETSLOT", slot, "NODE", to.Do("CLUSTER", "MYID").Text)
	}
	testkit.Until(t, testkit.Slowly(patience), "the target serves the slot", func() error {
		v, err := to.Ask("SET", "{1}written", "v")
		if err != nil {
			return err
		}
		return testkit.Equal(v.Text, "OK")
	})
	for _, n := range []*testkit.Server{to, replica} {
		testkit.Until(t, testkit.Slowly(patience), "the move is over at both", func() error { return movesOver(n) })
	}
	if v := to.Do("GET", "{1}written"); v.Text != "v" {
		t.Errorf("what was written after the slot was assigned: %+v", v)
	}
	link := replica.Dial()
	link.Must("READONLY")
	testkit.Until(t, testkit.Slowly(patience), "the replica has the same keys", func() error {
		if v, err := link.Do("GET", "{1}written"); err != nil || v.Text != "v" {
			return fmt.Errorf("the replica has %+v", v)
		}
		return testkit.Equal(replica.Do("DBSIZE").Int, to.Do("DBSIZE").Int)
	})
}

// TestMessagesMove: producers add entries (XADD IDMP) to a stream while its slot moves. The target adds the entries
// with their IDs, as a replica does.
func TestMessagesMove(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", ""}, testkit.Ours, testkit.Ours)
	from, to := nodes[0], nodes[1]
	s := establish(t, from, to, 'a')
	s.bring()
	if n := to.InfoInt("memory", "mem_cluster_slot_import"); n == 0 {
		t.Error("the source's connection takes no memory")
	}
	s.say("XADD", "{1}x", "IDMP", "producer", "message", "1-1", "f", "v")
	s.say("CLUSTER", "SYNCSLOTS", "PAUSED")
	s.hears("REQUEST-FAILOVER")
	s.say("CLUSTER", "SYNCSLOTS", "FAILOVER-GRANTED")
	moved(t, to, "success")
	if n := to.InfoInt("memory", "mem_cluster_slot_import"); n != 0 {
		t.Errorf("connections of no move take %d bytes", n)
	}
	if v := to.Do("XINFO", "STREAM", "{1}x"); !strings.Contains(v.String(), "1-1") {
		t.Errorf("the target has the stream %v", v)
	}
}

// TestOtherDatabaseFlushedInAMove: another database is flushed at the target of a move. The move fails. The keys of the
// move stay hidden on the replica until the target has removed them.
func TestOtherDatabaseFlushedInAMove(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", "", "--cluster-databases", "2"}, testkit.Ours, testkit.Ours, testkit.Ours)
	from, to, replica := nodes[0], nodes[1], nodes[2]
	replica.Do("CLUSTER", "REPLICATE", to.Do("CLUSTER", "MYID").Text)
	synced(t, replica)
	establish(t, from, to, 'a').bring()
	link := to.Dial()
	for _, request := range [][]any{{"MULTI"}, {"CLIENT", "PAUSE", 600_000, "WRITE"}, {"SELECT", 1}, {"FLUSHDB"},
		{"EXEC"}} {
		link.Must(request...) // the pause delays the removal of the keys
	}
	testkit.Until(t, testkit.Slowly(patience), "the replica has seen the flush", func() error {
		return testkit.Equal(replica.InfoInt("replication", "slave_repl_offset"),
			to.InfoInt("replication", "master_repl_offset"))
	})
	showsNone(t, replica)
	to.Do("CLIENT", "UNPAUSE")
	for _, n := range []*testkit.Server{to, replica} {
		testkit.Until(t, testkit.Slowly(patience), "the move has failed", func() error {
			return testkit.Equal(moveState(n, "state"), "failed")
		})
		showsNone(t, n)
	}
}

// accept waits for a connection to a listener.
func accept(t *testing.T, in net.Listener) *respclient.Client {
	t.Helper()
	conn, err := in.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := respclient.New(conn)
	c.SetTimeout(testkit.Slowly(patience))
	return c
}

// listen returns a listener that the test's end closes, and its port.
func listen(t *testing.T) (net.Listener, int) {
	t.Helper()
	in, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	return in, in.Addr().(*net.TCPAddr).Port
}

// TestMigrateAtHandOver: MIGRATE works on a key while its slot is handed over as a whole. It removes nothing, because
// the new owner would keep the key, and its client gets an error.
func TestMigrateAtHandOver(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", "", "--cluster-manual-failover-timeout", "60000"}, testkit.Ours, testkit.Ours)
	from := nodes[0]
	from.Do("SET", "{1}key", "v")
	in, port := listen(t)
	client := from.Dial()
	client.SetTimeout(testkit.Slowly(patience))
	client.Send("MIGRATE", "127.0.0.1", port, "{1}key", 0, 600_000)
	if err := client.Flush(); err != nil {
		t.Fatal(err)
	}
	other := accept(t, in)
	replies := ""
	for word := ""; word != "RESTORE-ASKING"; replies += "+OK\r\n" { // SELECT may come before it
		v, err := other.Receive()
		if err != nil {
			t.Fatal(err)
		}
		word = v.Elems[0].Text
	}
	take(t, from, nodes[1]).granted()
	other.SendRaw([]byte(replies))
	if err := other.Flush(); err != nil {
		t.Fatal(err)
	}
	if v, err := client.Receive(); err != nil || !strings.HasPrefix(v.Text, "TRYAGAIN ") {
		t.Errorf("MIGRATE after the hand-over: %+v, %v", v, err)
	}
	if n := from.Do("DBSIZE").Int; n != 1 {
		t.Errorf("%d keys are left, not 1", n)
	}
}

// TestCancelBeforeTheImport: a task is cancelled before the slots' owner has answered, or before its move has come. The
// move is refused when it comes. The next one is welcome.
func TestCancelBeforeTheImport(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", ""}, testkit.Ours, testkit.Ours)
	from, to := nodes[0], nodes[1]
	in, port := listen(t) // in the place of the source
	from.Do("CONFIG", "SET", "cluster-announce-port", port)
	testkit.Until(t, testkit.Slowly(patience), "the target knows the other port", func() error {
		return testkit.Equal(strings.Contains(to.Do("CLUSTER", "NODES").Text, fmt.Sprintf(":%d@", port)), true)
	})
	for _, answered := range []bool{false, true} {
		client := to.Dial()
		client.SetTimeout(testkit.Slowly(patience))
		client.Send("CLUSTER", "MIGRATION", "IMPORT", 0, 16382)
		if err := client.Flush(); err != nil {
			t.Fatal(err)
		}
		source := accept(t, in)
		if _, err := source.Receive(); err != nil {
			t.Fatal(err)
		}
		answer := func() {
			source.SendRaw([]byte("+OK\r\n*0\r\n")) // to MIGRATESLOTS, and to GETSLOTMIGRATIONS
			if err := source.Flush(); err != nil {
				t.Fatal(err)
			}
			if v, err := client.Receive(); err != nil || len(v.Text) != 40 {
				t.Fatalf("IMPORT: %+v, %v", v, err)
			}
		}
		if answered {
			answer()
		}
		if n := to.Do("CLUSTER", "MIGRATION", "CANCEL", "ALL").Int; n != 1 {
			t.Errorf("answered %t: CANCEL ends %d tasks", answered, n)
		}
		if !answered {
			answer()
		}
		request := []any{"CLUSTER", "SYNCSLOTS", "ESTABLISH", "SOURCE", from.Do("CLUSTER", "MYID").Text, "NAME",
			strings.Repeat("a", 40), "SLOTSRANGE", 0, 16382}
		if v, err := to.Ask(request...); err != nil || v.Text != "ERR This move was cancelled before it began" {
			t.Errorf("answered %t: ESTABLISH of a cancelled task: %+v, %v", answered, v, err)
		}
		establish(t, from, to, 'b').link.Close()
		testkit.Until(t, testkit.Slowly(patience), "the next move has come and gone",
			func() error { return testkit.Equal(moveState(to, "state"), "failed") })
	}
}

// TestReplicaLoadsInAMove: slots move to the primary of a replica, which is told to load its files again. The files may
// lack keys that the stream has brought, so it refuses. It shows none before the hand-over, and has all afterwards.
func TestReplicaLoadsInAMove(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", "", "--enable-debug-command", "yes", "--appendonly", "yes"}, testkit.Ours,
		testkit.Ours, testkit.Ours)
	from, to, replica := nodes[0], nodes[1], nodes[2]
	replica.Do("CLUSTER", "REPLICATE", to.Do("CLUSTER", "MYID").Text)
	synced(t, replica)
	s := establish(t, from, to, 'a')
	s.bring()
	caughtUp := func() {
		t.Helper()
		testkit.Until(t, testkit.Slowly(patience), "the replica has the stream", func() error {
			has := replica.Info("replication")["slave_repl_offset"]
			return errors.Join(testkit.Equal(to.Info("replication")["master_repl_offset"], has),
				testkit.Equal(has != "", true))
		})
	}
	caughtUp()
	for i, load := range []string{"RELOAD", "RELOAD NOSAVE", "LOADAOF"} {
		request := []any{"DEBUG"}
		for _, word := range strings.Fields(load) {
			request = append(request, word)
		}
		v, err := replica.Ask(request...)
		if err != nil || v.Err() == nil {
			t.Errorf("DEBUG %s: %+v, %v", load, v, err)
		}
		before := to.Info("replication")["master_repl_offset"]
		s.say("SET", fmt.Sprintf("{%d}later", i), i)
		testkit.Until(t, testkit.Slowly(patience), "the target has the next key", func() error {
			return testkit.Equal(to.Info("replication")["master_repl_offset"] != before, true)
		})
		caughtUp()
		showsNone(t, replica)
	}
	s.say("CLUSTER", "SYNCSLOTS", "PAUSED")
	s.hears("REQUEST-FAILOVER")
	s.say("CLUSTER", "SYNCSLOTS", "FAILOVER-GRANTED")
	moved(t, to, "success")
	caughtUp()
	if a, b := to.Do("DEBUG", "DIGEST").Text, replica.Do("DEBUG", "DIGEST").Text; a != b {
		t.Errorf("the target has %s, its replica %s", a, b)
	}
	if n := to.Do("DBSIZE").Int; n < 200 {
		t.Errorf("%d keys have moved", n)
	}
}

// moreThanNodesConf is a size of a file that nodes.conf does not have.
const moreThanNodesConf = 64 << 10

// TestHandOverWaitsForTheLog: with appendfsync always the target asks for the hand-over when its log has all changes.
// If the log cannot take the last one, the target ends before it has asked. So it claims no slots whose keys it lacks.
func TestHandOverWaitsForTheLog(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", "", "--appendonly", "yes", "--appendfsync", "always"}, testkit.Ours,
		testkit.Ours)
	from, to := nodes[0], nodes[1]
	s := establish(t, from, to, 'a')
	s.say("SET", "{1}large", strings.Repeat("x", 4*moreThanNodesConf))
	s.bring()
	limit := unix.Rlimit{Cur: moreThanNodesConf, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(to.PID, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	s.link.Send("SET", "{1}late", "v")
	s.say("CLUSTER", "SYNCSLOTS", "PAUSED")
	for {
		v, err := s.link.Receive()
		if err != nil {
			break
		}
		if len(v.Elems) == 3 && v.Elems[2].Text == "REQUEST-FAILOVER" {
			t.Fatal("the target has asked for the hand-over before its log had the last change")
		}
	}
	to.Wait(testkit.Slowly(patience))
	if log := to.Log(); !strings.Contains(log, "File too large") {
		t.Error("the target has ended for another reason")
	}
	to.Restart()
	testkit.Until(t, testkit.Slowly(patience), "the move has failed",
		func() error { return testkit.Equal(moveState(to, "state"), "failed") })
	showsNone(t, to)
}

// TestFullDiskAtHandOver: with appendfsync everysec or no the disk of the target's log is full when clients are held.
// The target does not ask for the hand-over, and says why. When there is room again, the next attempt succeeds.
func TestFullDiskAtHandOver(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"everysec", "no"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			nodes := owners(t, []string{"--save", "", "--appendonly", "yes", "--appendfsync", policy}, testkit.Ours,
				testkit.Ours)
			from, to := nodes[0], nodes[1]
			s := establish(t, from, to, 'a')
			s.say("SET", "{1}large", strings.Repeat("x", 4*moreThanNodesConf))
			s.bring()
			limit := func(size uint64) {
				files := unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}
				if err := unix.Prlimit(to.PID, unix.RLIMIT_FSIZE, &files, nil); err != nil {
					t.Fatal(err)
				}
			}
			limit(moreThanNodesConf)
			s.link.Send("SET", "{1}late", "v")
			s.say("CLUSTER", "SYNCSLOTS", "PAUSED")
			for {
				v, err := s.link.Receive()
				if err != nil {
					break
				}
				if len(v.Elems) == 3 && v.Elems[2].Text == "REQUEST-FAILOVER" {
					t.Fatal("the target has asked for the hand-over before its log had the last change")
				}
			}
			moved(t, to, "failed")
			if message := moveState(to, "message"); !strings.Contains(message, "File too large") {
				t.Errorf("the move says %q", message)
			}
			limit(unix.RLIM_INFINITY)
			showsNone(t, to)
			from.Do("SET", "key", "value")
			testkit.Until(t, testkit.Slowly(patience), "the next attempt succeeds", func() error {
				v, err := from.Ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, 16382, "NODE", to.Do("CLUSTER", "MYID").Text)
				if err = errors.Join(err, v.Err()); err != nil {
					return err
				}
				testkit.Until(t, testkit.Slowly(patience), "the attempt ends", func() error { return movesOver(from) })
				return testkit.Equal(moveState(from, "state"), "success")
			})
			if v := to.Do("GET", "key"); v.Text != "value" {
				t.Errorf("the key is %+v", v)
			}
		})
	}
}

// TestMovesAreHeardBySourcesOnly: a target of a move works at the source's commands all the time, so that its duties
// run in the source's turns. Its messages reach the source, and another client gets the reply to each of its requests.
func TestMovesAreHeardBySourcesOnly(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", ""}, testkit.Ours, testkit.Ours)
	to := nodes[1]
	s := establish(t, nodes[0], to, 'a')
	stop := make(chan struct{})
	var others sync.WaitGroup
	defer others.Wait()
	defer close(stop)
	client := to.Dial()
	others.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if v, err := client.Do("ECHO", n); err != nil || v.Text != strconv.Itoa(n) {
				t.Errorf("ECHO %d: %+v, %v", n, v, err)
				return
			}
		}
	})
	others.Go(func() {
		sets := bytes.Repeat([]byte("*3\r\n$3\r\nSET\r\n$4\r\n{1}k\r\n$1\r\nv\r\n"), 1000)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := s.link.Conn().Write(sets); err != nil {
				t.Errorf("the link to the target: %v", err)
				return
			}
		}
	})
	for range 2 { // there is one each second
		s.hears("ACK")
	}
}
