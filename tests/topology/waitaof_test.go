package topology

import (
	"fmt"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestWaitAOF: WAITAOF counts replicas that have synced their log, and no replica without a log. A client that waits
// for the local log gets an error when that log is switched off.
func TestWaitAOF(t *testing.T) {
	t.Parallel()
	for _, fsync := range []string{"always", "everysec"} {
		s := testkit.Start(t, "--appendonly", "yes", "--appendfsync", fsync)
		r := follow(t, s, false, "--appendonly", "yes", "--appendfsync", fsync)
		online(t, s, 1)
		c := s.Dial()
		for i := range 3 {
			c.Do("SET", "k", i)
			if v, err := c.Do("WAITAOF", 1, 1, 0); err != nil || disks(v) != "1 1" {
				t.Errorf("appendfsync %s: %v, %v", fsync, v, err)
			}
		}
		r.Do("CONFIG", "SET", "appendonly", "no")
		c.Do("SET", "k", "v")
		c.Do("WAITAOF", 1, 0, 0)
		if v, err := c.Do("WAITAOF", 1, 1, 1500); err != nil || disks(v) != "1 0" {
			t.Errorf("appendfsync %s, a replica without a log: %v, %v", fsync, v, err)
		}
	}
	s := testkit.Start(t, "--appendonly", "yes", "--appendfsync", "no")
	c := s.Dial()
	c.Do("SET", "k", "v")
	done := make(chan string, 1)
	go func() {
		v, _ := c.Do("WAITAOF", 1, 0, 0)
		done <- v.Text
	}()
	s.AwaitInfo(testkit.Slowly(20e9), "clients", "blocked_clients", "1")
	s.Do("CONFIG", "SET", "appendonly", "no")
	if got := <-done; got != "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled." {
		t.Errorf("the log was turned off: %s", got)
	}
}

// disks returns WAITAOF's reply as text: the number of local disks, and of replicas' disks.
func disks(v respclient.Value) string {
	if len(v.Elems) != 2 {
		return v.Text
	}
	return fmt.Sprint(v.Elems[0].Int, " ", v.Elems[1].Int)
}

// TestWaitAOFUnderAStricterPolicy: writes from before the change to appendfsync always are synced, too. This needs no
// further write.
func TestWaitAOFUnderAStricterPolicy(t *testing.T) {
	for _, before := range []string{"no", "everysec"} {
		s := testkit.Start(t, "--appendonly", "yes", "--appendfsync", before)
		for i := range 3 {
			s.Do("SET", "k", i)
			s.Do("CONFIG", "SET", "appendfsync", "always")
			if v := s.Do("WAITAOF", 1, 0, testkit.Slowly(20*time.Second).Milliseconds()); v.Elems[0].Int != 1 {
				t.Fatalf("%s made always: WAITAOF %v", before, v)
			}
			s.Do("CONFIG", "SET", "appendfsync", before)
		}
	}
}
