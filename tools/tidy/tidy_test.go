package tidy

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

const root = "../.."

// The tests share one parsed tree, which they do not change.
var (
	readOnce = sync.OnceValues(func() (map[string]*Package, error) { return Read(root) })
	saidOnce = sync.OnceValues(func() ([]Line, error) {
		said, err := Said(root)
		return slices.Clip(said), err
	})
)

func read(t *testing.T) map[string]*Package {
	t.Helper()
	packages, err := readOnce()
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 10 {
		t.Fatalf("only %d packages found below %s: the test looks at the wrong place", len(packages), root)
	}
	return packages
}

func TestImportsPointDown(t *testing.T) {
	for dir, p := range read(t) {
		r := ruleFor(dir)
		if r == nil {
			t.Errorf("%s has no floor: give it a row in floors.go and a room in ARCHITECTURE.md", dir)
			continue
		}
		for target, file := range p.Imports {
			if !isBeside(dir) && isBeside(target) {
				t.Errorf("%s/%s imports %s, which no package of the program may import", dir, file, target)
			}
			if !r.allows(target) {
				t.Errorf("%s/%s imports %s: not allowed on its floor (%s)", dir, file, target, r.folder)
			}
		}
	}
}

// TestEveryPackageShips: the program has every package outside tools, bench and tests. Packages for tests are below
// tests/testkit. A package that nothing imports yet is allowed if its comment has a line with Seam.
func TestEveryPackageShips(t *testing.T) {
	packages, ships := read(t), map[string]bool{}
	var visit func(dir string)
	visit = func(dir string) {
		if ships[dir] || packages[dir] == nil {
			return
		}
		ships[dir] = true
		for target := range packages[dir].Imports {
			visit(target)
		}
	}
	visit(".")
	for dir, p := range packages {
		if !ships[dir] && !isBeside(dir) && !onlyTests(p) && !excuses(p.Doc) {
			t.Errorf("main does not import %s: remove it, or move it below tests/testkit", dir)
		}
	}
}

func TestFamiliesDoNotMeet(t *testing.T) {
	for dir, p := range read(t) {
		if !strings.HasPrefix(dir, "engine/family/") {
			continue
		}
		for target, file := range p.Imports {
			if strings.HasPrefix(target, "engine/family/") {
				t.Errorf("%s/%s imports the family %s; share through data/value, data/keyspace or command", dir, file, target)
			}
		}
	}
}

// TestFoldersDoNotCircle: imports between top-level folders have no cycle, even where no two packages have one.
func TestFoldersDoNotCircle(t *testing.T) {
	arrows := map[string]map[string]bool{}
	for dir, p := range read(t) {
		from := strings.SplitN(dir, "/", 2)[0]
		for target := range p.Imports {
			to := strings.SplitN(target, "/", 2)[0]
			if from == to {
				continue
			}
			if arrows[from] == nil {
				arrows[from] = map[string]bool{}
			}
			arrows[from][to] = true
		}
	}
	state := map[string]int{} // 1: on the path, 2: done
	var visit func(folder string, path []string)
	visit = func(folder string, path []string) {
		switch state[folder] {
		case 1:
			t.Errorf("folders circle: %s", strings.Join(append(path, folder), " → "))
			return
		case 2:
			return
		}
		state[folder] = 1
		for to := range arrows[folder] {
			visit(to, append(path, folder))
		}
		state[folder] = 2
	}
	for folder := range arrows {
		visit(folder, nil)
	}
}

func TestPackagesNameTheirOwner(t *testing.T) {
	for dir, p := range read(t) {
		if len(p.Imports)+len(p.Foreign) == 0 && p.Doc == "" && onlyTests(p) {
			continue
		}
		switch {
		case p.Doc == "":
			t.Errorf("%s has no package comment", dir)
		case dir != "." && !strings.Contains(p.Doc, "Owner:") && !strings.HasPrefix(p.Doc, "Command "):
			t.Errorf("%s: the package comment does not name its owner (a line that begins with \"Owner:\")", dir)
		}
	}
}

