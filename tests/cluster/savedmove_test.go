package cluster

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"spindle/tests/testkit"
)

// TestSaveInAMove: the target of a move and its replica save their data while keys come. The files have none of these
// keys. After the hand-over the keys count as changes, so that the save rules write them. The target dies after the
// next save that a rule begins, and has all keys.
func TestSaveInAMove(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", "", "--appendonly", "no"}, testkit.Ours, testkit.Ours, testkit.Ours)
	from, to, replica := nodes[0], nodes[1], nodes[2]
	replica.Do("CLUSTER", "REPLICATE", to.Do("CLUSTER", "MYID").Text)
	synced(t, replica)
	s := establish(t, from, to, 'a')
	s.bring()
	ends := []*testkit.Server{to, replica}
	changes := func(n *testkit.Server) int64 { return n.InfoInt("persistence", "rdb_changes_since_last_save") }
	for _, n := range ends {
		testkit.Until(t, testkit.Slowly(patience), "the keys have come", func() error {
			return testkit.Equal(n.InfoInt("replication", "master_repl_offset"),
				to.InfoInt("replication", "master_repl_offset"))
		})
		n.Do("SAVE")
		if got := changes(n); got != 0 {
			t.Fatalf("%d changes after a save", got)
		}
	}
	s.say("CLUSTER", "SYNCSLOTS", "PAUSED")
	s.hears("REQUEST-FAILOVER")
	s.say("CLUSTER", "SYNCSLOTS", "FAILOVER-GRANTED")
	moved(t, to, "success")
	keys := to.Do("DBSIZE").Int
	for _, n := range ends {
		testkit.Until(t, testkit.Slowly(patience), "the move is over", func() error { return movesOver(n) })
		if got := changes(n); got < keys {
			t.Errorf("%d changes are not saved, and no file has %d keys", got, keys)
		}
	}
	to.Do("CONFIG", "SET", "save", "1 1")
	testkit.Until(t, testkit.Slowly(patience), "a rule has saved", func() error {
		f := to.Info("persistence")
		return errors.Join(testkit.Equal(f["rdb_changes_since_last_save"], "0"),
			testkit.Equal(f["rdb_bgsave_in_progress"], "0"))
	})
	to.Crashes()
	to.Kill()
	to.Restart()
	if got := to.Do("DBSIZE").Int; got < keys-100 { // 100 of them were past their deadline
		t.Errorf("%d keys are there after the crash, not %d", got, keys)
	}
}

// TestSaveInAClaim: the target of a move saves its data when it has claimed the slots, and its source does not know it
// yet. The file has the keys. The stream has yet to tell the replica to show them, so the file names no stream. The
// target dies, and starts from the file. Its replica gets a full copy, and shows all keys.
func TestSaveInAClaim(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", "", "--appendonly", "no", "--cluster-replica-no-failover", "yes",
		"--repl-ping-replica-period", "3600"}, testkit.Ours, testkit.Ours, testkit.Ours)
	from, to, replica := nodes[0], nodes[1], nodes[2]
	replica.Do("CLUSTER", "REPLICATE", to.Do("CLUSTER", "MYID").Text)
	synced(t, replica)
	saved := func() string {
		t.Helper()
		to.Do("SAVE")
		file, err := os.ReadFile(to.File("dump.rdb"))
		if err != nil {
			t.Fatal(err)
		}
		return string(file)
	}
	if !strings.Contains(saved(), "repl-id") {
		t.Fatal("the file from before the move names no stream")
	}
	s := establish(t, from, to, 'a')
	s.bring()
	from.Signal(syscall.SIGSTOP) // the claim does not stand before it answers
	defer from.Signal(syscall.SIGCONT)
	s.say("CLUSTER", "SYNCSLOTS", "PAUSED")
	s.hears("REQUEST-FAILOVER")
	s.say("CLUSTER", "SYNCSLOTS", "FAILOVER-GRANTED")
	testkit.Until(t, testkit.Slowly(patience), "the claim is on disk", func() error {
		return errors.Join(testkit.Equal(moveState(to, "state"), "failover-granted"),
			testkit.Equal(strings.Contains(string(readNodes(t, to)), " 0-16382\n"), true))
	})
	file := saved()
	if state := moveState(to, "state"); state != "failover-granted" {
		t.Fatalf("the move is %s", state)
	}
	if !strings.Contains(file, "{99}staged") {
		t.Error("the file has not all keys of the move")
	}
	if strings.Contains(file, "repl-id") || strings.Contains(file, "repl-offset") {
		t.Error("the file names the stream")
	}
	to.Crashes()
	to.Kill()
	to.Restart()
	from.Signal(syscall.SIGCONT)
	testkit.Until(t, testkit.Slowly(patience), "the replica shows the keys", func() error {
		v, err := replica.Ask("DBSIZE")
		return errors.Join(err, testkit.Equal(v.Int, 200))
	})
	if n := to.InfoInt("stats", "sync_partial_ok"); n != 0 {
		t.Errorf("%d times the replica has continued the stream", n)
	}
}

// TestImportBeforeTheFirstBase: a node is told to keep a log, and then to take slots, before the log's first base is
// written. The move begins when the base is there, and succeeds.
func TestImportBeforeTheFirstBase(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", "", "--appendonly", "no"}, testkit.Ours, testkit.Ours)
	from, to := nodes[0], nodes[1]
	for _, n := range []*testkit.Server{to, from} {
		n.Do("CLUSTER", "SETSLOT", 16383, "NODE", to.Do("CLUSTER", "MYID").Text)
	}
	const owned = "{kept3769}" // in slot 16383
	for i := range 20 {
		testkit.Until(t, testkit.Slowly(patience), "the target serves its slot", func() error {
			v, err := to.Ask("SET", owned+strconv.Itoa(i), "v")
			return errors.Join(err, v.Err())
		})
	}
	from.Do("SET", "key", "value")
	to.Do("CONFIG", "SET", "rdb-key-save-delay", 50_000) // the base takes a second
	to.Do("CONFIG", "SET", "appendonly", "yes")
	to.Do("CLUSTER", "MIGRATION", "IMPORT", 0, 16382)
	testkit.Until(t, testkit.Slowly(patience), "the task is over", func() error {
		task := to.Do("CLUSTER", "MIGRATION", "STATUS", "ALL").Elems[0].String()
		if strings.Contains(task, "failed") {
			t.Fatal(task)
		}
		return testkit.Equal(strings.Contains(task, "completed"), true)
	})
	if v := to.Do("GET", "key"); v.Text != "value" {
		t.Errorf("the key is %+v", v)
	}
}
