package main

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// runOther runs files of another release's suite, unpacked in o.suite, and prints every test that does not pass. It judges nothing:
// neither the reference's results nor the exclusions are of that release. What it is for: 7.4's own suite has tests of 7.4's own ways
// (lists in listpacks, sets in listpacks, fields with deadlines), which Debian's 7.0 cannot have.
func runOther(ctx context.Context, w io.Writer, o options, files []string, server string) error {
	run, err := newRunner(o.suite, o.keep)
	if err != nil {
		return err
	}
	defer run.close()
	for _, file := range files {
		got, err := run.file(ctx, server, file, nil)
		if err != nil {
			return err
		}
		printOther(w, file, got)
	}
	return nil
}

// printOther prints one file's counts and its failures, each with the beginning of what the suite said.
func printOther(w io.Writer, file string, got *results) {
	failed := 0
	var lines strings.Builder
	for _, name := range got.names {
		rec := got.of[name]
		if rec.status != statusErr && rec.status != statusHang {
			continue
		}
		failed++
		fmt.Fprintf(&lines, "    %s: %s\n        %.160s\n", rec.status, name, strings.ReplaceAll(rec.detail, "\n", " "))
	}
	fmt.Fprintf(w, "%-28s passes %d, does not pass %d\n%s", file, got.count(statusOK), failed, lines.String())
}
