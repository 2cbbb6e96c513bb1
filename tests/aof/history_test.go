package aof

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestHistoryIsDeleted: files that a rewrite has replaced stay while aof-disable-auto-gc is yes. They are deleted when
// it becomes no.
func TestHistoryIsDeleted(t *testing.T) {
	s := testkit.Start(t, "--appendonly", "yes", "--aof-disable-auto-gc", "yes")
	s.Do("BGREWRITEAOF")
	s.AwaitInfo(testkit.Slowly(20*time.Second), "persistence", "aof_rewrite_in_progress", "0")
	old := []string{"appendonlydir/appendonly.aof.1.base.rdb", "appendonlydir/appendonly.aof.1.incr.aof"}
	for _, name := range old {
		if _, err := os.Stat(s.File(name)); err != nil {
			t.Error(err)
		}
	}
	s.Do("CONFIG", "SET", "aof-disable-auto-gc", "no")
	testkit.Until(t, testkit.Slowly(20*time.Second), "the old files go", func() error {
		for _, name := range old {
			if _, err := os.Stat(s.File(name)); !os.IsNotExist(err) {
				return fmt.Errorf("%s: %v", name, err)
			}
		}
		text, err := os.ReadFile(s.File("appendonlydir/appendonly.aof.manifest"))
		if err == nil && strings.Contains(string(text), "type h") {
			err = errors.New(string(text))
		}
		return err
	})
}

// TestNumbersContinue: no two increments of one server process have the same name. That holds even if a base was made
// while the log was off. Redis numbers increments the same way.
func TestNumbersContinue(t *testing.T) {
	s := testkit.Start(t, "--appendonly", "yes")
	done := func() {
		s.AwaitInfo(testkit.Slowly(20*time.Second), "persistence", "aof_rewrite_scheduled", "0")
		s.AwaitInfo(testkit.Slowly(20*time.Second), "persistence", "aof_rewrite_in_progress", "0")
	}
	s.Do("BGREWRITEAOF")
	done()
	s.Do("CONFIG", "SET", "appendonly", "no")
	s.Do("BGREWRITEAOF")
	done()
	s.Do("MULTI")
	s.Do("CONFIG", "SET", "appendonly", "yes")
	s.Do("EXEC")
	done()
	if !strings.Contains(s.Log(),
		"AOF was enabled during a transaction. An AOF background was scheduled to start when possible.") {
		t.Error("the log does not say why the rewrite waits")
	}
	if _, err := os.Stat(s.File("appendonlydir/appendonly.aof.3.incr.aof")); err != nil {
		t.Error(err)
	}
}
