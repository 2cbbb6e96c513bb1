package server

import (
	"bufio"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"spindle/internal/setting"
)

// newRegistry has the rows of this package alone: their owners' rows are theirs to test.
func newRegistry(t testing.TB) (*Settings, *setting.Registry) {
	t.Helper()
	s := &Settings{}
	registry, err := NewRegistry(s)
	if err != nil {
		t.Fatal(err)
	}
	return s, registry
}

// matchAny is glob matching good enough for names.
func matchAny(pattern, name string) bool {
	ok, _ := path.Match(strings.ToLower(pattern), name)
	return ok
}

// reference reads testdata/reference.tsv: name, default, flags.
func reference(t *testing.T) [][]string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "reference.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var rows [][]string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if line := lines.Text(); !strings.HasPrefix(line, "#") {
			rows = append(rows, strings.Split(line, "\t"))
		}
	}
	return rows
}

// TestReference holds names, defaults and flags to the reference server's.
func TestReference(t *testing.T) {
	_, registry := newRegistry(t)
	shown := map[string]bool{}
	for _, p := range registry.Get([]string{"*"}, matchAny) {
		shown[p.Name] = true
	}
	names := map[string]bool{}
	for _, r := range reference(t) {
		name, deflt, flags := r[0], r[1], r[2]
		names[name] = true
		row := registry.Lookup(name)
		if row == nil {
			t.Errorf("%s: no such setting", name)
			continue
		}
		if name != "dir" && row.Default() != deflt {
			t.Errorf("%s: default %q, the reference has %q", name, row.Default(), deflt)
		}
		if shown[name] == strings.Contains(flags, "hidden") {
			t.Errorf("%s: shown by CONFIG GET *: %v", name, shown[name])
		}
		for flag, bit := range map[string]setting.Flags{"immutable": setting.Immutable, "protected": setting.Protected} {
			if strings.Contains(flags, flag) != (row.Flags&bit != 0) {
				t.Errorf("%s: %s: %v", name, flag, row.Flags&bit != 0)
			}
		}
	}
	for name := range shown {
		if !names[name] {
			t.Errorf("%s: the reference does not have it; a setting of spindle's own belongs to ownSettings in this test", name)
		}
	}
}

// TestSetBack sets every setting to what CONFIG GET says: nothing changes, and what cannot be set says why.
func TestSetBack(t *testing.T) {
	_, registry := newRegistry(t)
	t.Chdir(t.TempDir())
	before := registry.Get([]string{"*"}, matchAny)
	for _, p := range before {
		err := registry.SetMany([]setting.Pair{p}, setting.Conditions{Protected: true})
		immutable := registry.Lookup(p.Name).Flags&setting.Immutable != 0
		switch {
		case immutable && (err == nil || !strings.HasSuffix(err.Error(), "can't set immutable config")):
			t.Errorf("%s: immutable, but: %v", p.Name, err)
		case !immutable && err != nil:
			t.Errorf("%s: %v", p.Name, err)
		}
	}
	after := registry.Get([]string{"*"}, matchAny)
	for i := range before {
		if before[i] != after[i] {
			t.Errorf("%v became %v", before[i], after[i])
		}
	}
}
