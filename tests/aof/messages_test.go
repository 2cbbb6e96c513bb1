package aof

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// send adds a producer's message to a stream with XADD IDMP, and returns its entry ID.
func send(s *testkit.Server, key string, i int) string {
	return s.Do("XADD", key, "IDMP", fmt.Sprint("p", i%7), fmt.Sprint("m", i), "*", "f", i).Text
}

// remembered returns the fields of XINFO STREAM about remembered messages. It leaves out the number of duplicates,
// which no log has.
func remembered(s *testkit.Server, key string) string {
	words := s.Do("XINFO", "STREAM", key).Elems
	var all []string
	for i := 0; i+1 < len(words); i += 2 {
		switch name := words[i].Text; name {
		case "idmp-duration", "idmp-maxsize", "pids-tracked", "iids-tracked", "iids-added":
			all = append(all, fmt.Sprint(name, " ", words[i+1].Int))
		}
	}
	return strings.Join(all, ", ")
}

// TestMessagesInTheLog: the log has the remembered messages of producers and the limits of their streams, even if a
// transaction or script added them. After a crash no message is added a second time. A server with other settings keeps
// the limits.
func TestMessagesInTheLog(t *testing.T) {
	for _, limits := range [][2]string{{"100", "100"}, {"80000", "20"}} {
		t.Run("most="+limits[1], func(t *testing.T) {
			t.Parallel()
			s := testkit.Start(t, "--appendonly", "yes", "--appendfsync", "always", "--save", "",
				"--stream-idmp-duration", limits[0], "--stream-idmp-maxsize", limits[1])
			first := send(s, "s", 1000)
			var entries []string
			for i := range 300 {
				entries = append(entries, send(s, "s", i))
			}
			c := s.Dial()
			replies, err := c.Pipeline([]any{"MULTI"}, []any{"XADD", "s", "IDMP", "t", "1", "MAXLEN", "0", "*", "f", "v"},
				[]any{"XADD", "s", "IDMP", "t", "1", "*", "f", "v"}, []any{"XADD", "new", "IDMPAUTO", "t", "*", "a", "1", "b", "2"},
				[]any{"EXEC"})
			if err != nil {
				t.Fatal(err)
			}
			exec := replies[4].Strings()
			if len(exec) != 3 || exec[0] != exec[1] {
				t.Fatalf("EXEC replies %q", exec)
			}
			s.Do("EVAL", "for i = 1, 3 do redis.call('XADD', KEYS[1], 'IDMP', 'script', i % 2, '*', 'f', 'v') end", 1, "s")
			s.Do("XADD", "set", "*", "f", "v")
			s.Do("XCFGSET", "set", "IDMP-MAXSIZE", 5, "IDMP-DURATION", 1000)
			for i := range 100 {
				send(s, "set", i)
			}
			keys := []string{"s", "new", "set"}
			want := map[string]string{}
			for _, key := range keys {
				want[key] = remembered(s, key)
			}
			digest := s.Do("DEBUG", "DIGEST").Text
			check := func(when string) {
				t.Helper()
				for _, key := range keys {
					if got := remembered(s, key); got != want[key] {
						t.Errorf("%s: %s has %s, want %s", when, key, got, want[key])
					}
				}
				if got := s.Do("DEBUG", "DIGEST").Text; got != digest {
					t.Errorf("%s: another digest", when)
				}
			}
			s.Do("DEBUG", "LOADAOF")
			check("DEBUG LOADAOF")
			s.Kill()
			s.Restart("--stream-idmp-duration", "500", "--stream-idmp-maxsize", "7")
			check("a crash")
			most := 100
			if limits[1] == "20" {
				most = 20
			}
			for i := max(0, 300-5*most); i < 300; i++ { // each producer has at least these
				if got := send(s, "s", i); got != entries[i] {
					t.Fatalf("message %d is entry %s, and was %s", i, got, entries[i])
				}
			}
			if got := s.Do("XADD", "s", "IDMP", "t", "1", "*", "f", "v").Text; got != exec[0] {
				t.Errorf("a message of EXEC, trimmed at once, is entry %s, and was %s", got, exec[0])
			}
			if got := s.Do("XADD", "new", "IDMPAUTO", "t", "*", "b", "2", "a", "1").Text; got != exec[2] {
				t.Errorf("the message of IDMPAUTO is entry %s, and was %s", got, exec[2])
			}
			if got := send(s, "s", 1000); (got == first) != (most == 100) {
				t.Errorf("the oldest message is entry %s, and was %s", got, first)
			}
		})
	}
}