func onlyTests(p *Package) bool {
	for f := range p.Funcs {
		if !strings.Contains(f, "_test.go:") {
			return false
		}
	}
	return true
}

// TestReactorAloneKnowsTheNetworkLibraries: only the reactor imports the network libraries.
func TestReactorAloneKnowsTheNetworkLibraries(t *testing.T) {
	for dir, p := range read(t) {
		for target, file := range p.Foreign {
			network := strings.HasPrefix(target, "github.com/panjf2000/gnet") ||
				strings.HasPrefix(target, "github.com/cloudwego/netpoll")
			if network && !strings.HasPrefix(dir, "reactor") {
				t.Errorf("%s/%s imports %s: only reactor may", dir, file, target)
			}
		}
	}
}

var (
	place  = regexp.MustCompile(`([a-z0-9_/]*[a-z0-9_]\.go):([A-Za-z_][A-Za-z0-9_]*)`)
	design = regexp.MustCompile(`[a-z0-9_/]*\bDESIGN\.md`)
)

// TestPlacesAreReal: every file.go:Func and every DESIGN.md that a page or a comment names exists. A name is searched
// below the root and below the folder of the page or comment.
func TestPlacesAreReal(t *testing.T) {
	packages := read(t)
	said, err := saidOnce()
	if err != nil {
		t.Fatal(err)
	}
	places := 0
	for _, l := range said {
		for _, m := range place.FindAllStringSubmatch(l.Text, -1) {
			if m[1] == "file.go" {
				continue // a placeholder for any file
			}
			places++
			dir, file := path.Split(m[1])
			below := packages[path.Clean(dir)]
			beside := packages[path.Join(path.Dir(l.File), dir)]
			if name := file + ":" + m[2]; !(below != nil && below.Funcs[name]) && !(beside != nil && beside.Funcs[name]) {
				t.Errorf("%s:%d points to %s, which does not exist", l.File, l.Line, m[0])
			}
		}
		for _, page := range design.FindAllString(l.Text, -1) {
			_, below := os.Stat(path.Join(root, page))
			_, beside := os.Stat(path.Join(root, path.Dir(l.File), page))
			// Prose may mean DESIGN.md pages in general, as in "a DESIGN.md beside the code". A path, or a comment,
			// names a specific page.
			named := strings.Contains(page, "/") || strings.HasSuffix(l.File, ".go") && !strings.HasPrefix(l.File, "tools/")
			if named && below != nil && beside != nil {
				t.Errorf("%s:%d points to %s, which does not exist", l.File, l.Line, page)
			}
		}
	}
	if places < 20 {
		t.Errorf("pages and comments name %d places: the test looks at the wrong place", places)
	}
}

