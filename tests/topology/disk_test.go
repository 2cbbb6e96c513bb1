package topology

import (
	"os"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestFailedSaveOnAReplica: the background save of a replica fails. The replica refuses no command of its primary,
// because their data would differ. It ends, or runs the command with replica-ignore-disk-write-errors.
func TestFailedSaveOnAReplica(t *testing.T) {
	t.Parallel()
	limit := testkit.Slowly(20 * time.Second)
	s := testkit.Start(t)
	s.Do("SET", "n", 1)
	r := follow(t, s, false, "--save", "3600 1", "--replica-ignore-disk-write-errors", "yes")
	if err := os.RemoveAll(r.File("dump.rdb")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(r.File("dump.rdb"), 0o700); err != nil { // no file can be renamed to it
		t.Fatal(err)
	}
	r.Do("BGSAVE")
	r.AwaitInfo(limit, "persistence", "rdb_last_bgsave_status", "err")
	s.Do("INCR", "n")
	if v := s.Do("WAIT", 1, limit.Milliseconds()); v.Int != 1 {
		t.Fatalf("WAIT: %v", v)
	}
	if v := r.Do("GET", "n"); v.Text != "2" {
		t.Errorf("the replica has n = %v, and has confirmed 2", v)
	}
	r.AwaitLog(limit, "Replica is applying a command even though it is unable to write to disk.")
	if v, err := r.Ask("SET", "n", 3); err != nil || !strings.HasPrefix(v.Text, "MISCONF") {
		t.Errorf("a client's write: %v, %v", v, err)
	}
	r.Crashes()
	r.Do("CONFIG", "SET", "replica-ignore-disk-write-errors", "no")
	s.Do("INCR", "n")
	r.Wait(limit)
	r.AwaitLog(limit, "Replica was unable to write command to disk.")
}