// TestMessagesInFiles: RDB files and bases have the remembered messages of producers if their version supports them.
// Otherwise the stream is saved without them. A file has the messages as of the call, even if others come while it is
// written.
func TestMessagesInFiles(t *testing.T) {
	for _, version := range []string{"10", "11", "12", "13"} {
		for _, form := range []string{"SAVE", "BGSAVE", "preamble", "commands"} {
			t.Run(form+" "+version, func(t *testing.T) {
				t.Parallel()
				args := []string{"--rdb-write-version", version, "--save", ""}
				if form == "preamble" || form == "commands" {
					args = append(args, "--appendonly", "yes",
						"--aof-use-rdb-preamble", map[string]string{"preamble": "yes", "commands": "no"}[form])
				}
				s := testkit.Start(t, args...)
				var entries []string
				for i := range 200 {
					entries = append(entries, send(s, "s", i))
				}
				s.Do("XADD", "limits", "*", "f", "v")
				s.Do("XCFGSET", "limits", "IDMP-MAXSIZE", 5)
				length := s.Do("XLEN", "s").Int
				memory, limits := remembered(s, "s"), remembered(s, "limits")
				switch form {
				case "SAVE":
					s.Do("SAVE")
				case "BGSAVE":
					for i := range 100 {
						s.Do("SET", fmt.Sprint("other", i), "v")
					}
					s.Do("CONFIG", "SET", "rdb-key-save-delay", "3000")
					s.Do("BGSAVE")
					for i := range 400 { // of the same producers, so that older messages are forgotten
						send(s, "s", 200+i)
						if i == 200 {
							s.Do("XCFGSET", "s", "IDMP-MAXSIZE", 90)
						}
					}
					s.Do("RENAME", "s", "moved")
					s.Do("DEL", "limits")
					s.Do("CONFIG", "SET", "rdb-key-save-delay", "0")
					s.AwaitInfo(testkit.Slowly(20*time.Second), "persistence", "rdb_bgsave_in_progress", "0")
				default:
					s.Do("BGREWRITEAOF")
					s.AwaitInfo(testkit.Slowly(20*time.Second), "persistence", "aof_rewrite_in_progress", "0")
					s.AwaitInfo(time.Second, "persistence", "aof_last_bgrewrite_status", "ok")
				}
				s.Kill()
				s.Restart()
				if got := s.Do("XLEN", "s").Int; got != length {
					t.Errorf("the stream has %d entries, want %d", got, length)
				}
				if version != "13" {
					memory, limits = "", ""
				}
				if got := remembered(s, "s"); got != memory {
					t.Errorf("it remembers %s, want %s", got, memory)
				}
				if got := remembered(s, "limits"); got != limits {
					t.Errorf("the other has %s, want %s", got, limits)
				}
				for i, entry := range entries {
					if got := send(s, "s", i); (got == entry) != (version == "13") {
						t.Fatalf("message %d is entry %s, and was %s", i, got, entry)
					}
				}
			})
		}
	}
}

// TestMessagesOfOthers: a log of Redis 8.8 is loaded. It may have XIDMPRECORD after an entry, and XCFGSET.
func TestMessagesOfOthers(t *testing.T) {
	s := testkit.Start(t, "--appendonly", "yes", "--appendfsync", "always", "--save", "")
	id := fmt.Sprint(time.Now().UnixMilli(), "-1")
	s.Do("XADD", "s", id, "f", "v")
	s.Do("XCFGSET", "s", "IDMP-DURATION", 1000, "IDMP-MAXSIZE", 9)
	s.Do("XIDMPRECORD", "s", "p", "m", id)
	want := remembered(s, "s")
	s.Kill()
	s.Restart()
	if got := remembered(s, "s"); got != want {
		t.Errorf("it remembers %s, want %s", got, want)
	}
	if got := s.Do("XADD", "s", "IDMP", "p", "m", "*", "f", "v").Text; got != id {
		t.Errorf("the message is entry %s, want %s", got, id)
	}
}

// TestMessagesInPayloads: a DUMP payload has the remembered messages if rdb-write-version supports them. A copied or
// renamed stream has them. A stream that is deleted and created again has none.
func TestMessagesInPayloads(t *testing.T) {
	for _, version := range []string{"11", "13"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := testkit.Start(t, "--rdb-write-version", version)
			entry := send(s, "s", 1)
			send(s, "s", 2)
			want := remembered(s, "s")
			s.Do("COPY", "s", "copy")
			s.Do("RESTORE", "restored", 0, s.Do("DUMP", "s").Text)
			s.Do("RENAME", "s", "renamed")
			s.Do("COPY", "renamed", "moved")
			s.Do("MOVE", "moved", 1)
			for _, key := range []string{"copy", "renamed", "restored"} {
				has := key != "restored" || version == "13"
				if got := remembered(s, key); (got == want) != has {
					t.Errorf("%s has %s, want %s", key, got, want)
				}
				if got := send(s, key, 1); (got == entry) != has {
					t.Errorf("%s: the message is entry %s, and was %s", key, got, entry)
				}
			}
			c := s.Dial()
			for _, call := range []string{"SELECT 1", "XADD moved IDMP p1 m1 * f v", "SWAPDB 0 1", "SELECT 0",
				"XADD moved IDMP p1 m1 * f v"} {
				v, err := c.Do(words(call)...)
				if err != nil || strings.HasPrefix(call, "XADD") && v.Text != entry {
					t.Errorf("%s: %v, %v, want %s", call, v, err, entry)
				}
			}
			for _, drop := range []string{"DEL moved", "UNLINK moved", "SET moved v", "FLUSHDB", "FLUSHALL ASYNC"} {
				send(s, "moved", 1)
				s.Do(words(drop)...)
				s.Do("DEL", "moved")
				send(s, "moved", 1)
				if got := s.Do("XLEN", "moved").Int; got != 1 {
					t.Errorf("%s: %d entries of a message that comes again", drop, got)
				}
			}
			if !slices.Contains(s.Do("XINFO", "STREAM", "moved").Strings(), "iids-added") {
				t.Error("a stream with a producer has no iids-added")
			}
		})
	}
}
