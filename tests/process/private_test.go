package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestUserDataInTheLog: with hide-user-data-from-log, the log has no bytes of requests, no names of clients and users,
// and no keys. Without the setting, it has them.
func TestUserDataInTheLog(t *testing.T) {
	for _, hides := range []string{"no", "yes"} {
		s := testkit.Start(t, "--client-query-buffer-limit", "1mb", "--hide-user-data-from-log", hides)
		s.Do("ACL", "SETUSER", "secretuser", "on", "nopass", "+@all", "~*", "&*")
		c := s.Dial()
		c.Must("AUTH", "secretuser", "x")
		c.Must("CLIENT", "SETNAME", "secretname")
		c.SendRaw([]byte("*2\r\n$3\r\nGET\r\n$3000000\r\nsecretkey" + strings.Repeat("x", 3_000_000)))
		_ = c.Flush() // an error means that the server has closed the connection early
		s.AwaitLog(testkit.Slowly(20*time.Second), "Closing client that reached max query buffer length: ")
		for _, word := range []string{"secretuser", "secretname", "secretkey"} {
			if has := strings.Contains(s.Log(), word); has != (hides == "no") {
				t.Errorf("hide-user-data-from-log %s: %s in the log: %t", hides, word, has)
			}
		}
		if has := strings.Contains(s.Log(), "name=*redacted*"); has != (hides == "yes") {
			t.Errorf("hide-user-data-from-log %s: names are hidden: %t", hides, has)
		}
	}
	// This file ends inside a key's value.
	for _, hides := range []string{"no", "yes"} {
		s := testkit.Start(t)
		s.Do("SET", "secretkey", strings.Repeat("abcdefgh", 1000))
		s.Do("CONFIG", "SET", "rdbcompression", "no")
		s.Do("SAVE")
		s.Kill()
		path := filepath.Join(s.Dir, "dump.rdb")
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, text[:len(text)/2], 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Crashes()
		s.Again("--hide-user-data-from-log", hides)
		s.AwaitLog(testkit.Slowly(20*time.Second), "Terminating server after rdb file reading failure.")
		s.Wait(testkit.Slowly(20 * time.Second))
		if has := strings.Contains(s.Log(), "secretkey"); has != (hides == "no") {
			t.Errorf("hide-user-data-from-log %s: the key is in the log: %t\n%s", hides, has, s.Log())
		}
	}
}
