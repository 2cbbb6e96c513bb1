package aof

import (
	"strings"
	"syscall"
	"testing"

	"spindle/tests/testkit/faulty"
)

// TestRewriteConfirms: with appendfsync no, the writes that a rewrite confirms to WAITAOF are on disk. A rewrite
// confirms the writes before its cut. The first rewrite after the log was switched on also confirms the writes until
// its end.
func TestRewriteConfirms(t *testing.T) {
	t.Run("switched on", func(t *testing.T) {
		s, d := begin(t, Never)
		s.Do(s.aof.TurnOff)
		s.waitFor("the log to be off", func() bool { return s.aof.state == off && s.resting() })
		s.step(1)
		s.Do(func() {
			if err := s.aof.TurnOn(); err != nil {
				t.Fatal(err)
			}
		})
		s.step(2)
		s.waitFor("the first rewrite", func() bool { return s.aof.state == on })
		promised := 1 // the rewrite may have ended before step 2
		s.Do(func() {
			if s.aof.Synced(s.cl) {
				promised = 2
			}
		})
		if n := again(t, d.Crash()); n < promised {
			t.Errorf("%d steps of %d after a power cut", n, promised)
		}
	})
	t.Run("log that is on", func(t *testing.T) {
		s, d := begin(t, Never)
		s.step(1)
		s.Do(func() {
			if s.aof.Synced(s.cl) {
				t.Error("a write without a sync is confirmed")
			}
			s.aof.startRewrite()
		})
		s.waitFor("the rewrite", func() bool { return !s.aof.Rewriting() })
		s.Do(func() {
			if !s.aof.Synced(s.cl) {
				t.Error("a write before the cut is not confirmed")
			}
		})
		s.step(2)
		s.Do(func() {
			if s.aof.Synced(s.cl) {
				t.Error("a write after the cut is confirmed")
			}
		})
		if n := again(t, d.Crash()); n < 1 {
			t.Errorf("%d steps after a power cut", n)
		}
	})
}

// TestSyncOnDemand: under appendfsync everysec and no, all that was written before Sync outlives a power cut once it
// has called back. It tells of a sync or a write that fails.
func TestSyncOnDemand(t *testing.T) {
	for _, policy := range []Policy{EverySecond, Never} {
		s, d := begin(t, policy)
		s.lastSyncIsNow()
		s.step(1)
		s.step(2)
		if why := s.syncNow(); why != "" {
			t.Fatal(why)
		}
		if n := again(t, d.Crash()); n != 2 {
			t.Errorf("%d steps of 2 after a power cut", n)
		}
	}
	for _, op := range []faulty.Op{faulty.Write, faulty.Sync} {
		s, d := begin(t, EverySecond)
		s.lastSyncIsNow()
		s.step(1)
		heal := d.Fail(faulty.Fault{Op: op, Name: "incr", Err: syscall.ENOSPC})
		s.step(2)
		if why := s.syncNow(); !strings.Contains(why, "No space left") {
			t.Errorf("a %s that fails: %q", op, why)
		}
		if why := s.syncNow(); !strings.Contains(why, "No space left") {
			t.Errorf("after a %s that has failed: %q", op, why)
		}
		heal()
	}
}

// TestSyncInTheTurnOfAWrite: Sync is asked for in the turn that writes. It covers this turn's effects.
func TestSyncInTheTurnOfAWrite(t *testing.T) {
	s, d := begin(t, Never)
	told := make(chan string, 1)
	s.Do(func() {
		for _, key := range []string{"a", "b"} {
			s.Effect(0, []byte("SET"), []byte(key), []byte("1"))
		}
		s.Effect(0, []byte("RPUSH"), []byte("l"), []byte("1"))
		s.aof.Sync(func(why string) { told <- why })
	})
	if why := <-told; why != "" {
		t.Fatal(why)
	}
	if n := again(t, d.Crash()); n != 1 {
		t.Errorf("%d steps of 1 after a power cut", n)
	}
}

// TestSyncWithoutALog: a log that is off has nothing to sync.
func TestSyncWithoutALog(t *testing.T) {
	s, _ := begin(t, Never)
	s.Do(s.aof.TurnOff)
	if why := s.syncNow(); why != "" {
		t.Error(why)
	}
}

// TestSyncOfABackupsLog: a log that is on only for a backup has nothing to sync, also if the disk is full.
func TestSyncOfABackupsLog(t *testing.T) {
	s, d := begin(t, Never)
	s.Do(s.aof.TurnOff)
	s.waitFor("the end of the log", func() bool { return s.aof.w.unwritten() == 0 })
	s.Do(func() {
		if err := s.aof.startBackup(false); err != nil {
			t.Error(err)
		}
	})
	s.waitFor("the base", func() bool { return len(s.aof.backup.files) > 0 })
	d.Fail(faulty.Fault{Op: faulty.Write, Name: "incr", Err: syscall.ENOSPC})
	s.step(1)
	if why := s.syncNow(); why != "" {
		t.Error(why)
	}
}

// TestSyncBeforeTheFirstBase: a primary's data have replaced the data set, and the log's files still hold the old one.
// The disk has nothing of what was written since, until a rewrite is done.
func TestSyncBeforeTheFirstBase(t *testing.T) {
	s, _ := begin(t, Never)
	s.Do(func() {
		s.aof.Replaced()
		s.aof.Sync(func(why string) {
			if why == "" {
				t.Error("the disk has everything")
			}
		})
	})
	s.waitFor("the rewrite", func() bool { return !s.aof.Waiting() })
	if why := s.syncNow(); why != "" {
		t.Error(why)
	}
}

// lastSyncIsNow has no tick sync the log for a second.
func (s *server) lastSyncIsNow() { s.Do(func() { s.aof.lastSync = s.aof.parts.Now() }) }

// syncNow returns what Sync says.
func (s *server) syncNow() string {
	told := make(chan string, 1)
	s.Do(func() { s.aof.Sync(func(why string) { told <- why }) })
	return <-told
}
