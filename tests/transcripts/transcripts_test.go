package transcripts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// startServer starts a server for one test, unless SPINDLE_SERVER names one, and returns its address.
func startServer(t *testing.T) string {
	if address := os.Getenv("SPINDLE_SERVER"); address != "" {
		return address
	}
	return testkit.Start(t, "--enable-debug-command", "yes").Addr
}

// TestReplay checks the server against every transcript, in RESP2 and RESP3.
func TestReplay(t *testing.T) {
	paths, err := filepath.Glob("*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	server := startServer(t)
	for _, path := range paths {
		script, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, protocol := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s/RESP%d", strings.TrimSuffix(path, ".txt"), protocol), func(t *testing.T) {
				began := time.Now()
				err := Play(script, server, protocol, func(s *Step, reply []string) error {
					if err := s.CheckAfter(time.Since(began), protocol, reply); err != nil {
						t.Errorf("%s:%d: %s: %v", path, s.Line, s.Text, err)
					}
					began = began.Add(s.Sleep) // a pause in the recording, which the reply includes
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestCheckAfter: a delay of the host by a second makes no transcript fail. No other difference is excused.
func TestCheckAfter(t *testing.T) {
	for _, c := range []struct {
		command, want, got string
		passed             time.Duration
		ok                 bool
	}{
		{"TTL k", ":100", ":100", 0, true},
		{"TTL k", ":100", ":99", 499 * time.Millisecond, false},
		{"ttl k", ":100", ":99", 500 * time.Millisecond, true},
		{"TTL k", ":100", ":98", time.Second, false},
		{"TTL k", ":100", ":97", 3 * time.Second, true},
		{"TTL k", ":100", ":101", time.Hour, false},
		{"TTL k", ":100", ":-1", time.Hour, false},
		{"TTL k", ":-1", ":-2", time.Hour, false},
		{"TTL k", ":1", "$1", time.Hour, false},
		{"PTTL k", ":100", ":99", time.Hour, false},
		{"STRLEN k", ":100", ":99", time.Hour, false},
		{"HTTL h FIELDS 3 a b c", "*3 :100 :-1 :7", "*3 :99 :-1 :7", time.Second, true},
		{"HTTL h FIELDS 3 a b c", "*3 :100 :-1 :7", "*3 :99 :-1 :5", time.Second, false},
		{"HTTL h FIELDS 3 a b c", "*3 :100 :-1 :7", "*3 :99 :-1", time.Second, false},
		{"OBJECT IDLETIME k", ":0", ":1", 0, true},
		{"OBJECT IDLETIME k", ":0", ":2", 900 * time.Millisecond, false},
		{"OBJECT IDLETIME k", ":5", ":4", time.Hour, false},
		{"OBJECT REFCOUNT k", ":1", ":2", time.Hour, false},
	} {
		s := &Step{Args: strings.Fields(c.command)}
		s.Reply[2] = strings.Fields(c.want)
		if err := s.CheckAfter(c.passed, 2, strings.Fields(c.got)); (err == nil) != c.ok {
			t.Errorf("%s, %s for %s after %v: %v", c.command, c.got, c.want, c.passed, err)
		}
	}
}

func TestSplit(t *testing.T) {
	for line, want := range map[string][]string{
		`GET k`:              {"GET", "k"},
		`SET  k "a b\r\n\""`: {"SET", "k", "a b\r\n\""},
		`SET k ""`:           {"SET", "k", ""},
		`SET k "\x00\xff"`:   {"SET", "k", "\x00\xff"},
		`SET k {3*ab}c`:      {"SET", "k", "abababc"},
	} {
		got, err := split(line)
		if err != nil || strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("split(%q) = %q, %v; want %q", line, got, err, want)
		}
	}
	if _, err := split(`SET k "open`); err == nil {
		t.Error("an open quote was accepted")
	}
}
