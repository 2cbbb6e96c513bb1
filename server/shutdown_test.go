package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spindle/protocol/respclient"
)

// dial waits for the server's socket.
func (s *started) dial() *respclient.Client {
	s.t.Helper()
	s.await("Ready to accept connections")
	c, err := respclient.Dial("unix:" + filepath.Join(s.dir, "s"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	c.SetTimeout(patience)
	return c
}

// TestShutdownThatFails: the log has the words that monitoring looks for, and FORCE ends the server all the same.
func TestShutdownThatFails(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	s := start(t, asServer, "", "--dir", data)
	c := s.dial()
	c.Must("SET", "k", "v")
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	if v, _ := c.Do("SHUTDOWN", "SAVE"); v.Text != "ERR Errors trying to SHUTDOWN. Check logs." {
		t.Errorf("SHUTDOWN SAVE: %v", v)
	}
	inOrder(t, s.log(), " * User requested shutdown...\n", " # Error trying to save the DB, can't exit.\n",
		" # Errors trying to shut down the server. Check the logs for more information.\n")
	before := len(s.log())
	_, _ = c.Do("SHUTDOWN", "SAVE", "FORCE")
	if status := s.exit(); status.ExitStatus() != 0 {
		t.Errorf("ended with %v", status)
	}
	log := s.log()[before:]
	inOrder(t, log, " * User requested shutdown...\n", " # Error trying to save the DB. Exit anyway.\n", "bye bye")
	if strings.Contains(log, "Errors trying to shut down") {
		t.Errorf("the log:\n%s", log)
	}
}

// inOrder fails unless log contains the texts in this order.
func inOrder(t *testing.T, log string, texts ...string) {
	t.Helper()
	rest := log
	for _, text := range texts {
		_, behind, found := strings.Cut(rest, text)
		if !found {
			t.Errorf("no %q where it belongs in\n%s", text, log)
		}
		rest = behind
	}
}
