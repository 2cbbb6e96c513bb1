package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A libraryRun has the results of a client library's test suite on Redis and on spindle.
type libraryRun struct {
	library, what      string
	reference, spindle int // tests that pass on the reference, and those of them that pass on spindle
	failures, newer    []libraryFailure
}

// A libraryFailure is a test that fails on spindle by design.
type libraryFailure struct{ test, why string }

// readLibraries reads libraries.txt. Errors: a malformed line, a failure without its run, and a run whose listed
// failures do not match its counts.
func readLibraries(file string) (runs []libraryRun, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if runs, err = addLibraryLine(runs, strings.Split(line, " | ")); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
	}
	for _, r := range runs {
		if missing := r.reference - r.spindle; missing != len(r.failures) {
			return nil, fmt.Errorf("%s: %d tests fail on spindle alone, and %d are listed", r.library, missing,
				len(r.failures))
		}
	}
	return runs, nil
}

// addLibraryLine adds the columns of one line to runs.
func addLibraryLine(runs []libraryRun, columns []string) ([]libraryRun, error) {
	if columns[0] == "run" && len(columns) == 5 {
		r := libraryRun{library: columns[1], what: columns[2]}
		var err error
		if r.reference, err = strconv.Atoi(columns[3]); err == nil {
			r.spindle, err = strconv.Atoi(columns[4])
		}
		return append(runs, r), err
	}
	if columns[0] != "fails" && columns[0] != "newer" || len(columns) != 4 {
		return nil, fmt.Errorf("neither run, fails nor newer with its columns")
	}
	if len(runs) == 0 || runs[len(runs)-1].library != columns[1] {
		return nil, fmt.Errorf("it belongs to no run")
	}
	r, f := &runs[len(runs)-1], libraryFailure{columns[2], columns[3]}
	if columns[0] == "fails" {
		r.failures = append(r.failures, f)
	} else {
		r.newer = append(r.newer, f)
	}
	return runs, nil
}

// writeLibraries writes the page's section about client libraries.
func writeLibraries(b *strings.Builder, runs []libraryRun) {
	b.WriteString(
		"## The suites of client libraries\n\nEach suite was run against redis-server 8.0.6 and against spindle, " +
			"and was told that both are 8.0. For valkey-py and valkey-go the reference is valkey-server 9.1.2. Tests of modules " +
			"and of vector sets are left out. A test that ran into its suite's limit of 2 seconds on the busy host ran again.\n\n" +
			"| library | what was run | reference passes | of these, spindle |\n|---|---|---:|---:|\n")
	for _, r := range runs {
		fmt.Fprintf(b, "| %s | %s | %d | %d |\n", r.library, r.what, r.reference, r.spindle)
	}
	writeLibraryFailures(b, "These tests pass there and fail here:", runs,
		func(r libraryRun) []libraryFailure { return r.failures })
	writeLibraryFailures(b,
		"These are for servers newer than 8.0, and fail here. Tests of commands that the tables above "+
			"have as refused or later are left out:", runs, func(r libraryRun) []libraryFailure { return r.newer })
	b.WriteString("\n")
}

// writeLibraryFailures writes a list of tests with their reasons.
func writeLibraryFailures(b *strings.Builder, heading string, runs []libraryRun,
	of func(libraryRun) []libraryFailure) {
	fmt.Fprintf(b, "\n%s\n\n", heading)
	for _, r := range runs {
		for _, f := range of(r) {
			fmt.Fprintf(b, "- %s, `%s`: %s\n", r.library, f.test, f.why)
		}
	}
}
