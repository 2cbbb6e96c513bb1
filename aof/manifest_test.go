package aof

import (
	"errors"
	"strings"
	"testing"

	"spindle/tests/testkit/faulty"
)

// TestManifestTexts: the manifests that Redis accepts are read. Those that Redis refuses are refused with the same
// words, for the same line.
func TestManifestTexts(t *testing.T) {
	const base, incr = "file a.1.base.rdb seq 1 type b\n", "file a.1.incr.aof seq 1 type i\n"
	for _, c := range []struct {
		name, text, reason string
		line               int
	}{
		{"two files", base + incr, "", 0},
		{"a comment", "# made by hand\n" + base, "", 0},
		{"a good end", base + incr + "#end 700 42\n", "", 0},
		{"an end that is none", base + incr + "#end so\n", "", 0},
		{"only a comment", "# nothing\n", "", 0},
		{"an unknown word", "file a.1.base.rdb seq 1 type b later yes\n", "", 0},
		{"gaps in the numbers", incr + "file a.3.incr.aof seq 3 type i\n", "", 0},
		{"blanks in the name", "file \"a b.aof\" seq 1 type i\n", "", 0},
		{"no line end", strings.TrimSuffix(base, "\n"), errManifestLong, 1},
		{"no line end behind a comment", base + "# made by hand", "", 0},
		{"only blanks behind the last line", base + " ", errManifestLong, 2},
		{"a zero for a blank", "file\x00a.1.base.rdb seq 1 type b\n", errManifestLong, 1},
		{"capitals", "FILE a SEQ 1 TYPE b\n", "", 0},
		{"empty", "", errManifestEmpty, 0},
		{"a blank line", incr + "\n" + base, errManifestFormat, 2},
		{"another word", "filx a seq 1 type b\n", errManifestFormat, 1},
		{"too short", base + "file a type i\n", errManifestFormat, 2},
		{"odd", "file a seq 1 type i more\n", errManifestFormat, 1},
		{"no number", "file a seq x type i\n", errManifestFormat, 1},
		{"a quote that does not end", "file \"a seq 1 type i\n", errManifestFormat, 1},
		{"a path", "file a/b seq 1 type i\n", errManifestPath, 1},
		{"two bases", base + base, errManifestTwo, 2},
		{"going back", "file b seq 2 type i\n" + incr, errManifestOrder, 2},
		{"the same number", incr + incr, errManifestOrder, 2},
		{"another type", "file a seq 1 type x\n", errManifestType, 1},
		{"too long", "file " + strings.Repeat("a", 1020) + " seq 1 type b\n", errManifestLong, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := parseManifest([]byte(c.text))
			found := &ManifestError{}
			if c.reason == "" {
				if err != nil {
					t.Fatal(err)
				}
				again, err := parseManifest(append([]byte("#\n"), m.text()...))
				if err != nil || string(again.text()) != string(m.text()) {
					t.Errorf("read back: %v, %q", err, m.text())
				}
			} else if !errors.As(err, &found) || found.Reason != c.reason || found.Line != c.line {
				t.Errorf("%v in line %d", err, found.Line)
			}
		})
	}
}

// TestManifestPowerCut: whenever the power goes off, the manifest is the old one or the new.
func TestManifestPowerCut(t *testing.T) {
	seen := map[int64]int{}
	for seed := range uint64(300) {
		d := faulty.New(seed)
		if err := d.Mkdir("dir", 0o755); err != nil {
			t.Fatal(err)
		}
		f := &folder{disk: d, root: ".", dir: "dir", name: "a"}
		m := &manifest{}
		m.base = &part{"a.1.base.rdb", 1}
		if err := f.write(m); err != nil {
			t.Fatal(err)
		}
		d.CrashAfter(int(seed % 6))
		m.replaceBase(part{"a.2.base.rdb", 2}, 0)
		failed := f.write(m)
		f.disk = d.Crash()
		left, err := f.read()
		if err != nil || left.base == nil || failed == nil && left.base.seq != 2 {
			t.Fatalf("seed %d: %v, %+v; the write said %v", seed, err, left, failed)
		}
		seen[left.base.seq]++
	}
	if seen[1] < 20 || seen[2] < 20 {
		t.Errorf("%v", seen)
	}
}

// TestUpgradePowerCut: a log from before Redis 7 is taken over whole, even if the power goes off meanwhile.
func TestUpgradePowerCut(t *testing.T) {
	for seed := range uint64(300) {
		d := faulty.New(seed)
		f := &folder{disk: d, root: ".", dir: "dir", name: "a"}
		old, _ := d.Open("a", 0x42, 0o644)
		_, _ = old.Write([]byte("old"))
		_ = old.Sync()
		_ = d.SyncDir(".")
		d.CrashAfter(int(seed % 9))
		takeOver := func(m *manifest) error {
			if !f.apart(m) {
				return nil
			}
			m.base, m.baseSeq = &part{f.name, 1}, 1
			return f.upgrade(m)
		}
		_ = takeOver(&manifest{})
		for range 3 { // the second and third starts
			d = d.Crash()
			f.disk = d
			m, err := f.read()
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if err := takeOver(m); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, d)
			}
			if p, _ := d.Content("dir/a"); m.base == nil || m.base.name != "a" || string(p) != "old" {
				t.Fatalf("seed %d: %+v, %q\n%s", seed, m.base, p, d)
			}
		}
	}
}
