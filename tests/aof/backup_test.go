package aof

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// backupState returns the state and the error in BACKUP STATUS.
func backupState(s *testkit.Server) (state, why string) {
	v := s.Do("BACKUP", "STATUS")
	return v.Elems[1].Text, v.Elems[3].Text
}

// awaitBackup waits for a state of the backup.
func awaitBackup(t *testing.T, s *testkit.Server, state string) {
	t.Helper()
	testkit.Until(t, testkit.Slowly(30*time.Second), "the backup is "+state, func() error {
		is, why := backupState(s)
		if is == state && state == "incrementing" && len(s.Do("BACKUP", "LIST").Elems) == 0 {
			is = "not pinned"
		}
		return testkit.Equal(is+why, state+why)
	})
}

// TestBackup: a backup has the data set as of SEAL, with the log on and off, while clients write. A server of each kind
// starts on its files, and preload-file loads them. The server's own log and settings stay unchanged.
func TestBackup(t *testing.T) {
	for _, appendonly := range []string{"yes", "no"} {
		t.Run("appendonly "+appendonly, func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			s := testkit.Start(t, "--appendonly", appendonly, "--enable-debug-command", "yes")
			for i := range 200 {
				change(s, rng, i)
			}
			if v := s.Do("BACKUP", "START"); v.Text != "OK" {
				t.Fatal(v)
			}
			for i := range 100 {
				change(s, rng, i)
			}
			awaitBackup(t, s, "incrementing")
			if n := len(s.Do("BACKUP", "LIST").Elems); n != 1 || s.Info("persistence")["backup_in_progress"] != "1" {
				t.Errorf("%d files before SEAL", n)
			}
			if v := s.Do("BGREWRITEAOF"); !strings.Contains(v.Text, "scheduled") {
				t.Errorf("BGREWRITEAOF before SEAL: %v", v)
			}
			for i := range 100 {
				change(s, rng, i)
			}
			state := held(s)
			if v := s.Do("BACKUP", "SEAL"); v.Text != "OK" {
				t.Fatal(v)
			}
			for i := range 50 {
				change(s, rng, i)
			}
			if is, why := backupState(s); is != "sealed" || why != "" {
				t.Errorf("after SEAL: %s %s", is, why)
			}
			files := s.Do("BACKUP", "LIST").Strings()
			if len(files) != 3 || !strings.HasSuffix(files[2], ".manifest") {
				t.Fatalf("files: %v", files)
			}
			rewritten(t, s)
			s.Do("BGREWRITEAOF")
			rewritten(t, s)
			if v := s.Do("CONFIG", "GET", "appendonly"); v.Elems[1].Text != appendonly {
				t.Error(v)
			}
			if left, _ := filepath.Glob(filepath.Join(s.Dir, "appendonlydir", "*.incr.aof")); (len(left) == 1) !=
				(appendonly == "yes") {
				t.Errorf("the server's own log has %v", left)
			}
			own := held(s)

			dir := filepath.Dir(files[0])
			debug := []string{"--enable-debug-command", "yes"}
			started := testkit.Launch(t, testkit.Spec{Dir: filepath.Dir(dir), Args: append([]string{"--appendonly", "yes",
				"--appenddirname", filepath.Base(dir), "--aof-load-truncated", "no"}, debug...)})
			same := func(what string, is map[string]string) {
				t.Helper()
				if !maps.Equal(is, state) {
					t.Errorf("%s: %s", what, differences(state, is))
				}
			}
			same("a server on the backup's folder", held(started))
			started.Kill()
			preloaded := testkit.Start(t, append([]string{"--preload-file", "aof:" + files[2], "--appendonly", "yes",
				"--appendfsync", "always"}, debug...)...)
			same("preload-file", held(preloaded))
			rewritten(t, preloaded)
			preloaded.Kill()
			preloaded.Restart(append([]string{"--appendonly", "yes"}, debug...)...)
			same("its own log afterwards", held(preloaded))

			s.Do("BACKUP", "CLEANUP")
			testkit.Until(t, testkit.Slowly(10*time.Second), "the files are gone", func() error {
				left, _ := os.ReadDir(dir)
				left = slices.DeleteFunc(left, func(e os.DirEntry) bool { return strings.HasSuffix(e.Name(), ".lock") })
				return testkit.Equal(len(left), 0)
			})
			if appendonly == "yes" {
				s.Kill()
				s.Restart("--appendonly", "yes", "--enable-debug-command", "yes")
				if is := held(s); !maps.Equal(is, own) {
					t.Errorf("the server's own log: %s", differences(own, is))
				}
			}
		})
	}
}

