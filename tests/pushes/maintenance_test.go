package pushes

import (
	"fmt"
	"io"
	"strconv"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// listener returns a RESP3 connection that has requested maintenance notifications.
func listener(t *testing.T, s *testkit.Server, words ...string) *link {
	t.Helper()
	l, err := dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	ask := append([]string{"CLIENT", "MAINT_NOTIFICATIONS", "ON"}, words...)
	if err := l.send([]string{"HELLO", "3"}, ask); err != nil {
		t.Fatal(err)
	}
	if _, err := l.read(); err != nil {
		t.Fatal(err)
	}
	expect(t, l, "+OK")
	return l
}

// expect reads the next replies or pushes, and fails the test unless they are want.
func expect(t *testing.T, l *link, want ...string) {
	t.Helper()
	for _, w := range want {
		if got, err := l.read(); err != nil || got != w {
			t.Fatalf("%q (%v), want %q", got, err, w)
		}
	}
}

// pairOf returns a primary and its replica, which has received the whole stream.
func pairOf(t *testing.T) (primary, replica *testkit.Server) {
	t.Helper()
	primary = testkit.Start(t)
	replica = testkit.Start(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", primary.Port))
	primary.AwaitOnline(testkit.Slowly(20*time.Second), 1)
	return primary, replica
}

// TestFailoverIsAnnounced: clients with notifications are told about a FAILOVER and the new primary's address. If they
// then write to the old primary, it does not reply READONLY but closes the connection.
func TestFailoverIsAnnounced(t *testing.T) {
	t.Parallel()
	primary, replica := pairOf(t)
	byIP, same := listener(t, primary, "MOVING-ENDPOINT-TYPE", "internal-ip"), listener(t, primary)
	on := listener(t, replica)
	plain, err := dial(primary.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	off := listener(t, primary)
	off.send([]string{"CLIENT", "MAINT_NOTIFICATIONS", "OFF"})
	expect(t, off, "+OK")

	primary.Do("FAILOVER")
	expect(t, byIP, ">3 FAILING_OVER :1 :15", ">2 FAILED_OVER :2", ">4 MOVING :3 :15 "+replica.Addr)
	expect(t, same, ">3 FAILING_OVER :1 :15", ">2 FAILED_OVER :2", ">4 MOVING :3 :15 _")
	expect(t, on, ">2 FAILED_OVER :1")
	replica.Do("SET", "k", "v")

	write := []string{"SET", "k", "w"}
	same.send(write)
	if got, err := same.read(); err != io.EOF {
		t.Errorf("a write to the old primary: %q, %v", got, err)
	}
	byIP.send([]string{"PING"})
	expect(t, byIP, "+PONG")
	for _, l := range []*link{plain, off} {
		l.send(write)
		expect(t, l, "-READONLY You can't write against a read only replica.")
	}
	late := listener(t, primary)
	late.send(write)
	if got, err := late.read(); err != io.EOF {
		t.Errorf("a write of a client that came after the failover: %q, %v", got, err)
	}

	// The roles are switched back by REPLICAOF, as by a Sentinel.
	primary.Do("REPLICAOF", "NO", "ONE")
	expect(t, byIP, ">2 FAILED_OVER :4")
	replica.Do("REPLICAOF", "127.0.0.1", primary.Port)
	expect(t, on, ">2 FAILED_OVER :2", ">4 MOVING :3 :15 _")
	byIP.send(write)
	expect(t, byIP, "+OK")
}

// TestFailoverIsCalledOff: clients are told that a FAILOVER was aborted, and can still write to this primary.
func TestFailoverIsCalledOff(t *testing.T) {
	t.Parallel()
	primary, replica := pairOf(t)
	l := listener(t, primary)
	replica.Do("CLIENT", "KILL", "TYPE", "master")
	replica.Do("REPLICAOF", "127.0.0.1", "1")
	if v, err := primary.Ask("FAILOVER", "TIMEOUT", "100000"); err == nil && v.Text == "OK" {
		expect(t, l, ">3 FAILING_OVER :1 :15")
		primary.Do("FAILOVER", "ABORT")
		expect(t, l, ">2 FAILED_OVER :2")
	}
	l.send([]string{"SET", "k", "v"})
	expect(t, l, "+OK")
}

// TestShutdownIsAnnounced: clients are told about an orderly shutdown before their connection is closed.
func TestShutdownIsAnnounced(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t)
	l := listener(t, s)
	s.Terminate()
	expect(t, l, ">4 MOVING :1 :15 _")
}

// TestSlotMoveIsAnnounced: clients of the old node are told that a slot moves, and to which node.
func TestSlotMoveIsAnnounced(t *testing.T) {
	t.Parallel()
	bus := testkit.FreePort(t)
	a := testkit.Start(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(testkit.FreePort(t)))
	b := testkit.Start(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus))
	a.Do("CLUSTER", "ADDSLOTS", 7)
	a.Do("CLUSTER", "MEET", "127.0.0.1", b.Port, bus)
	id := b.Do("CLUSTER", "MYID").Text
	testkit.Await(t, testkit.Slowly(20*time.Second), "the nodes to know each other", func() bool {
		v, err := a.Ask("CLUSTER", "SETSLOT", 7, "MIGRATING", id)
		return err == nil && v.Text == "OK"
	})
	a.Do("CLUSTER", "SETSLOT", 7, "STABLE")
	l := listener(t, a)
	a.Do("CLUSTER", "SETSLOT", 7, "MIGRATING", id)
	a.Do("CLUSTER", "SETSLOT", 7, "NODE", id)
	expect(t, l, ">3 SMIGRATING :1 7", fmt.Sprintf(">3 SMIGRATED :2 *1 *3 127.0.0.1:%d 127.0.0.1:%d 7", a.Port, b.Port))
}
