package transcripts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spindle/tests/testkit"
)

// startServer starts a server for one test, unless SPINDLE_SERVER names one, and returns its address.
func startServer(t *testing.T) string {
	if address := os.Getenv("SPINDLE_SERVER"); address != "" {
		return address
	}
	return testkit.Start(t, "--enable-debug-command", "yes").Addr
}

// TestReplay holds the server to every transcript, in RESP2 and RESP3.
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
				err := Play(script, server, protocol, func(s *Step, reply []string) error {
					if err := s.Check(protocol, reply); err != nil {
						t.Errorf("%s:%d: %s: %v", path, s.Line, s.Text, err)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
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