// TestBackupOrder: a call that does not fit the state of the backup is refused, and changes nothing. A failed backup
// reports its reason, and another backup may follow.
func TestBackupOrder(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--appendonly", "yes", "--backup-sealed-ttl", "1", "--rdb-key-save-delay", "0")
	refused := func(word, want string) {
		t.Helper()
		v, err := s.Ask("BACKUP", word)
		if err != nil || !strings.Contains(v.Text, want) {
			t.Errorf("BACKUP %s: %v %v, want %q", word, v, err, want)
		}
	}
	refused("SEAL", "no backup to seal")
	refused("ABORT", "no backup in progress")
	refused("CLEANUP", "no sealed or failed backup")
	testkit.Pipe(t, s.Dial(), 1000, func(i int) []any { return []any{"SET", i, i} })
	s.Do("CONFIG", "SET", "rdb-key-save-delay", "1000")
	s.Do("BACKUP", "START")
	refused("START", "already in progress")
	refused("SEAL", "no backup to seal")
	s.Do("BACKUP", "ABORT")
	if state, why := backupState(s); state != "failed" || !strings.Contains(why, "borted") {
		t.Errorf("%s %s", state, why)
	}
	s.Do("CONFIG", "SET", "rdb-key-save-delay", "0")
	rewritten(t, s)
	if err := os.WriteFile(s.File("backupdir/mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("START", "not empty")
	if err := os.Remove(s.File("backupdir/mine")); err != nil {
		t.Fatal(err)
	}
	s.Do("BACKUP", "START")
	awaitBackup(t, s, "incrementing")
	s.Do("CONFIG", "SET", "appendonly", "no")
	if state, why := backupState(s); state != "failed" || !strings.Contains(why, "switched off") {
		t.Errorf("%s %s", state, why)
	}
	testkit.Until(t, testkit.Slowly(10*time.Second), "its files are gone", func() error {
		left, _ := os.ReadDir(s.File("backupdir"))
		return testkit.Equal(len(left), 0)
	})
	s.Do("BACKUP", "START") // without a log
	awaitBackup(t, s, "incrementing")
	s.Do("CONFIG", "SET", "appendonly", "yes") // the log stays after SEAL
	s.Do("SET", "k", "v")
	s.Do("BACKUP", "SEAL")
	refused("START", "CLEANUP first")
	awaitBackup(t, s, "idle") // backup-sealed-ttl
	s.Kill()
	s.Restart("--appendonly", "yes")
	if v := s.Do("GET", "k"); v.Text != "v" {
		t.Errorf("the log that was switched on meanwhile: %v", v)
	}
	s.Do("REPLICAOF", "127.0.0.1", testkit.FreePort(t))
	s.Do("BACKUP", "START")
	awaitBackup(t, s, "incrementing")
	if v := s.Do("BACKUP", "HELP"); len(v.Elems) < 10 {
		t.Error(v)
	}
}

// TestBackupUnderLoad: counters are incremented while backups are made. In each backup, each counter is between its
// values before and after SEAL.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--appendonly", "yes")
	stop := make(chan struct{})
	var counting sync.WaitGroup
	for i := range 4 {
		counting.Go(func() {
			c := s.Dial()
			defer c.Close()
			for {
				select {
				case <-stop:
					return
				default:
					if _, err := c.Do("INCR", "counter:"+strconv.Itoa(i)); err != nil {
						return // the test has failed
					}
				}
			}
		})
	}
	values := func(s *testkit.Server) (all [4]int) {
		for i := range all {
			all[i], _ = strconv.Atoi(s.Do("GET", "counter:"+strconv.Itoa(i)).Text)
		}
		return all
	}
	for range 3 {
		s.Do("BACKUP", "START")
		awaitBackup(t, s, "incrementing")
		before := values(s)
		s.Do("BACKUP", "SEAL")
		after := values(s)
		files := s.Do("BACKUP", "LIST").Strings()
		restored := testkit.Start(t, "--preload-file", "aof:"+files[len(files)-1])
		for i, n := range values(restored) {
			if n < before[i] || n > after[i] {
				t.Errorf("counter %d is %d, between %d and %d", i, n, before[i], after[i])
			}
		}
		restored.Kill()
		s.Do("BACKUP", "CLEANUP")
		awaitBackup(t, s, "idle")
	}
	close(stop)
	counting.Wait()
}

// TestBackupDuringACopy: a replica takes a full copy while it makes a backup. SEAL gives what the server holds then.
// That is its old data while it serves them, else the primary's data. Or the backup fails and says why. It never gives
// half of a copy. The next backup succeeds.
func TestBackupDuringACopy(t *testing.T) {
	for i, load := range []string{"disabled", "on-empty-db", "swapdb"} {
		for j, early := range []bool{true, false} {
			for k, appendonly := range []string{"yes", "no"} {
				if (i+j+k)%2 == 1 && testkit.Scale() == 1 {
					continue // any two of the three values still meet
				}
				t.Run(fmt.Sprintf("%s, START before the copy %t, appendonly %s", load, early, appendonly), func(t *testing.T) {
					t.Parallel()
					backUpDuringACopy(t, load, early, appendonly)
				})
			}
		}
	}
}

func backUpDuringACopy(t *testing.T, load string, early bool, appendonly string) {
	debug := []string{"--enable-debug-command", "yes"}
	primary := testkit.Start(t, append([]string{"--repl-diskless-sync-delay", "0"}, debug...)...)
	testkit.Pipe(t, primary.Dial(), 500, func(i int) []any { return []any{"SET", "theirs:" + strconv.Itoa(i), i} })
	s := testkit.Start(t, append([]string{"--appendonly", appendonly, "--repl-diskless-load", load}, debug...)...)
	if load != "on-empty-db" {
		testkit.Pipe(t, s.Dial(), 100, func(i int) []any { return []any{"SET", "ours:" + strconv.Itoa(i), i} })
	}
	start := func() bool { // refused while it loads
		v, err := s.Ask("BACKUP", "START")
		if err != nil || v.Err() != nil && !strings.HasPrefix(v.Text, "LOADING") {
			t.Errorf("BACKUP START: %v %v", v, err)
		}
		return err == nil && v.Err() == nil
	}
	before := held(s)
	begun := false
	if early {
		begun = start()
		awaitBackup(t, s, "incrementing")
	}
	// The primary sends slowly, so that the copy takes as long as it must.
	primary.Do("CONFIG", "SET", "rdb-key-save-delay", "12000")
	s.Do("REPLICAOF", "127.0.0.1", primary.Port)
	testkit.Until(t, testkit.Slowly(30*time.Second), "a full copy on its way", func() error {
		return testkit.Equal(s.Info("replication")["master_sync_in_progress"], "1")
	})
	if !early {
		begun = start()
	}
	refused := 0
	seal := func() (sealed bool) {
		v, err := s.Ask("BACKUP", "SEAL")
		if err != nil {
			t.Fatal(err)
		}
		if v.Err() != nil {
			refused++
		}
		return v.Err() == nil
	}
	sealed := begun && seal()
	primary.Do("CONFIG", "SET", "rdb-key-save-delay", "0")
	s.AwaitInfo(testkit.Slowly(60*time.Second), "replication", "master_link_status", "up")
	check := func(want map[string]string) {
		t.Helper()
		files := s.Do("BACKUP", "LIST").Strings()
		restored := testkit.Start(t, append([]string{"--preload-file", "aof:" + files[len(files)-1]}, debug...)...)
		if is := held(restored); !maps.Equal(is, want) {
			t.Errorf("the backup: %s", differences(want, is))
		}
		restored.Kill()
		s.Do("BACKUP", "CLEANUP")
		awaitBackup(t, s, "idle")
	}
	for begun && !sealed {
		state, why := backupState(s)
		if state == "failed" {
			if why == "" {
				t.Error("the backup has failed, and does not say why")
			}
			break
		}
		if seal() {
			check(held(primary))
			return
		}
		testkit.Lapse(2 * time.Millisecond)
	}
	t.Logf("begun %t, sealed during the copy %t, SEAL was refused %d times: %v", begun, sealed, refused,
		s.Do("BACKUP", "STATUS").Strings())
	if sealed {
		check(before)
	} else if state, _ := backupState(s); state == "failed" {
		s.Do("BACKUP", "CLEANUP")
		awaitBackup(t, s, "idle")
	}
	s.Do("BACKUP", "START")
	awaitBackup(t, s, "incrementing")
	s.Do("BACKUP", "SEAL")
	check(held(primary))
}
