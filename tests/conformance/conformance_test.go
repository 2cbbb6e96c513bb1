package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spindle/tests/testkit"
)

func resultsOf(pairs ...string) *results {
	r := newResults()
	for i := 0; i < len(pairs); i += 2 {
		r.add(record{status: status(pairs[i]), name: pairs[i+1]})
	}
	return r
}

func exclusionsOf(t *testing.T, lines ...string) []*exclusion {
	t.Helper()
	var all []*exclusion
	for _, line := range lines {
		e, err := parseExclusion(line)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

// TestJudge checks conformance.J1 to conformance.J3, with one case for each line.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name               string
		got, want          *results
		excluded           []string
		passes, wrong, out int
	}{
		{"both pass", resultsOf("ok", "a"), resultsOf("ok", "a"), nil, 1, 0, 0},
		{"only the reference passes", resultsOf("err", "a"), resultsOf("ok", "a"), nil, 0, 1, 0},
		{"excluded", resultsOf("err", "a"), resultsOf("ok", "a"), []string{"debugger: a -- reason"}, 0, 0, 1},
		{"excluded by pattern", resultsOf("err", "a b"), resultsOf("ok", "a b"),
			[]string{"debugger: /^a -- reason"}, 0, 0, 1},
		{"both fail", resultsOf("err", "a"), resultsOf("err", "a"), nil, 0, 0, 0},
		{"only spindle passes", resultsOf("ok", "a"), resultsOf("err", "a"), nil, 0, 0, 0},
		{"never reached", resultsOf(), resultsOf("ok", "a"), nil, 0, 1, 0},
		{"left out, and excluded", resultsOf("skip", "a"), resultsOf("ok", "a"), []string{"debugger!: a -- reason"}, 0, 0, 1},
		{"left out, not excluded", resultsOf("skip", "a"), resultsOf("ok", "a"), nil, 0, 1, 0},
		{"an exclusion that passes", resultsOf("ok", "a"), resultsOf("ok", "a"), []string{"debugger: a -- reason"}, 1, 1, 0},
		{"an exclusion of nothing", resultsOf("ok", "a"), resultsOf("ok", "a"), []string{"debugger: b -- reason"}, 1, 1, 0},
		{"passes and fails under one name", resultsOf("ok", "a", "err", "a", "ok", "a"), resultsOf("ok", "a"), nil, 0, 1, 0},
		{"hangs", resultsOf("hang", "a"), resultsOf("ok", "a"), nil, 0, 1, 0},
		{"fails outside of a test", resultsOf("err", "(outside) r lpush"), resultsOf(), nil, 0, 1, 0},
	} {
		v := judge("unit/x", c.got, c.want, exclusionsOf(t, c.excluded...))
		if v.passes != c.passes || v.wrong() != c.wrong || v.later()+v.never() != c.out {
			t.Errorf("%s: %d pass, %d wrong, %d excluded; want %d, %d, %d",
				c.name, v.passes, v.wrong(), v.later()+v.never(), c.passes, c.wrong, c.out)
		}
	}
}

func TestExclusionLines(t *testing.T) {
	e := exclusionsOf(t, "c-internals!: SORT: a name -- with both -- and a reason")[0]
	if !e.skip || e.class.name != "c-internals" || e.name != "SORT: a name -- with both" || e.reason != "and a reason" {
		t.Errorf("%+v", e)
	}
	for _, line := range []string{"debugger: no reason", "debugger: no reason -- ", "nonsense: a -- b", "a -- b",
		"debugger: /( -- no pattern"} {
		if _, err := parseExclusion(line); err == nil {
			t.Errorf("%q is taken", line)
		}
	}
}

// TestCommittedLists: the committed lists are well formed, name files that are run, and have Redis's result for each
// test.
func TestCommittedLists(t *testing.T) {
	reference, err := readReference("reference.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range inReport {
		excluded, err := readExclusions(s.exclusions)
		if err != nil {
			t.Fatalf("%s: %d lines, %v", s.exclusions, len(excluded.all), err)
		}
		for file := range excluded.files {
			if !slices.Contains(s.files, file) && file != tlsFile {
				t.Errorf("%s names %s, which files.go does not", s.exclusions, file)
			}
		}
	}
	for _, file := range suiteFiles {
		if !reference.knows(file) {
			t.Errorf("reference.txt has no %s", file)
		}
	}
	again := filepath.Join(t.TempDir(), "reference.txt")
	if err := reference.write(again); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile("reference.txt")
	after, _ := os.ReadFile(again)
	if string(before) != string(after) {
		t.Error("reference.txt is not what -reference would write")
	}
}

