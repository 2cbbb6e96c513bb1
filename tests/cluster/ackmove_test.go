package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"spindle/tests/testkit"
)

// TestHandOverWaitsForAcks: a client of the source waits for a replica by CLIENT ACK; no server has
// min-replicas-to-ack. The target does not take the slots before its own replica has the keys.
func TestHandOverWaitsForAcks(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", "", "--ack-timeout", "600000"}, testkit.Ours, testkit.Ours, testkit.Ours)
	from, to, replica := nodes[0], nodes[1], nodes[2]
	replica.Do("CLUSTER", "REPLICATE", to.Do("CLUSTER", "MYID").Text)
	synced(t, replica)

	s := establish(t, from, to, 'a')
	s.say("CLIENT", "ACK", 1) // the source would say so first
	s.bring()
	stop(t, replica)
	to.Do("CONFIG", "SET", "ack-timeout", "500") // only now: a slow machine may take longer
	s.link.Send("SET", "{1}late", "v")
	s.say("CLUSTER", "SYNCSLOTS", "PAUSED")
	for {
		v, err := s.link.Receive()
		if err != nil {
			break
		}
		if len(v.Elems) == 3 && v.Elems[2].Text == "REQUEST-FAILOVER" {
			t.Fatal("the target has asked for the hand-over, and its replica lacks a key")
		}
	}
	moved(t, to, "failed")
	if message := moveState(to, "message"); message != "Too few replicas of the target have the keys: clients wait for 1" {
		t.Errorf("the move says %q", message)
	}
	to.Do("CONFIG", "SET", "ack-timeout", "600000")
	replica.Signal(syscall.SIGCONT)

	client := from.Dial()
	client.Must("CLIENT", "ACK", 1)
	from.Do("SET", "key", "value")
	testkit.Until(t, testkit.Slowly(patience), "the next attempt succeeds", func() error {
		v, err := from.Ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, 16382, "NODE", to.Do("CLUSTER", "MYID").Text)
		if err != nil || v.Err() != nil {
			return fmt.Errorf("%v %v", err, v.Err())
		}
		testkit.Until(t, testkit.Slowly(patience), "the attempt ends", func() error { return movesOver(from) })
		return testkit.Equal(moveState(from, "state"), "success")
	})
	link := replica.Dial()
	link.Must("READONLY")
	testkit.Until(t, testkit.Slowly(patience), "the replica serves the key", func() error {
		v, err := link.Do("GET", "key")
		if err != nil {
			return err
		}
		return testkit.Equal(v.Text, "value")
	})
}

// stop suspends a process, and returns when all its threads stand still. The process continues at the test's end.
func stop(t *testing.T, s *testkit.Server) {
	t.Helper()
	s.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { s.Signal(syscall.SIGCONT) })
	testkit.Until(t, testkit.Slowly(patience), "all threads stand still", func() error {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.PID))
		for _, task := range tasks {
			stat, readErr := os.ReadFile(task)
			if err = errors.Join(err, readErr); !bytes.Contains(stat, []byte(") T ")) {
				return fmt.Errorf("%s: %v", stat, err)
			}
		}
		return err
	})
}

// TestMoreAcksInAMove: after a move has begun, a client of the source waits for more replicas than the target knows.
// The source does not hand over.
func TestMoreAcksInAMove(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", ""}, testkit.Ours, testkit.Ours)
	from := nodes[0]
	s := take(t, from, nodes[1])
	client := from.Dial()
	client.Must("CLIENT", "ACK", 1)
	s.Send("CLUSTER", "SYNCSLOTS", "REQUEST-PAUSE")
	s.hears("PAUSED")
	s.Send("CLUSTER", "SYNCSLOTS", "REQUEST-FAILOVER")
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	moved(t, from, "failed")
	if message := moveState(from, "message"); message != "Clients wait for more replicas than when the move began" {
		t.Errorf("the move says %q", message)
	}
}
