package tidy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheRootHasNoTurnCode: the composition root only connects the parts; code that runs inside turns is in other
// packages.
func TestTheRootHasNoTurnCode(t *testing.T) {
	found, err := TurnCode(root, "server")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Errorf("%s: it belongs to the package of a feature", f)
	}
}

func TestTurnCodeIsFound(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	const text = `package x

// a counts. It runs in a turn.
func a() {}

func (s *server) tick(int64) {}

func (s *server) join(p *part.Part) {
	p.Listeners = []part.Listeners{{Tick: s.tick}, {Gone: s.hub.Forget}}
	l := part.Listeners{Tick: s.tick}
	p.Reset = func() { a() }
	p.Stop = func() { a() }
	s.core.Do(func() {
		s.one()
		s.two()
		s.three()
		s.four()
		s.five()
		s.six()
	})
}
`
	if err := os.WriteFile(filepath.Join(dir, "x", "x.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := TurnCode(dir, "x")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range found {
		lines = append(lines, strings.Split(f, ":")[1])
	}
	if got := strings.Join(lines, " "); got != "4 9 10 11 13" {
		t.Errorf("found in lines %s:\n%s", got, strings.Join(found, "\n"))
	}
}