func TestRecords(t *testing.T) {
	rec, err := parseRecord(`err	a \\ b\tc	12	first\nsecond \\n`)
	if err != nil || rec.status != statusErr || rec.name != "a \\ b\tc" || rec.detail != "first\nsecond \\n" {
		t.Errorf("%+v, %v", rec, err)
	}
	for _, line := range []string{"", "ok\ta\t1", "fine\ta\t1\t"} {
		if _, err := parseRecord(line); err == nil {
			t.Errorf("%q is taken", line)
		}
	}
	for name, want := range map[string]string{
		"Check for memory leaks (pid 4711)":                       "Check for memory leaks (pid N)",
		"PSYNC2: cluster is consistent after load (x = 50363)":    "PSYNC2: cluster is consistent after load (x = N)",
		"PSYNC2: Set #0 to replicate from #4":                     "PSYNC2: Set #N to replicate from #N",
		"03-failover-loop: Instance #11 is now a slave":           "03-failover-loop: Instance #N is now a slave",
		"Wait failover by #4 with old epoch 5":                    "Wait failover by #N with old epoch N",
		"Master #0 should have at least one replica":              "Master #0 should have at least one replica",
		"corrupt payload: load corrupted rdb with no CRC - #3505": "corrupt payload: load corrupted rdb with no CRC - #3505",
	} {
		if got := steadyName(name); got != want {
			t.Errorf("%s becomes %s", name, got)
		}
	}
}

// TestErrorsBeforeAHang: a file with a hanging test is run again without that test. An error of an earlier run counts,
// even if the test passes in the last run.
func TestErrorsBeforeAHang(t *testing.T) {
	runs := []struct {
		records []record
		hangs   string
	}{
		{[]record{{status: statusOK, name: "a"}, {status: statusErr, name: "b", detail: "why"}}, "c"},
		{[]record{{status: statusOK, name: "a"}, {status: statusOK, name: "b"}}, "d"},
		{[]record{{status: statusErr, name: "a", detail: "late"}, {status: statusOK, name: "b"},
			{status: statusSkip, name: "c"}, {status: statusOK, name: "e"}}, ""},
	}
	n := 0
	got, err := withoutHanging(func(hung []string) (*results, string, error) {
		if len(hung) != n {
			t.Errorf("run %d leaves out %q", n, hung)
		}
		r := newResults()
		for _, rec := range runs[n].records {
			r.add(rec)
		}
		n++
		return r, runs[n-1].hangs, nil
	})
	if err != nil || n != len(runs) {
		t.Fatalf("%d runs: %v", n, err)
	}
	want := map[string]record{
		"a": {status: statusErr, name: "a", detail: "late"}, "b": {status: statusErr, name: "b", detail: "why"},
		"c": {status: statusHang, name: "c", detail: "did not end"},
		"d": {status: statusHang, name: "d", detail: "did not end"}, "e": {status: statusOK, name: "e"},
	}
	if !maps.Equal(got.of, want) {
		t.Errorf("%v, want %v", got.of, want)
	}
}

// TestSourceLists: the list has the machine's own entries of the right archives, with deb-src instead of deb.
func TestSourceLists(t *testing.T) {
	archives := []string{"http://deb.example.org/debian"}
	lines := "# deb http://deb.example.org/debian x main\n" +
		"deb [signed-by=/k] http://deb.example.org/debian/ bookworm main\ndeb http://other.example bookworm main\n"
	if got := sourceLines(lines, archives); got !=
		"deb-src [signed-by=/k] http://deb.example.org/debian/ bookworm main\n" {
		t.Errorf("%q", got)
	}
	text := "Types: deb\nURIs: http://deb.example.org/debian\nSuites: bookworm\nComponents: main\n\nTypes: deb\n" +
		"URIs: http://other.example\n\nTypes: deb-src\nURIs: http://deb.example.org/debian\nSuites: old\n"
	if got := sourceStanzas(text, archives); got != "Types: deb-src\nURIs: http://deb.example.org/debian\n"+
		"Suites: bookworm\nComponents: main\n\n" {
		t.Errorf("%q", got)
	}
}

