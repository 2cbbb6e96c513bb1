package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"spindle/tests/testkit"
)

// TestCheckRDB: under redis-check-rdb's name every line of that tool about a whole file is there, and its exit code,
// for files of either server.
func TestCheckRDB(t *testing.T) {
	link := filepath.Join(t.TempDir(), "redis-check-rdb")
	if err := os.Symlink(testkit.Spindle(t), link); err != nil {
		t.Fatal(err)
	}
	reference := testkit.Program(t, "redis-check-rdb")
	for _, s := range []*testkit.Server{testkit.Start(t), testkit.Redis(t)} {
		s.Do("SET", "k", "v", "EX", "1000")
		s.Do("RPUSH", "l", "a", "b")
		s.Do("ZADD", "z", "1", "a")
		s.Do("XADD", "x", "1-1", "f", "v")
		s.Do("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 1 end)")
		c := s.Dial()
		c.Must("SELECT", "9")
		c.Must("SADD", "s", "1", "2")
		s.Do("SAVE")
		whole, err := os.ReadFile(s.File("dump.rdb"))
		if err != nil {
			t.Fatal(err)
		}
		flipped := []byte(strings.Replace(string(whole), "lname", "lnane", 1))
		flipped[len(flipped)-12] ^= 1
		for name, file := range map[string][]byte{"whole": whole, "cut": whole[:len(whole)-30], "flipped": flipped,
			"empty": nil, "foreign": []byte("<html></html>\n")} {
			path := s.File(name + ".rdb")
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			want, code := testkit.Run(t, time.Minute, "", reference, path)
			out, ours := testkit.Run(t, time.Minute, "", link, path)
			if (code != 0) != (ours != 0) || (ours != 0) != strings.Contains(out, "--- RDB ERROR DETECTED ---\n") {
				t.Errorf("%s: exit code %d, redis-check-rdb %d: %s", name, ours, code, out)
			}
			for line := range strings.Lines(want) {
				if code == 0 && !strings.Contains(out, line) {
					t.Errorf("%s: no line %q in %s", name, line, out)
				}
			}
		}
	}
	for _, args := range [][]string{nil, {"--nosuch"}, {"/nowhere/a.rdb"}} {
		if out, code := testkit.Run(t, time.Minute, "", link, args...); code != 1 || out == "" {
			t.Errorf("%v: %d %s", args, code, out)
		}
	}
}
