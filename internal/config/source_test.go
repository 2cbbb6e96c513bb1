package config

import (
	"os"
	"path/filepath"
	"testing"
)

// TestIncludedFiles: a pattern does not match hidden files, unless it says the dot. A file without a line end at its
// end keeps its last line, and the next file its first.
func TestIncludedFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"1.conf": "port 1\n# the end", "2.conf": "requirepass a", "3.conf": "hz 5\n",
		".2.conf": "port 2\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/nowhere", filepath.Join(dir, ".#3.conf")); err != nil { // as an editor leaves it
		t.Fatal(err)
	}
	for _, c := range []struct{ pattern, want string }{
		{"*.conf", "port 1\n# the end\nrequirepass a\nhz 5\n"},
		{".2*", "port 2\n"},
		{"nothing*", ""},
	} {
		var text source
		if err := readFiles(filepath.Join(dir, c.pattern), &text); err != nil || text.String() != c.want {
			t.Errorf("%s: %q, %v; want %q", c.pattern, text.String(), err, c.want)
		}
		if c.pattern == "*.conf" && text.place(3) != filepath.Join(dir, "2.conf")+":1" {
			t.Errorf("line 3 is %s", text.place(3))
		}
	}
}
