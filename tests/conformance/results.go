package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
)

// A status is a test's result. If a name runs several times in a file, the worst result counts.
type status string

const (
	statusOK     status = "ok"
	statusIgnore status = "ignore" // the suite's own tags left it out
	statusSkip   status = "skip"   // one of our exclusions left it out
	statusErr    status = "err"
	statusHang   status = "hang"
	statusStart  status = "start"
)

// worse lists the statuses from best to worst.
var worse = []status{statusIgnore, statusSkip, statusOK, statusErr, statusHang}

// A record is one line written by resume.tcl.
type record struct {
	status status
	name   string
	detail string
}

// results has the results of one file's tests, in the order in which they were first seen.
type results struct {
	names   []string
	of      map[string]record
	running string // the test that is running
	failed  string // the latest test, if it failed
}

// outside is the name of a failure that happens between a file's tests.
const outside = "(outside) the file stands still"

func newResults() *results { return &results{of: map[string]record{}} }

// add adds a record. Of two records with the same name it keeps the worse one.
func (r *results) add(rec record) {
	if rec.status == statusStart {
		r.running = rec.name
		return
	}
	if rec.status == statusOK || rec.status == statusErr {
		r.running, r.failed = "", ""
	}
	if rec.status == statusErr {
		r.failed = rec.name
	}
	rec.name = steadyName(rec.name)
	old, known := r.of[rec.name]
	if !known {
		r.names = append(r.names, rec.name)
	}
	if !known || slices.Index(worse, rec.status) > slices.Index(worse, old.status) {
		r.of[rec.name] = rec
	}
}

// count returns the number of names with status s.
func (r *results) count(s status) (n int) {
	for _, rec := range r.of {
		if rec.status == s {
			n++
		}
	}
	return n
}

// errors returns the records of the tests that failed.
func (r *results) errors() (failed []record) {
	for _, name := range r.names {
		if rec := r.of[name]; rec.status == statusErr {
			failed = append(failed, rec)
		}
	}
	return failed
}

// readResults reads the results that resume.tcl wrote.
func readResults(file string) (*results, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := newResults()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20) // an assertion may quote a large value
	for lines.Scan() {
		rec, err := parseRecord(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		r.add(rec)
	}
	return r, lines.Err()
}

var unescape = strings.NewReplacer(`\\`, `\`, `\t`, "\t", `\n`, "\n", `\r`, "\r")

// parseRecord parses a line: status, name, milliseconds, detail.
func parseRecord(line string) (record, error) {
	fields := strings.Split(line, "\t")
	if len(fields) != 4 {
		return record{}, fmt.Errorf("a record has 4 fields: %.100q", line)
	}
	s := status(fields[0])
	if s != statusStart && !slices.Contains(worse, s) {
		return record{}, fmt.Errorf("unknown status %q", s)
	}
	name := strings.TrimSpace(strings.ReplaceAll(unescape.Replace(fields[1]), "\n", " "))
	return record{status: s, name: name, detail: unescape.Replace(fields[3])}, nil
}
