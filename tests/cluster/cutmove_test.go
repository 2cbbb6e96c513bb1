package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestRestoreInAMove: a node is put back to a moment at which half of the keys of a move had come. By now it owns the
// slots, and nodes.conf says so. None of these keys is there, also after one more start. The keys of before are.
func TestRestoreInAMove(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", "", "--appendonly", "yes", "--aof-keep-history", "1h", "--appendfsync",
		"always"}, testkit.Ours, testkit.Ours)
	from, to := nodes[0], nodes[1]
	from.Do("CLUSTER", "SETSLOT", 16383, "NODE", to.Do("CLUSTER", "MYID").Text)
	to.Do("CLUSTER", "SETSLOT", 16383, "NODE", to.Do("CLUSTER", "MYID").Text)
	const kept = "kept3769" // in slot 16383
	if slot := to.Do("CLUSTER", "KEYSLOT", kept).Int; slot != 16383 {
		t.Fatalf("the key has slot %d", slot)
	}
	testkit.Until(t, testkit.Slowly(patience), "the target serves its slot", func() error {
		v, err := to.Ask("SET", kept, "v")
		if err != nil {
			return err
		}
		return testkit.Equal(v.Text, "OK")
	})
	s := establish(t, from, to, 'a')
	for i := range 100 {
		s.say("SET", fmt.Sprintf("{%d}early", i), i)
	}
	offset := func() int64 {
		n, err := strconv.ParseInt(to.Info("persistence")["aof_history_offset"], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	testkit.Until(t, testkit.Slowly(patience), "half of the keys have come", func() error {
		before := offset()
		testkit.Lapse(20 * time.Millisecond)
		return testkit.Equal(offset() == before && before > 100*30, true)
	})
	half := offset()
	s.bring()
	s.say("CLUSTER", "SYNCSLOTS", "PAUSED")
	s.hears("REQUEST-FAILOVER")
	s.say("CLUSTER", "SYNCSLOTS", "FAILOVER-GRANTED")
	moved(t, to, "success")
	if n := to.Do("DBSIZE").Int; n < 300 {
		t.Fatalf("%d keys have moved", n)
	}
	into := filepath.Join(t.TempDir(), "restored")
	text, code := testkit.Run(t, testkit.Slowly(30*time.Second), "", testkit.Spindle(t), "restore", "--to-offset",
		strconv.FormatInt(half, 10), "--into", into, to.Dir)
	if code != 0 {
		t.Fatalf("restore: %d %s", code, text)
	}
	text, _ = testkit.Run(t, testkit.Slowly(30*time.Second), "", testkit.Spindle(t), "restore", "--to-offset",
		strconv.FormatInt(half, 10), "--dry-run", to.Dir)
	if !strings.Contains(text, "db0: keys=1,") {
		t.Errorf("a dry run counts other keys than the one that the node owned: %s", text)
	}
	to.Crashes()
	to.Kill()
	if err := os.RemoveAll(to.File("appendonlydir")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(into, "appendonlydir"), to.File("appendonlydir")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		to.Restart()
		testkit.Until(t, testkit.Slowly(patience), "the target serves", func() error {
			v, err := to.Ask("GET", kept)
			if err != nil {
				return err
			}
			return testkit.Equal(v.Text, "v")
		})
		if n := to.Do("DBSIZE").Int; n != 1 {
			t.Errorf("%d keys are there, not 1", n)
		}
		if v := to.Do("GET", "{1}early"); v.Text != "" {
			t.Errorf("a key of the move is there: %+v", v)
		}
		to.Kill()
	}
}

// TestLogCutInAMove: the host of a target dies while keys come, and its log ends anywhere within them. None of the keys
// is there after the start. The next move succeeds.
func TestLogCutInAMove(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	nodes := owners(t, []string{"--save", "", "--appendonly", "yes", "--appendfsync", "always"}, testkit.Ours,
		testkit.Ours)
	from, to := nodes[0], nodes[1]
	establish(t, from, to, 'a').bring()
	to.Crashes()
	to.Kill()
	files, err := filepath.Glob(to.File("appendonlydir/*.incr.aof"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for range rounds(5) {
		end := 1 + rng.IntN(len(whole))
		if err := os.WriteFile(files[0], whole[:end], 0o644); err != nil {
			t.Fatal(err)
		}
		to.Restart()
		testkit.Until(t, testkit.Slowly(patience), "the move is over", func() error { return movesOver(to) })
		if showsNone(t, to); t.Failed() {
			t.Fatalf("seed %d: %d of %d bytes", seed, end, len(whole))
		}
		to.Kill()
	}
	to.Restart()
	from.Do("SET", "key", "value")
	testkit.Until(t, testkit.Slowly(patience), "the next move begins", func() error {
		v, err := from.Ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, 16382, "NODE", to.Do("CLUSTER", "MYID").Text)
		return errors.Join(err, v.Err())
	})
	moved(t, from, "success")
	if n := to.Do("DBSIZE").Int; n != 1 {
		t.Errorf("%d keys are at the target, not 1", n)
	}
}

// backUp makes a node collect a backup.
func backUp(t *testing.T, n *testkit.Server) {
	t.Helper()
	n.Do("BACKUP", "START")
	testkit.Until(t, testkit.Slowly(patience), "the base of the backup is there", func() error {
		return testkit.Equal(len(n.Do("BACKUP", "LIST").Elems), 1)
	})
}

// putBack starts a node on its sealed backup and on a text of nodes.conf.
func putBack(t *testing.T, n *testkit.Server, nodes []byte) {
	t.Helper()
	n.Crashes()
	n.Kill()
	err := errors.Join(os.RemoveAll(n.File("appendonlydir")),
		os.CopyFS(n.File("appendonlydir"), os.DirFS(n.File("backupdir"))), os.WriteFile(n.File("nodes.conf"), nodes, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	n.Restart()
}

// readNodes returns the text of a node's nodes.conf.
func readNodes(t *testing.T, n *testkit.Server) []byte {
	t.Helper()
	text, err := os.ReadFile(n.File("nodes.conf"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestSealInAMove: a backup of the target of a move is sealed when half of the keys have come. It has none of them,
// with the nodes.conf of before the move and with that of after it.
func TestSealInAMove(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", "", "--appendonly", "yes"}, testkit.Ours, testkit.Ours)
	from, to := nodes[0], nodes[1]
	from.Do("CLUSTER", "SETSLOT", 16383, "NODE", to.Do("CLUSTER", "MYID").Text)
	to.Do("CLUSTER", "SETSLOT", 16383, "NODE", to.Do("CLUSTER", "MYID").Text)
	const kept = "kept3769" // in slot 16383
	testkit.Until(t, testkit.Slowly(patience), "the target serves its slot", func() error {
		v, err := to.Ask("SET", kept, "v")
		if err != nil {
			return err
		}
		return testkit.Equal(v.Text, "OK")
	})
	backUp(t, to)
	before := readNodes(t, to)
	s := establish(t, from, to, 'a')
	for i := range 100 {
		s.say("SET", fmt.Sprintf("{%d}early", i), i)
	}
	s.say("SET", "{1}last", 1)
	testkit.Until(t, testkit.Slowly(patience), "half of the keys have come", func() error {
		files, err := filepath.Glob(to.File("appendonlydir/*.incr.aof"))
		if err != nil || len(files) != 1 {
			return fmt.Errorf("%v, %w", files, err)
		}
		text, err := os.ReadFile(files[0])
		return errors.Join(err, testkit.Equal(bytes.Contains(text, []byte("{1}last")), true))
	})
	to.Do("BACKUP", "SEAL")
	s.bring()
	s.say("CLUSTER", "SYNCSLOTS", "PAUSED")
	s.hears("REQUEST-FAILOVER")
	s.say("CLUSTER", "SYNCSLOTS", "FAILOVER-GRANTED")
	moved(t, to, "success")
	after := readNodes(t, to)
	for _, conf := range [][]byte{before, after} {
		putBack(t, to, conf)
		testkit.Until(t, testkit.Slowly(patience), "the move is over", func() error { return movesOver(to) })
		testkit.Until(t, testkit.Slowly(patience), "the target serves", func() error {
			v, err := to.Ask("GET", kept)
			if err != nil {
				return err
			}
			return testkit.Equal(v.Text, "v")
		})
		if n := to.Do("DBSIZE").Int; n != 1 {
			t.Errorf("%d keys are there, not 1", n)
		}
		if v, err := to.Ask("GET", "{1}early"); err != nil || v.Text != "" && !strings.HasPrefix(v.Text, "MOVED") {
			t.Errorf("a key of the move is there: %+v, %v", v, err)
		}
	}
}

// TestSealAfterAMove: a backup of the source of a move is sealed when the source has lost the slots, but has their
// keys. The backup has none of them, also beside the nodes.conf of before.
func TestSealAfterAMove(t *testing.T) {
	t.Parallel()
	nodes := owners(t, []string{"--save", "", "--appendonly", "yes"}, testkit.Ours, testkit.Ours)
	from, to := nodes[0], nodes[1]
	for i := range 100 {
		from.Do("SET", fmt.Sprintf("{%d}moves", i), i, "EX", 10_000)
	}
	const kept = "kept3769" // in slot 16383
	from.Do("SET", kept, "v")
	backUp(t, from)
	before := readNodes(t, from)
	from.Do("CLIENT", "PAUSE", 600_000, "WRITE") // it delays the removal of the keys
	from.Do("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", 0, 16382, "NODE", to.Do("CLUSTER", "MYID").Text)
	moved(t, from, "success")
	moved(t, to, "success")
	if n := from.Do("DBSIZE").Int; n != 101 {
		t.Fatalf("the source has %d keys, not 101", n)
	}
	from.Do("BACKUP", "SEAL")
	from.Do("CLIENT", "UNPAUSE")
	after := readNodes(t, from)
	to.Kill() // it would tell the source that the slots have moved
	for _, conf := range [][]byte{before, after} {
		putBack(t, from, conf)
		if n := from.Do("DBSIZE").Int; n != 1 {
			t.Errorf("%d keys are there, not 1", n)
		}
	}
}