// TestEverySecond: in a mixed cluster the wrapper script starts the right program, which replaces the script's process.
func TestEverySecond(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "src"), 0o755); err != nil {
		t.Fatal(err)
	}
	even, odd := filepath.Join(dir, "even"), filepath.Join(dir, "odd")
	for _, name := range []string{even, odd} {
		if err := os.WriteFile(name, []byte("#!/bin/sh\necho $(basename $0) $$ $1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	env, err := wrapInstances(dir, programs{sentinel: even, server: even, odd: odd})
	if err != nil {
		t.Fatal(err)
	}
	for config, want := range map[string]string{
		"redis_0/redis.conf": "even", "redis_7/redis.conf": "odd", "redis_10/redis.conf": "even",
		"redis_19/redis.conf": "odd",
	} {
		cmd := exec.Command(filepath.Join(dir, "src", "redis-server"), config)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.Output()
		if got := string(out); err != nil || got != fmt.Sprintf("%s %d %s\n", want, cmd.Process.Pid, config) {
			t.Errorf("%s: %q, %v, process %d", config, got, err, cmd.Process.Pid)
		}
	}
	// A run with one kind of program needs no wrapper, and removes the previous one.
	if env, err = wrapInstances(dir, programs{sentinel: even, server: even, odd: even}); err != nil || env != nil {
		t.Errorf("%q, %v", env, err)
	}
	if to, err := os.Readlink(filepath.Join(dir, "src", "redis-server")); err != nil || to != even {
		t.Errorf("src/redis-server is %q, %v", to, err)
	}
}

func TestResumeIsSourcedOnce(t *testing.T) {
	got, err := sourceResume("proc a {} {}\n\nif {$::client} {\n  go\n}\n")
	if err != nil || strings.Count(got, "source tests/resume.tcl") != 1 || !strings.Contains(got, "\nif {$::client} {\n") {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := sourceResume("nothing of the kind"); err == nil {
		t.Error("a driver without its start is taken")
	}
}

// TestReportKeepsTheOther: when a page is written after a run of one suite, the other suite's section stays.
func TestReportKeepsTheOther(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	run := func(s *suite, version string) string {
		t.Helper()
		v := judge(s.files[0], resultsOf("err", "a"), resultsOf("ok", "a"), exclusionsOf(t, "debugger: a -- reason"))
		if err := writeReport(file, ".", "", []*outcome{{s, &exclusions{}, version, "spindle", []*verdict{v}}}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	run(older, "run 1")
	run(newer, "run 2")
	page := run(older, "run 3")
	if strings.Contains(page, "run 1") || !strings.Contains(page, "run 2") || !strings.Contains(page, "run 3") {
		t.Errorf("one section too many or too few:\n%s", page)
	}
	if strings.Index(page, newer.heading()) > strings.Index(page, older.heading()) || strings.Count(page, "## ") < 8 {
		t.Errorf("not in order, or not whole:\n%s", page)
	}
	if again := run(older, "run 3"); again != page {
		t.Errorf("the same run writes another page:\n%s", again)
	}
}

// TestPageIsWritten: the page in the tree has the texts of this program, and the differences come before the suites.
func TestPageIsWritten(t *testing.T) {
	page, err := os.ReadFile("../../COMPATIBILITY.md")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, page, 0o644); err != nil {
		t.Fatal(err)
	}
	section, err := startProxied(t.Context(), testkit.Spindle(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := writeReport(file, ".", section, nil); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(file); err != nil || string(again) != string(page) {
		t.Errorf("COMPATIBILITY.md is not what is written: go run ./tests/conformance -page (%v)", err)
	}
	if _, rest, _ := strings.Cut(string(page), "\n## "); !strings.HasPrefix(rest, "Where spindle parts from 7.4\n") {
		t.Error("the differences do not come first")
	}
}

// TestOpenNewer: the newer suite is used only if its folder has everything that it needs.
func TestOpenNewer(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(sourceVariable, dir)
	refused := func(want string) {
		t.Helper()
		if _, err := openNewer(t.Context(), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	refused("names no source of redis")
	if err := os.Mkdir(filepath.Join(dir, "src"), 0o755); err != nil {
		t.Fatal(err)
	}
	header := filepath.Join(dir, "src", "version.h")
	if err := os.WriteFile(header, []byte("#define REDIS_VERSION \"7.2.0\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	refused("another version")
	if err := os.WriteFile(header, []byte("#define REDIS_VERSION \"7.4.1\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	refused("no built server")
}

// TestFold: lines of the page end by column 120 and keep all their words.
func TestFold(t *testing.T) {
	long := strings.Repeat("word ", 23) // 115 bytes
	for _, c := range []struct{ line, want string }{
		{"short\n", "short\n"},
		{long + "over it\n", long + "over\nit\n"},
		{"- " + long + "over it\n", "- " + long[:114] + "\n  over it\n"},
		{long[:105] + "`a name` behind it\n", long[:105] + "`a name` behind\nit\n"},
		{long[:105] + "`a long name of a test`\n", long[:104] + "\n`a long name of a test`\n"},
		{long + "abc - behind\n", long + "abc -\nbehind\n"},
		{long + "abcd - behind\n", long[:114] + "\nabcd - behind\n"},
		{"| " + long + "over it |\n", "| " + long + "over it |\n"},
		{"### " + long + "over it\n", "### " + long + "over it\n"},
		{strings.Repeat("é", 121) + "\n", strings.Repeat("é", 121) + "\n"},
		{"- " + strings.Repeat("é", 118) + " b\n", "- " + strings.Repeat("é", 118) + "\n  b\n"},
		{long + long + "end", long + "word\n" + long[5:] + "end"},
	} {
		if got := fold(c.line); got != c.want {
			t.Errorf("%q:\ngot  %q\nwant %q", c.line, got, c.want)
		} else if again := fold(got); again != got {
			t.Errorf("%q changes when it is folded again: %q", got, again)
		}
	}
}

// TestNewerIsReadable: newer.txt has no malformed line, and readNewer refuses each kind of mistake.
func TestNewerIsReadable(t *testing.T) {
	things, err := readNewer("newer.txt")
	if err != nil || len(things) == 0 {
		t.Fatalf("%d things, %v", len(things), err)
	}
	for _, line := range []string{"command | GET | Redis 9", "thing | GET | Redis 9 | here",
		"command | GET | Redis 9 | soon", "command | GET | Redis 9 | refused", "command | GET | Redis 9 | later: tomorrow"} {
		if _, err := parseNewer(line); err == nil {
			t.Errorf("%q is taken", line)
		}
	}
}

// TestNewerTable: new things with equal versions and state share a row.
func TestNewerTable(t *testing.T) {
	var b strings.Builder
	writeNewer(&b, []newThing{{"command", "A", "Redis 8.0", "here", ""}, {"event", "e", "Redis 8.0", "later", ""},
		{"command", "B", "Redis 8.0", "here", ""}, {"command", "C", "Redis 8.0", "refused", "why"}})
	for _, want := range []string{"\n| Redis 8.0 | `A`, `B` | here |\n| Redis 8.0 | `C` | refused: why |\n\n", "(2)",
		"### Events and pushes\n\n| since | what | state |\n|---|---|---|\n| Redis 8.0 | `e` | later |\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestLibrariesAreReadable: libraries.txt lists every test that fails only on spindle. readLibraries refuses each kind
// of mistake.
func TestLibrariesAreReadable(t *testing.T) {
	runs, err := readLibraries("libraries.txt")
	if err != nil || len(runs) == 0 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	for _, text := range []string{"run | a | b | 1", "run | a | b | x | 1", "run | a | b | 2 | 1", "fails | a | t | why",
		"run | a | b | 2 | 1\nfails | c | t | why", "run | a | b | 2 | 1\nfails | a | t", "walk | a | b | 1 | 1"} {
		file := filepath.Join(t.TempDir(), "libraries.txt")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readLibraries(file); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
