package tidy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// These limits bound the size of the composition root.
const (
	mostMethods = 30   // of instance
	mostLines   = 1800 // of server/
	mostInFile  = 300  // lines of one of its files
)

var ofInstance = regexp.MustCompile(`(?m)^func \(\w+ \*?instance\) `)

// productFiles returns the texts of the Go files in a folder, without tests.
func productFiles(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(text)
	}
	return texts
}

// TestTheRootIsSmall: server/ stays small.
func TestTheRootIsSmall(t *testing.T) {
	methods, lines := 0, 0
	for file, text := range productFiles(t, "server") {
		n := strings.Count(text, "\n")
		methods, lines = methods+len(ofInstance.FindAllString(text, -1)), lines+n
		if n > mostInFile {
			t.Errorf("%s has %d lines, at most %d are allowed", file, n, mostInFile)
		}
	}
	t.Logf("server: %d methods of instance (%d allowed), %d lines (%d allowed)", methods, mostMethods, lines, mostLines)
	if methods == 0 || methods > mostMethods || lines > mostLines {
		t.Error("the composition root is too large, or the test looks at the wrong place")
	}
}

// mostOfLane is the maximum number of lines of lane/. The lane has few commands, and other packages implement them.
const mostOfLane = 350

func TestTheLaneIsSmall(t *testing.T) {
	lines := 0
	for _, text := range productFiles(t, "lane") {
		lines += strings.Count(text, "\n")
	}
	t.Logf("lane: %d lines (%d allowed)", lines, mostOfLane)
	if lines == 0 || lines > mostOfLane {
		t.Error("the lane is too large, or the test looks at the wrong place")
	}
}

// layered lists the packages whose files are in layers, with the number of arrows that may point upwards.
var layered = []struct {
	dir     string
	allowed int
}{
	{"server", 3},
	{"engine", 0},
	{"replication", 0},
}

func TestFilesStandInLayers(t *testing.T) {
	t.Parallel()
	for _, l := range layered {
		arrows, err := ReadArrows(root, l.dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(arrows) == 0 {
			t.Fatalf("%s has no arrows: the test looks at the wrong place", l.dir)
		}
		_, backward := arrows.Backward()
		t.Logf("%s: %d arrows between its files point up (%d allowed)", l.dir, len(backward), l.allowed)
		if len(backward) > l.allowed {
			for _, b := range backward {
				t.Errorf("%s: %s", l.dir, b)
			}
		}
	}
}

func TestBackwardFindsTheFewestArrows(t *testing.T) {
	arrows := Arrows{
		"a.go": {"b.go": true, "c.go": true},
		"b.go": {"c.go": true},
		"c.go": {"a.go": true}, // one cycle
	}
	if order, backward := arrows.Backward(); len(backward) != 1 {
		t.Errorf("%v points up in %v, want one arrow", backward, order)
	}
	if _, backward := (Arrows{"z.go": {"a.go": true}, "m.go": {"z.go": true}}).Backward(); len(backward) != 0 {
		t.Errorf("%v points up in a chain", backward)
	}
}

// mostSleeps is the maximum number of pauses of fixed length in tests. A test polls for a condition (testkit.Until),
// waits for a deadline (testkit.Lapse) or for a random time (testkit.Moment), or keeps a pace (time.Tick).
const mostSleeps = 38

func TestTestsRarelySleep(t *testing.T) {
	sleeps := 0
	err := eachLine(root, []string{".go"}, func(file string, _ int, line string) {
		if (strings.HasSuffix(file, "_test.go") || within(file, "tests")) && strings.Contains(line, "time.Sleep"+"(") {
			sleeps++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d calls of time.Sleep in tests (%d allowed)", sleeps, mostSleeps)
	if sleeps == 0 || sleeps > mostSleeps {
		t.Errorf("%d calls of time.Sleep in tests, at most %d are allowed", sleeps, mostSleeps)
	}
}
