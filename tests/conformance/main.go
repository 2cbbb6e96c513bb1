// Command conformance runs the public Tcl suite of Debian's redis source package against spindle, a file at a time, and holds
// what fails against what the reference server passes and against exclusions.txt, where every exception has its reason.
//
// Owner: make conformance; it starts servers only through the suite, in a network namespace of their own.
// Nothing of the suite is kept in this repository: source.go fetches it through apt, tree.go makes the tree that is run and
// its one edit, and resume.tcl is ours. What is committed are names of tests: exclusions.txt and reference.txt.
// Start at main.go; run.go runs a file, verdict.go judges it, report.go writes COMPATIBILITY.md.
//
// It exits 1 on a failure that is not excluded, on a test that was not reached, and on an exclusion that nothing needs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// options are what the command line may say.
type options struct {
	files     string
	list      bool
	keep      bool
	reference bool
	server    string
	suite     string // another release's unpacked source
	here      string // the folder of exclusions.txt and reference.txt
	report    string
}

func main() {
	var o options
	flag.StringVar(&o.files, "file", "", "run only these files, parted by commas (unit/type/string); the report is not written")
	flag.BoolVar(&o.list, "list", false, "print the files that are run and how many tests of each the reference passes")
	flag.BoolVar(&o.keep, "keep", false, "keep the run's folder with the logs of every server, and print where it is")
	flag.BoolVar(&o.reference, "reference", false, "run the reference server and renew reference.txt")
	flag.StringVar(&o.server, "server", "bin/spindle", "the program to test")
	flag.StringVar(&o.suite, "suite", "", "run the suite of this unpacked source of another release, and print what does not pass; nothing is judged or written")
	flag.StringVar(&o.here, "data", "tests/conformance", "the folder of exclusions.txt and reference.txt")
	flag.StringVar(&o.report, "report", "COMPATIBILITY.md", "the report to write")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	reference, err := readReference(filepath.Join(o.here, "reference.txt"))
	if err != nil {
		return err
	}
	excluded, err := readExclusions(filepath.Join(o.here, "exclusions.txt"))
	if err != nil {
		return err
	}
	if o.list {
		for _, file := range suiteFiles {
			fmt.Printf("%-28s %4d\n", file, reference.passes(file))
		}
		return nil
	}
	files, whole, err := chosen(o.files)
	if err != nil {
		return err
	}
	server, err := filepath.Abs(o.server)
	if err != nil {
		return err
	}
	if _, err := os.Stat(server); err != nil && !o.reference {
		return fmt.Errorf("%w: build it first: make build", err)
	}
	if o.suite != "" {
		return runOther(ctx, os.Stdout, o, files, server)
	}
	source, version, err := fetchSource(ctx)
	if err != nil {
		return err
	}
	run, err := newRunner(source, o.keep)
	if err != nil {
		return err
	}
	defer run.close()

	if o.reference {
		if err := renewReference(ctx, run, reference, files, version); err != nil {
			return err
		}
		return reference.write(filepath.Join(o.here, "reference.txt"))
	}
	var verdicts []*verdict
	for _, file := range files {
		if !reference.knows(file) {
			return fmt.Errorf("reference.txt says nothing of %s: run with -reference -file %s", file, file)
		}
		got, err := run.file(ctx, server, file, excluded.skipped(file))
		if err != nil {
			return err
		}
		v := judge(file, got, reference.results[file], excluded.of(file))
		v.print(os.Stdout)
		verdicts = append(verdicts, v)
	}
	if whole {
		if err := writeReport(o.report, verdicts, excluded, version, serverVersion(ctx, server)); err != nil {
			return err
		}
	}
	var bad []string
	for _, v := range verdicts {
		if n := v.wrong(); n > 0 {
			bad = append(bad, fmt.Sprintf("%s %d", v.file, n))
		}
	}
	if len(bad) > 0 {
		return errors.New("unexplained: " + strings.Join(bad, ", "))
	}
	return nil
}

// chosen is the list of files to run, and whether it is all of them.
func chosen(list string) (files []string, whole bool, err error) {
	if list == "" {
		return suiteFiles, true, nil
	}
	return strings.Split(list, ","), false, nil
}

// renewReference runs Debian's server over files and puts what it found into known.
func renewReference(ctx context.Context, run *runner, known *referenceResults, files []string, version string) error {
	server, err := referenceServer()
	if err != nil {
		return err
	}
	known.version = version
	for _, file := range files {
		got, err := run.file(ctx, server, file, nil)
		if err != nil {
			return err
		}
		known.results[file] = got
		fmt.Printf("%-28s reference passes %d\n", file, known.passes(file))
	}
	return nil
}