// TestTheMapIsWhole: the map has a row for every top-level folder and for every folder of engine.
func TestTheMapIsWhole(t *testing.T) {
	text, err := os.ReadFile(root + "/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rows, found := strings.Cut(string(text), "## The map")
	rows, _, end := strings.Cut(rows, "\n## ")
	if !found || !end {
		t.Fatal("ARCHITECTURE.md has no map")
	}
	folders := map[string]bool{}
	for dir := range read(t) {
		names := strings.Split(dir, "/")
		if dir == "." {
			continue
		}
		folders[names[0]+"/"] = true
		if names[0] == "engine" && len(names) > 1 {
			folders["engine/"+names[1]+"/"] = true
		}
	}
	for folder := range folders {
		if !strings.Contains(rows, "`"+folder) {
			t.Errorf("the map in ARCHITECTURE.md does not name %s", folder)
		}
	}
}

// TestTheWalkIsShort: the walk of one SET has at most five files.
func TestTheWalkIsShort(t *testing.T) {
	text, err := os.ReadFile(root + "/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, walk, found := strings.Cut(string(text), "## The walk of one SET")
	if !found {
		t.Fatal("ARCHITECTURE.md has no section \"The walk of one SET\"")
	}
	if cut := strings.Index(walk, "\n## "); cut >= 0 {
		walk = walk[:cut]
	}
	files := map[string]bool{}
	for _, m := range place.FindAllStringSubmatch(walk, -1) {
		files[m[1]] = true
	}
	if len(files) == 0 || len(files) > 5 {
		t.Errorf("the walk of one SET goes through %d files, want 1 to 5: %v", len(files), files)
	}
}

// TestNothingIsDead: every function that the program never calls has a reason to stay.
func TestNothingIsDead(t *testing.T) {
	t.Parallel()
	dead, excused, err := Dead(root, read(t)) // read also makes the test cache depend on every file
	if err != nil {
		t.Fatal(err)
	}
	if excused == 0 {
		t.Error("deadcode found none of the proofs that only tests call: it looks at the wrong build")
	}
	for _, line := range dead {
		t.Errorf("%s; remove it, or let its comment say %q or %q and why", line, seam, proof)
	}
}

// TestFloorsAreThere: every folder in the table of floors exists.
func TestFloorsAreThere(t *testing.T) {
	packages := read(t)
	isThere := func(folder string) bool {
		for dir := range packages {
			if dir == folder || strings.HasPrefix(dir, folder+"/") {
				return true
			}
		}
		return false
	}
	for _, f := range floors {
		if !isThere(f.folder) {
			t.Errorf("floors.go has a rule for %s, which is not there", f.folder)
		}
		for _, target := range f.may {
			if !isThere(strings.TrimSuffix(target, "/")) {
				t.Errorf("floors.go lets %s import %s, which is not there", f.folder, target)
			}
		}
	}
}

// TestLinesEndByColumn120 checks pages, code, scripts, styles and HTML. Tables, and lines with an address, may be
// wider. Code with a string that would not fit on a line may be wider too.
func TestLinesEndByColumn120(t *testing.T) {
	said, err := saidOnce()
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := Scripts(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range append(said, scripts...) {
		isTable := strings.HasPrefix(strings.TrimLeft(l.Text, "/ \t"), "|")
		if utf8.RuneCountInString(l.Full) > 120 && !isTable && !strings.Contains(l.Full, "://") {
			t.Errorf("%s:%d is wider than 120 columns", l.File, l.Line)
		}
	}
	inText := false // between two backquotes
	err = eachLine(root, []string{".go"}, func(file string, number int, line string) {
		wide := utf8.RuneCountInString(line) > 120 && !strings.Contains(line, "//") && !longText.MatchString(line)
		if wide && !inText {
			t.Errorf("%s:%d is wider than 120 columns", file, number)
		}
		inText = (number > 1 && inText) != (strings.Count(line, "`")%2 == 1)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// longText matches a string that fills most of a line, or that may have several lines.
var longText = regexp.MustCompile("\"([^\"\\\\]|\\\\.){70,}|`")

// wallClock matches a read of the wall clock as a number. Such a number can give a wrong duration.
var wallClock = regexp.MustCompile(`[cC]ore\.Now\(\)|\.UnixMilli\(\)`)

// TestTimersAreSteady: replication, the cluster and Sentinels measure time by clock.Steady or the core's SteadyMs. A
// wall clock that is set back by an hour would stop their timers for an hour.
func TestTimersAreSteady(t *testing.T) {
	looked := 0
	for _, folder := range []string{"replication", "cluster", "cluster/state", "sentinel"} {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			looked++
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for number, line := range strings.Split(string(text), "\n") {
				if wallClock.MatchString(line) && !strings.Contains(line, "clock.Steady()") {
					t.Errorf("%s:%d reads the wall clock: %s", file, number+1, strings.TrimSpace(line))
				}
			}
		}
	}
	if looked < 30 {
		t.Errorf("only %d files were looked at", looked)
	}
}
