package topology

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// These tests check the files of a replica when full copies arrive, fail, and coincide with the replica's own saves.

// TestCopyDuringSaves: a save of the old data and a full copy run at the same time without harm. A replica that is
// killed after the copy has the primary's data on disk.
func TestCopyDuringSaves(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"disabled", "on-empty-db", "swapdb"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := testkit.Start(t, "--rdb-key-save-delay", "100", "--rdbcompression", "no")
			s.Do("DEBUG", "POPULATE", 1000, "new", 200)
			r := testkit.Start(t, "--save", "1 1", "--repl-diskless-load", how)
			r.Do("DEBUG", "POPULATE", 1500, "old", 50)
			r.Do("SAVE")
			r.Do("CONFIG", "SET", "rdb-key-save-delay", "4000") // a save takes longer than the copy
			r.Do("SET", "x", 1)
			r.AwaitInfo(testkit.Slowly(10*time.Second), "persistence", "rdb_bgsave_in_progress", "1")
			r.Do("REPLICAOF", "127.0.0.1", s.Port)
			up(t, r)
			r.Do("CONFIG", "SET", "rdb-key-save-delay", "0")
			testkit.Until(t, testkit.Slowly(20*time.Second), "everything saved", func() error {
				i := r.Info("persistence")
				return testkit.Equal(i["rdb_changes_since_last_save"]+" "+i["rdb_bgsave_in_progress"], "0 0")
			})
			want := s.Do("DEBUG", "DIGEST").Text
			for _, bad := range []string{"Failed trying", "Background saving error"} {
				if strings.Contains(r.Log(), bad) {
					t.Errorf("%q in the log", bad)
				}
			}
			r.Kill()
			s.Kill()
			r.Again("--replicaof", "no", "one", "--save", "")
			r.AwaitReady(testkit.Slowly(20 * time.Second))
			if got := r.Do("DEBUG", "DIGEST").Text; got != want {
				t.Errorf("%d keys are on disk, want the primary's 1000", r.Do("DBSIZE").Int)
			}
			for _, name := range r.Files() {
				if strings.Contains(name, "temp") {
					t.Errorf("%s is left", name)
				}
			}
		})
	}
}

// TestUnreadableCopyKeepsData: if the replica cannot read the header of a full copy, it loses nothing in memory or on
// disk.
func TestUnreadableCopyKeepsData(t *testing.T) {
	t.Parallel()
	newer := file(t)
	copy(newer, "REDIS0099")
	for name, say := range map[string][]byte{
		"a newer version":            sized(newer),
		"a newer version, by a mark": join([]byte("$EOF:"), endMark, []byte("\r\n"), newer, endMark),
		"no RDB file":                sized([]byte("garbage that is long enough")),
		"less than a header":         sized([]byte("REDIS00")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newImposter(t, "--repl-diskless-load", "disabled")
			p.replica.Do("SET", "old", "v")
			p.invite("PSYNC")
			p.say(fullResync("0"), say)
			p.leave()
			p.replica.AwaitLog(testkit.Slowly(20*time.Second), "Failed trying to load the MASTER synchronization DB from disk")
			if got := p.replica.Do("GET", "old").Text; got != "v" {
				t.Errorf("the old data: %q", got)
			}
			if v := p.replica.Do("SAVE"); v.Text != "OK" {
				t.Errorf("SAVE: %s", v.Text)
			}
		})
	}
}

