package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// referenceResults has the results of a suite's own server for each file: reference.txt, and for 7.4.1 a file in the
// user's cache folder.
//
//	version Debian's redis source package 5:7.0.15-1~deb12u10
//	== unit/quit
//	ok QUIT returns OK
//	err a test that it fails
//
// -reference renews it. Each test is ok, err or hang. Tests that the suite itself leaves out are not listed.
type referenceResults struct {
	version string
	results map[string]*results
}

func (r *referenceResults) knows(file string) bool { return r.results[file] != nil }

// passes returns the number of tests of file that the suite's own server passes.
func (r *referenceResults) passes(file string) int {
	if !r.knows(file) {
		return 0
	}
	return r.results[file].count(statusOK)
}

func readReference(file string) (*referenceResults, error) {
	r := &referenceResults{results: map[string]*results{}}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var current *results
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch {
		case word == "" || strings.HasPrefix(word, "#"):
		case word == "version":
			r.version = rest
		case word == "==":
			current = newResults()
			r.results[rest] = current
		case current == nil || !slices.Contains(worse, status(word)):
			return nil, fmt.Errorf("%s:%d: %q is no line of this file", file, n, lines.Text())
		default:
			current.add(record{status: status(word), name: rest})
		}
	}
	return r, lines.Err()
}

func (r *referenceResults) write(file string) error {
	var b strings.Builder
	b.WriteString("# The results of a redis-server in each file of the Redis suite, by name of test.\n")
	b.WriteString("# Written by go run ./tests/conformance -reference; not to be edited.\n")
	fmt.Fprintf(&b, "version %s\n", r.version)
	for _, name := range slices.Sorted(maps.Keys(r.results)) {
		fmt.Fprintf(&b, "\n== %s\n", name)
		got := r.results[name]
		for _, test := range got.names {
			if s := got.of[test].status; s != statusIgnore && s != statusSkip {
				fmt.Fprintf(&b, "%s %s\n", s, test)
			}
		}
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
