package process

import (
	"os"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestUsersOfTheConfiguration: user lines make users, CONFIG REWRITE writes what they have become, and a restart knows
// it.
func TestUsersOfTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	conf := dir + "/a.conf"
	text := "requirepass first\nuser alice on >pw ~app:* resetchannels -@all +get +set\nuser gone on nopass\n"
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s := testkit.Launch(t, testkit.Spec{Dir: dir, Args: []string{conf}, Password: "first"})
	alice := s.Dial()
	testkit.MustBe(t, "OK", alice.Must("AUTH", "alice", "pw"))
	testkit.MustBe(t, "OK", alice.Must("SET", "app:1", "v"))
	s.Do("ACL", "DELUSER", "gone")
	s.Do("ACL", "SETUSER", "bob", "on", "nopass", "+ping")
	s.Do("CONFIG", "REWRITE")
	written, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"user alice on sanitize-payload #", "user bob on nopass", "user default on", "requirepass"} {
		if !strings.Contains(string(written), want) {
			t.Errorf("no %q in %s", want, written)
		}
	}
	if strings.Contains(string(written), "user gone") || strings.Contains(string(written), ">pw") {
		t.Errorf("%s", written)
	}
}
