package aof

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"spindle/protocol/respclient"
	"spindle/tests/testkit"
)

// TestReloadCutsADamagedEnd: DEBUG LOADAOF cuts the damaged end of the log and loads the rest. Its reply refers the
// client to the server's log, as in Redis. The server logs a successful load only for a complete log. Later writes go
// to the right database, and the log is complete again.
func TestReloadCutsADamagedEnd(t *testing.T) {
	for _, inside := range []bool{false, true} {
		name := "alone"
		if inside {
			name = "in a transaction"
		}
		t.Run(name, func(t *testing.T) {
			s := testkit.Start(t, "--appendonly", "yes", "--appendfsync", "always", "--save", "")
			c := s.Dial()
			for _, line := range []string{"SET a 1", "SELECT 3", "SET b 2"} {
				if v, err := c.Do(words(line)...); err != nil || v.Text != "OK" {
					t.Fatalf("%s: %v, %v", line, v, err)
				}
			}
			if v, err := c.Do("DEBUG", "LOADAOF"); err != nil || v.Text != "OK" {
				t.Fatalf("the whole log: %v, %v", v, err)
			}
			log := s.File("appendonlydir/appendonly.aof.1.incr.aof")
			text, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			whole, _, found := strings.Cut(string(text), "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n")
			if !found {
				t.Fatalf("%q has no SELECT of database 3", text)
			}
			if err := os.WriteFile(log, []byte(whole+"*3\r\n$3\r\nSET\r\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			reload := [][]any{{"DEBUG", "LOADAOF"}}
			if inside {
				reload = [][]any{{"MULTI"}, {"DEBUG", "LOADAOF"}, {"EXEC"}}
			}
			replies, err := c.Pipeline(reload...)
			if err != nil {
				t.Fatal(err)
			}
			last := replies[len(replies)-1]
			if inside {
				last = last.Elems[0]
			}
			if last.Text != "ERR Error trying to load the AOF files, check server logs." {
				t.Errorf("the reply is %q", last.Text)
			}
			s.AwaitLog(testkit.Slowly(10*time.Second),
				"AOF appendonly.aof.1.incr.aof loaded anyway because aof-load-truncated is enabled")
			if n := strings.Count(s.Log(), "Append Only File loaded by DEBUG LOADAOF"); n != 1 {
				t.Errorf("the log says %d times that it was loaded", n)
			}
			if v, err := c.Do("SET", "c", "3"); err != nil || v.Text != "OK" {
				t.Fatalf("%v, %v", v, err)
			}
			s.Terminate()
			s.Restart("--appendonly", "yes", "--aof-load-truncated", "no", "--save", "")
			if got := s.Do("GET", "a").Text; got != "1" {
				t.Errorf("a is %q", got)
			}
			c = s.Dial()
			c.Do("SELECT", 3)
			if v, err := c.Do("GET", "c"); err != nil || v.Text != "3" {
				t.Errorf("c is %v, %v in database 3", v, err)
			}
		})
	}
}

// TestLoadedChangesCount: commands that a start loads from increments are not in the RDB file, so they count as changes
// for the save rules. After DEBUG LOADAOF no changes are counted. Redis counts the same way.
func TestLoadedChangesCount(t *testing.T) {
	for name, start := range map[string]func(testing.TB, ...string) *testkit.Server{"ours": testkit.Start,
		"Redis": testkit.Redis} {
		s := start(t, "--appendonly", "yes", "--save", "")
		for _, key := range []string{"a", "b", "c"} {
			s.Do("SET", key, 1)
		}
		s.Do("RPUSH", "l", 1, 2)
		s.Terminate()
		s.Restart()
		if n := s.InfoInt("persistence", "rdb_changes_since_last_save"); n != 5 {
			t.Errorf("%s: %d changes after a start", name, n)
		}
		s.Do("DEBUG", "LOADAOF")
		if n := s.InfoInt("persistence", "rdb_changes_since_last_save"); n != 0 {
			t.Errorf("%s: %d changes after DEBUG LOADAOF", name, n)
		}
	}
}

// TestReloadIsQuiet: the commands that DEBUG LOADAOF runs reach no subscriber, no MONITOR and no replica. They are not
// written to the log again.
func TestReloadIsQuiet(t *testing.T) {
	s := testkit.Start(t, "--appendonly", "yes", "--appendfsync", "always", "--notify-keyspace-events", "KEA", "--save",
		"", "--aof-use-rdb-preamble", "no", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "3600")
	for _, line := range []string{"SET a 1", "RPUSH l 1 2", "HSET h f v", "SET lapsed x PX 1"} {
		s.Do(words(line)...)
	}
	r := testkit.Start(t, "--replicaof", fmt.Sprint("127.0.0.1 ", s.Port))
	r.AwaitInfo(testkit.Slowly(20*time.Second), "replication", "master_link_status", "up")
	testkit.Until(t, testkit.Slowly(10*time.Second), "the deadline", func() error {
		return testkit.Equal(s.Do("EXISTS", "lapsed").Int, int64(0))
	})
	ears := map[string]*respclient.Client{"subscriber": s.Dial(), "monitor": s.Dial()}
	ears["subscriber"].Do("PSUBSCRIBE", "*")
	ears["monitor"].Do("MONITOR")
	log := s.File("appendonlydir/appendonly.aof.1.incr.aof")
	before, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	offset := s.InfoInt("replication", "master_repl_offset")
	s.Do("DEBUG", "LOADAOF")
	if after, err := os.ReadFile(log); err != nil || string(after) != string(before) {
		t.Errorf("the log was %q, is %q, %v", before, after, err)
	}
	if now := s.InfoInt("replication", "master_repl_offset"); now != offset {
		t.Errorf("the replica was told %d bytes", now-offset)
	}
	s.Do("PUBLISH", "end", "x")
	for name, c := range ears {
		for heard := ""; !strings.Contains(heard, "end"); {
			v, err := c.Receive()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if heard = fmt.Sprintf("%+v", v); strings.Contains(heard, "RPUSH") || strings.Contains(heard, "__key") {
				t.Errorf("the %s hears %s", name, heard)
			}
		}
	}
}
