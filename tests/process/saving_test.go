package process

import (
	"fmt"
	"os"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// savedKeys waits for the background save to end. Then a server that is started from the file must have this many keys.
func savedKeys(t *testing.T, s *testkit.Server, want int64) {
	t.Helper()
	s.AwaitInfo(10*time.Second, "persistence", "rdb_bgsave_in_progress", "0")
	if _, err := os.Stat(s.File("dump.rdb")); err != nil {
		t.Fatalf("no file after the save: %v; %v", err, s.Files())
	}
	s.Kill()
	s.Restart()
	if n := s.Do("DBSIZE").Int; n != want {
		t.Errorf("the file holds %d keys, want %d", n, want)
	}
}

// pipeline sends requests in one write and returns their replies. An error reply fails the test.
func pipeline(t *testing.T, s *testkit.Server, requests ...[]any) []respclient.Value {
	t.Helper()
	replies, err := s.Dial().Pipeline(requests...)
	for _, v := range replies {
		if err == nil {
			err = v.Err()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return replies
}

// TestSaveAfterFlush: FLUSHALL cancels the running save, but not a save that is requested after it.
func TestSaveAfterFlush(t *testing.T) {
	flush, set, save := []any{"FLUSHALL"}, []any{"SET", "a", "1"}, []any{"BGSAVE"}
	t.Run("pipeline", func(t *testing.T) {
		s := testkit.Start(t)
		s.Do("SET", "old", "1")
		got := pipeline(t, s, flush, set, save)
		if got[2].Text != "Background saving started" {
			t.Errorf("BGSAVE: %v", got[2])
		}
		savedKeys(t, s, 1)
	})
	t.Run("transaction", func(t *testing.T) {
		s := testkit.Start(t)
		s.Do("SET", "old", "1")
		got := pipeline(t, s, []any{"MULTI"}, flush, set, save, []any{"EXEC"})
		if got := got[4].Elems[2].Text; got != "Background saving scheduled" {
			t.Errorf("BGSAVE: %v", got)
		}
		s.AwaitInfo(10*time.Second, "persistence", "rdb_saves", "1")
		savedKeys(t, s, 1)
	})
	t.Run("scheduled before", func(t *testing.T) {
		s := testkit.Start(t)
		pipeline(t, s, []any{"MULTI"}, save, flush, set, []any{"EXEC"})
		s.AwaitInfo(10*time.Second, "persistence", "rdb_saves", "1")
		savedKeys(t, s, 1)
	})
	t.Run("another under way", func(t *testing.T) {
		s := testkit.Start(t, "--rdb-key-save-delay", "100000")
		for i := range 100 { // so the save takes 10 s
			s.Do("SET", fmt.Sprint("k", i), "1")
		}
		s.Do("BGSAVE")
		pipeline(t, s, flush, set, []any{"CONFIG", "SET", "rdb-key-save-delay", "0"}, save)
		savedKeys(t, s, 1)
	})
	t.Run("with rules", func(t *testing.T) { // then FLUSHALL itself saves, and later changes count as unsaved
		s := testkit.Start(t, "--save", "3600 1")
		s.Do("SET", "old", "1")
		pipeline(t, s, flush, set, set)
		if n := s.InfoInt("persistence", "rdb_changes_since_last_save"); n != 2 {
			t.Errorf("%d changes, want 2", n)
		}
		savedKeys(t, s, 0)
	})
}

// TestScriptFlushesTheFile: after the reply of a long script with FLUSHALL, no restart restores the old keys.
func TestScriptFlushesTheFile(t *testing.T) {
	s := testkit.Start(t, "--save", "3600 1")
	for round := range 10 {
		s.Do("SET", "old", round)
		s.Do("SAVE")
		file := testkit.Sum(t, s.File("dump.rdb"))
		if v := s.Do("EVAL", "redis.call('FLUSHALL') for i = 1, 1000000 do end return 'done'", "0"); v.Text != "done" {
			t.Fatal(v)
		}
		if testkit.Sum(t, s.File("dump.rdb")) == file {
			t.Fatalf("round %d: the file still has the old key", round)
		}
	}
	savedKeys(t, s, 0)
}

// TestNoSaveWhileLoading: save rules have no effect until the data set is loaded. Otherwise a partial file would
// replace the complete one.
func TestNoSaveWhileLoading(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t)
	const keys = 2000
	testkit.Pipe(t, s.Dial(), keys, func(i int) []any { return []any{"SET", fmt.Sprint("k", i), "v"} })
	s.Do("SAVE")
	if code := s.Terminate(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	s.Again("--key-load-delay", "2000", "--save", "1 0") // 4 s of loading, with a save due after each second
	testkit.Until(t, 10*time.Second, "an answer", func() error { _, err := s.Ask("PING"); return err })
	if s.Info("persistence")["loading"] != "1" {
		t.Fatal("loaded too soon for this test to show anything")
	}
	for pace := time.Tick(20 * time.Millisecond); s.Info("persistence")["loading"] == "1"; <-pace {
		if n := s.InfoInt("persistence", "rdb_saves"); n != 0 && s.Info("persistence")["loading"] == "1" {
			t.Fatalf("%d saves while loading", n)
		}
	}
	if n := s.Do("DBSIZE").Int; n != keys {
		t.Errorf("%d keys, want %d", n, keys)
	}
	s.AwaitInfo(10*time.Second, "persistence", "rdb_saves", "1") // the rule applies again
	s.Kill()
	s.Restart("--key-load-delay", "0")
	if n := s.Do("DBSIZE").Int; n != keys {
		t.Errorf("the file holds %d keys, want %d", n, keys)
	}
}

// TestBgsaveCancel: BGSAVE CANCEL ends the save at once. No file of this save is left, and the last status stays.
func TestBgsaveCancel(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--rdb-key-save-delay", "1000000")
	for i := range 20 {
		s.Do("SET", i, "v")
	}
	s.Do("BGSAVE")
	if v := s.Do("BGSAVE", "CANCEL"); v.Text != "Background saving cancelled" {
		t.Errorf("BGSAVE CANCEL: %v", v)
	}
	info := s.Info("persistence")
	if info["rdb_bgsave_in_progress"] != "0" || info["rdb_last_bgsave_status"] != "ok" {
		t.Errorf("after it: %v", info)
	}
	testkit.Await(t, testkit.Slowly(10*time.Second), "the folder to be empty", func() bool { return len(s.Files()) == 0 })
}

// TestReloadOfReplica: DEBUG RELOAD of a replica keeps a key past its deadline, because only the primary removes it.
func TestReloadOfReplica(t *testing.T) {
	primary, replica := testkit.Start(t), testkit.Start(t)
	replica.Do("REPLICAOF", "127.0.0.1", primary.Port)
	replica.AwaitInfo(testkit.Slowly(10*time.Second), "replication", "master_link_status", "up")
	primary.Do("DEBUG", "SET-ACTIVE-EXPIRE", "0")
	primary.Do("SET", "k", "v", "PX", "1")
	testkit.Await(t, testkit.Slowly(10*time.Second), "the key expires on the replica", func() bool {
		return replica.Do("DBSIZE").Int == 1 && replica.Do("EXISTS", "k").Int == 0
	})
	replica.Do("DEBUG", "RELOAD")
	if n := replica.Do("DBSIZE").Int; n != 1 {
		t.Errorf("%d keys after DEBUG RELOAD, the primary has removed none", n)
	}
}
