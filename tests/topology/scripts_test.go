package topology

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestQueuedScripts: EXEC checks a queued script by the script's own flags, in the role that the server has at that
// time.
func TestQueuedScripts(t *testing.T) {
	s, other := testkit.Start(t), testkit.Start(t)
	c := s.Dial()
	c.Do("MULTI")
	c.Do("EVAL", "#!lua\nreturn 1", 0)
	reads := s.Dial()
	reads.Do("MULTI")
	reads.Do("EVAL", "#!lua flags=no-writes\nreturn 1", 0)
	s.Do("REPLICAOF", "127.0.0.1", other.Port)
	up(t, s)
	want := "EXECABORT Transaction discarded because of: READONLY You can't write against a read only replica."
	if v, _ := c.Do("EXEC"); v.Text != want {
		t.Errorf("EXEC of a script that may write: %v", v)
	}
	if v, _ := reads.Do("EXEC"); v.Err() != nil {
		t.Errorf("EXEC of a script that may not: %v", v)
	}
}

// TestScriptOutlivesReplicas: a script that has written may continue to write even if min-replicas-to-write is no
// longer met.
func TestScriptOutlivesReplicas(t *testing.T) {
	s := testkit.Start(t, "--busy-reply-threshold", "10")
	r := follow(t, s, false)
	online(t, s, 1)
	s.Do("CONFIG", "SET", "min-replicas-to-write", "1")
	c, done := s.Dial(), make(chan string, 1)
	go func() {
		v, err := c.Do("EVAL", `
			redis.call('SET', 'x', 'before')
			while not string.find(redis.call('INFO', 'replication'), 'connected_slaves:0') do end
			redis.call('SET', 'x', 'after')
			return 'done'`, 0)
		if err != nil {
			v.Text = err.Error()
		}
		done <- v.Text
	}()
	testkit.Until(t, testkit.Slowly(10*time.Second), "a busy script", func() error {
		v, err := s.Ask("PING")
		if err == nil && !strings.HasPrefix(v.Text, "BUSY") {
			err = testkit.Equal(v.Text, "BUSY")
		}
		return err
	})
	r.Do("REPLICAOF", "NO", "ONE")
	if got := <-done; got != "done" {
		t.Errorf("the script ended with %s", got)
	}
	if v := s.Do("GET", "x"); v.Text != "after" {
		t.Errorf("x is %v", v)
	}
	if v, _ := s.Ask("SET", "x", "y"); !strings.HasPrefix(v.Text, "NOREPLICAS") {
		t.Errorf("a write without replicas: %v", v)
	}
}

// TestTransactionAdmittedWhole: the server's state at the start of a transaction decides about all of its writes. Here
// one of its scripts lasts until that state has changed. All of the writes are made, or none.
func TestTransactionAdmittedWhole(t *testing.T) {
	t.Parallel()
	const busy = `repeat until string.find(redis.call('INFO', ARGV[1]), ARGV[2]) `
	const set = `return redis.call('SET', KEYS[1], '1')`
	for _, c := range []struct {
		name, section, until string
		prepare              func(t *testing.T) (s *testkit.Server, cause func())
		refused              bool // at the start; afterwards, the opposite
	}{
		{name: "a replica leaves", section: "replication", until: "connected_slaves:0",
			prepare: func(t *testing.T) (*testkit.Server, func()) {
				s := testkit.Start(t, "--busy-reply-threshold", "10")
				r := follow(t, s, false)
				online(t, s, 1)
				s.Do("CONFIG", "SET", "min-replicas-to-write", "1")
				return s, func() { r.Do("REPLICAOF", "NO", "ONE") }
			}},
		{name: "a replica acknowledges again", section: "replication", until: "min_slaves_good_slaves:1", refused: true,
			prepare: func(t *testing.T) (*testkit.Server, func()) {
				s := testkit.Start(t, "--busy-reply-threshold", "10")
				r := follow(t, s, false)
				online(t, s, 1)
				r.Signal(syscall.SIGSTOP)
				s.Do("CONFIG", "SET", "min-replicas-to-write", "1", "min-replicas-max-lag", "1")
				s.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "min_slaves_good_slaves", "0")
				return s, func() { r.Signal(syscall.SIGCONT) }
			}},
		{name: "a save fails", section: "persistence", until: "rdb_last_bgsave_status:err",
			prepare: func(t *testing.T) (*testkit.Server, func()) {
				s := testkit.Start(t, "--busy-reply-threshold", "10", "--save", "3600 1")
				saveSlowly(s)
				return s, func() { blockFile(t, s) }
			}},
		{name: "a save succeeds", section: "persistence", until: "rdb_last_bgsave_status:ok", refused: true,
			prepare: func(t *testing.T) (*testkit.Server, func()) {
				s := testkit.Start(t, "--busy-reply-threshold", "10", "--save", "3600 1")
				blockFile(t, s)
				s.Do("BGSAVE")
				s.AwaitInfo(testkit.Slowly(20*time.Second), "persistence", "rdb_last_bgsave_status", "err")
				if err := os.Remove(s.File("dump.rdb")); err != nil {
					t.Fatal(err)
				}
				saveSlowly(s)
				return s, func() {}
			}},
	} {
		transactions := map[string][][]any{
			"scripts": {{"EVAL", set, 1, "{x}1"}, {"EVAL", busy + set, 1, "{x}2", c.section, c.until}, {"EVAL", set, 1, "{x}3"}},
		}
		if !c.refused { // else this one would be refused as a whole
			transactions["commands and scripts"] = [][]any{{"EVAL", busy + set, 1, "{x}1", c.section, c.until},
				{"SET", "{x}2", "1"}, {"EVAL", "#!lua\n" + set, 1, "{x}3"}}
		}
		for name, queued := range transactions {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				s, cause := c.prepare(t)
				requests := append(append([][]any{{"MULTI"}}, queued...), []any{"EXEC"})
				cl, done := s.Dial(), make(chan respclient.Value, 1)
				go func() {
					all, err := cl.Pipeline(requests...)
					if err != nil {
						t.Error(err)
						all = []respclient.Value{{}}
					}
					done <- all[len(all)-1]
				}()
				testkit.Until(t, testkit.Slowly(10*time.Second), "a busy script", func() error {
					v, err := s.Ask("ECHO", "idle")
					if err == nil && !strings.HasPrefix(v.Text, "BUSY") {
						err = testkit.Equal(v.Text, "BUSY")
					}
					return err
				})
				cause()
				exec := <-done
				v, _ := s.Ask("SET", "{x}after", "1")
				if (v.Err() == nil) != c.refused {
					t.Errorf("a write afterwards: %v", v)
				}
				if n := s.Do("EXISTS", "{x}1", "{x}2", "{x}3").Int; n != 3 && !c.refused || n != 0 && c.refused {
					t.Errorf("%d of 3 keys are there after %v", n, exec)
				}
			})
		}
	}
}

// saveSlowly begins a save that takes some seconds.
func saveSlowly(s *testkit.Server) {
	s.Do("CONFIG", "SET", "rdb-key-save-delay", 5000)
	s.Do("DEBUG", "POPULATE", 500)
	s.Do("BGSAVE")
}

// blockFile makes a folder in the place of the RDB file, so that no save can succeed.
func blockFile(t *testing.T, s *testkit.Server) {
	if err := os.Mkdir(s.File("dump.rdb"), 0o755); err != nil {
		t.Error(err)
	}
}
