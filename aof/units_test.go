package aof

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/engine/client"
	"spindle/tests/testkit"
	"spindle/tests/testkit/faulty"
)

// TestBackupEndsBesideUnit (R6): a log that is on only for a backup is no sink any more when the backup is sealed. If a
// unit is open then, the log first gets the whole unit.
func TestBackupEndsBesideUnit(t *testing.T) {
	t.Parallel()
	s := newServer(t, faulty.New(1))
	s.do("SET", "a", "0")
	if reply, _ := s.do("BACKUP", "START"); reply != "+OK\r\n" {
		t.Fatalf("BACKUP START: %q", reply)
	}
	s.waitFor("a base", func() bool { return s.aof.backup.state == backupIncrementing && len(s.aof.backup.files) > 0 })
	hold := make(chan struct{})
	s.Do(func() {
		s.aof.w.do(0, func() { <-hold })
		if _, err := s.aof.sealBackup(); err != nil {
			t.Error(err)
		}
	})
	other, _ := s.Open(socket{})
	s.doAs(other.(*client.Client), "SLOW", "1")
	close(hold)
	testkit.Await(t, time.Minute, "an idle writer", s.resting)
	for range 5000 { // the report of the writer takes one of these turns
		left := false
		if s.Do(func() { left = s.Lent() && !s.aof.attached }); left {
			t.Fatal("the log has left in the middle of a unit")
		}
	}
	s.endSlow.Store(true)
	s.waitFor("a sealed backup", func() bool { return s.aof.backup.state == backupSealed })
	s.Do(func() {
		if s.aof.attached {
			t.Error("the log continues after the backup")
		}
	})
}

// TestBackupWaitsForUnit (R6): no command of BACKUP runs while a unit is open, because ABORT may remove a sink.
func TestBackupWaitsForUnit(t *testing.T) {
	t.Parallel()
	s := newServer(t, faulty.New(1))
	s.do("SLOW", "1")
	for _, word := range []string{"START", "SEAL", "ABORT", "CLEANUP", "STATUS", "LIST"} {
		other, _ := s.Open(socket{})
		if reply, _ := s.doAs(other.(*client.Client), "BACKUP", word); reply != "" {
			t.Errorf("BACKUP %s beside an open unit: %q", word, reply)
		}
	}
	s.endSlow.Store(true)
	s.waitFor("the end of the unit", func() bool { return !s.Lent() })
}

// TestSecondOfLongUnit: the annotation of a unit names the second in which it ended, because nothing of it was there
// before. Otherwise a restore of an earlier second would bring it.
func TestSecondOfLongUnit(t *testing.T) {
	t.Parallel()
	s, d := begin(t, Always)
	s.set.Timestamps.Set(true)
	s.do("SLOW", "1")
	began := time.Now().Unix()
	testkit.Await(t, time.Minute, "two seconds later", func() bool { return time.Now().Unix() >= began+2 })
	s.endSlow.Store(true)
	text := ""
	s.waitFor("the unit in the log", func() bool {
		bytes, err := readWhole(d, s.aof.folder.path("appendonly.aof.1.incr.aof"))
		text = string(bytes)
		return err == nil && strings.HasSuffix(text, "EXEC\r\n")
	})
	_, stamp, _ := strings.Cut(text, "#TS:")
	stamp, _, _ = strings.Cut(stamp, "\r\n")
	if second, err := strconv.ParseInt(stamp, 10, 64); err != nil || second < began+2 {
		t.Errorf("the unit ended at %d or later, and has the annotation %q in %q", began+2, stamp, text)
	}
}