// TestFailedCopyKeepsFiles: if a full copy cannot be loaded, the replica loses its data in memory, but nothing on disk.
// No save rule, command or shutdown saves the remaining data. After a restart without a primary, the replica has its
// earlier data.
func TestFailedCopyKeepsFiles(t *testing.T) {
	t.Parallel()
	copied := file(t)
	broken := bytes.Clone(copied)
	broken[len(broken)-20] ^= 0xFF // a byte in its last value
	for _, c := range []struct {
		name, end string
		say       []byte
		args      []string
	}{
		{"RDB, killed", "kill", sized(broken), nil},
		{"RDB, ended", "term", sized(broken), nil},
		{"log, killed", "kill", sized(broken), []string{"--appendonly", "yes", "--appendfsync", "always"}},
		{"log, ended", "term", sized(broken), []string{"--appendonly", "yes"}},
		{"log, a cut copy", "kill", sized(copied)[:len(copied)-30],
			[]string{"--appendonly", "yes", "--repl-diskless-load", "on-empty-db"}},
		{"log, killed, and promoted", "promote", sized(broken), []string{"--appendonly", "yes", "--appendfsync", "always"}},
		{"RDB, killed, and promoted", "promote", sized(broken), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newImposter(t, append([]string{"--save", "1 1"}, c.args...)...)
			r := p.replica
			r.Do("DEBUG", "POPULATE", 1000, "old", 20)
			r.Do("SAVE")
			r.Do("SET", "x", 1) // a change that makes a save rule due
			if c.args != nil {
				testkit.Until(t, testkit.Slowly(10*time.Second), "the log", func() error {
					v := r.Do("BGREWRITEAOF")
					return v.Err()
				})
				r.AwaitInfo(testkit.Slowly(10*time.Second), "persistence", "aof_rewrite_in_progress", "0")
			}
			want, cut := int64(1000), len(c.say) < len(copied)
			if cut { // with an empty data set, so that the first copy fails because of the disk
				r.Do("CONFIG", "SET", "repl-diskless-load", "disabled")
				p.invite("PSYNC")
				p.say(fullResync("0"), sized(broken))
				p.leave()
				r.AwaitLog(testkit.Slowly(20*time.Second), "Failed trying to load the MASTER synchronization DB from disk")
				r.Do("CONFIG", "SET", "repl-diskless-load", "on-empty-db")
				for !p.welcome("PSYNC") {
				}
			} else {
				p.invite("PSYNC")
			}
			p.say(fullResync("0"), c.say)
			p.leave()
			from := "disk"
			if cut {
				from = "socket"
			}
			r.AwaitLog(testkit.Slowly(20*time.Second), "Failed trying to load the MASTER synchronization DB from "+from)
			testkit.Until(t, testkit.Slowly(10*time.Second), "an empty replica", func() error {
				v, err := r.Ask("DBSIZE")
				if err == nil {
					err = v.Err()
				}
				if err == nil {
					err = testkit.Equal(v.Int, 0)
				}
				return err
			})
			for _, command := range []string{"BGSAVE", "SAVE", "BGREWRITEAOF"} {
				if v, err := r.Ask(command); err != nil || !strings.HasPrefix(v.Text, "ERR The data here are not whole") {
					t.Errorf("%s: %v %v", command, v, err)
				}
			}
			switch c.end {
			case "term":
				if code := r.Terminate(); code != 0 {
					t.Errorf("exit code %d", code)
				}
			case "promote":
				want = 1
				p.tell("NO", "ONE")
				r.Do("SET", "mine", 1)
				if c.args != nil {
					testkit.Until(t, testkit.Slowly(20*time.Second), "the new log", func() error {
						i := r.Info("persistence")
						return testkit.Equal(i["aof_rewrite_scheduled"]+i["aof_rewrite_in_progress"], "00")
					})
					r.Do("SET", "mine", 2)
				} else {
					testkit.Until(t, testkit.Slowly(20*time.Second), "everything saved", func() error {
						i := r.Info("persistence")
						return testkit.Equal(i["rdb_changes_since_last_save"]+" "+i["rdb_bgsave_in_progress"], "0 0")
					})
				}
				r.Kill()
			default:
				ruleTime := time.Now().Add(1500 * time.Millisecond) // the rule of one second would have saved by then
				testkit.Until(t, testkit.Slowly(20*time.Second), "the time of a rule", func() error {
					if i := r.Info("persistence"); i["rdb_bgsave_in_progress"] == "1" {
						t.Fatal("a save has begun")
					}
					if left := time.Until(ruleTime); left > 0 {
						return fmt.Errorf("%v are left", left)
					}
					return nil
				})
				r.Kill()
			}
			r.Again("--replicaof", "no", "one")
			r.AwaitReady(testkit.Slowly(20 * time.Second))
			if got := r.Do("DBSIZE").Int; got != want && !(c.args != nil && c.end != "promote" && got == want+1) {
				t.Errorf("%d keys are on disk, want %s", got, strconv.FormatInt(want, 10))
			}
		})
	}
}

// TestBrokenOffCopies: if the primary breaks off each full copy, the replica retries at growing intervals. The log says
// where to look, and INFO shows why the link is down. After REPLICAOF the replica retries at once.
func TestBrokenOffCopies(t *testing.T) {
	t.Parallel()
	p := newImposter(t)
	copied := file(t)
	breakOff := func() {
		p.say(fullResync("0"), sized(copied)[:100])
		p.leave()
	}
	p.invite("PSYNC")
	breakOff()
	for range 2 { // the attempts come at once and after a second
		for !p.welcome("PSYNC") {
		}
		breakOff()
	}
	p.replica.AwaitLog(testkit.Slowly(20*time.Second), "The primary broke off the full copy after ")
	p.replica.AwaitLog(testkit.Slowly(20*time.Second), " has failed 3 times in a row. It rests for ")
	const why = "the primary broke off the full copy; its log says why"
	if got := p.replica.Info("replication")["master_link_down_reason"]; got != why {
		t.Errorf("master_link_down_reason is %q, want %q", got, why)
	}
	for !p.welcome("PSYNC") { // the third attempt comes after two seconds
	}
	breakOff()
	p.replica.AwaitLog(testkit.Slowly(20*time.Second), " has failed 4 times in a row. It rests for ")
	p.tell("127.0.0.1", p.listener.Addr().(*net.TCPAddr).Port) // the next pause would be three seconds or more
	if n := p.replica.InfoInt("replication", "master_current_sync_attempts"); n < 5 {
		t.Errorf("after REPLICAOF there are %d attempts, and 4 have failed", n)
	}
	for !p.welcome("PSYNC") {
	}
	p.say(fullResync("100"), sized(copied))
	up(t, p.replica)
	if got, ok := p.replica.Info("replication")["master_link_down_reason"]; ok {
		t.Errorf("master_link_down_reason is %q while the link is up", got)
	}
}

// TestNoCopyIsLeft: a server that ends while it receives a full copy leaves no part of the copy on disk.
func TestNoCopyIsLeft(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, "--save", "", "--rdb-key-save-delay", "2000", "--repl-diskless-sync-delay",
		"0")
	s.Do("DEBUG", "POPULATE", 20_000, "k", 100)
	r := testkit.Start(t, "--save", "", "--replicaof", fmt.Sprint("127.0.0.1 ", s.Port))
	testkit.Until(t, testkit.Slowly(20*time.Second), "the copy", func() error {
		return testkit.Equal(len(r.Files()), 1)
	})
	r.Terminate()
	if left := r.Files(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}
