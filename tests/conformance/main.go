// Command conformance runs the public Tcl suites of Redis against spindle, one file at a time. It compares the failures
// with the results of the suite's own server and with a list of exclusions. Every exclusion has its reason.
//
// Owner: make conformance. It starts servers only through the suites, in their own network namespace.
//
// There are two suites. Spindle follows the behaviour of 7.4.1. Its suite runs if REDIS_SRC names the unpacked source
// with a built server in it. That source has no free licence, so this program never downloads it. The suite of 7.0
// comes through apt (source.go). The tree keeps no part of either suite. It has only names of tests: the exclusions of
// both, and the results of 7.0's server. The results of 7.4.1's server are computed once and kept in the user's cache
// folder.
//
// Start at main.go. suites.go describes the suites. tree.go makes the edited tree that is run; resume.tcl is ours.
// run.go runs a file, verdict.go judges it, report.go writes COMPATIBILITY.md. proxied.go finds out which commands a
// proxy serves.
//
// It exits with 1 after a failure that is not excluded, a test that was not reached, or an exclusion that is not
// needed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// options are the options of the command line.
type options struct {
	files     string
	list      bool
	page      bool
	keep      bool
	reference bool
	tls       bool
	proxy     bool
	server    string
	suite     string // the only suite to run
	here      string // the folder with the exclusions and reference.txt
	report    string
	again     string
}

func main() {
	var o options
	flag.StringVar(&o.files, "file", "",
		"run only these files, parted by commas (unit/type/string); the report is not written")
	flag.BoolVar(&o.list, "list", false, "print the files that are run and how many tests of each the reference passes")
	flag.BoolVar(&o.page, "page", false,
		"run no suite: write what the report says by itself and of the proxy, and keep what it says of suites")
	flag.BoolVar(&o.keep, "keep", false, "keep the run's folder with the logs of every server, and print where it is")
	flag.BoolVar(&o.reference, "reference", false, "run the suites' own servers and renew what is known of them")
	flag.StringVar(&o.again, "again", "",
		"a folder that -keep has left: its results count, and only what is not there is run")
	flag.BoolVar(&o.tls, "tls", false, "run the suites under TLS, for which they know --tls; the report is not written")
	flag.BoolVar(&o.proxy, "proxy", false, "run files of 7.0's suite through the proxy, over three redis-servers")
	flag.StringVar(&o.server, "server", "bin/spindle", "the program to test")
	flag.StringVar(&o.suite, "suite", "", "run only this suite, "+newer.name+" or "+older.name+
		"; the report keeps what it says of the other")
	flag.StringVar(&o.here, "data", "tests/conformance", "the folder of the exclusions, of reference.txt and newer.txt")
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
	if o.page {
		server, err := filepath.Abs(o.server)
		if err != nil {
			return err
		}
		section, err := startProxied(ctx, server)
		if err != nil {
			return fmt.Errorf("the proxy's section: %w", err)
		}
		return writeReport(o.report, o.here, section, nil)
	}
	suites, err := o.suites()
	if err != nil {
		return err
	}
	server, err := filepath.Abs(o.server)
	if err != nil {
		return err
	}
	if _, err := os.Stat(server); err != nil && !o.reference && !o.list {
		return fmt.Errorf("%w: build it first: make build", err)
	}
	var ran []*outcome
	var bad []string
	for _, s := range suites {
		got, err := o.runSuite(ctx, s, server)
		if err != nil {
			return fmt.Errorf("the suite of Redis %s: %w", s.name, err)
		}
		if got == nil {
			continue
		}
		ran = append(ran, got)
		for _, v := range got.verdicts {
			if n := v.wrong(); n > 0 {
				bad = append(bad, fmt.Sprintf("%s: %s %d", s.name, v.file, n))
			}
		}
	}
	if o.files == "" && !o.tls && len(ran) > 0 {
		if err := writeReport(o.report, o.here, "", ran); err != nil {
			return err
		}
	}
	if len(bad) > 0 {
		return errors.New("unexplained: " + strings.Join(bad, ", "))
	}
	return nil
}

// suites returns the suites to run, in order.
func (o *options) suites() ([]*suite, error) {
	switch tree := os.Getenv(sourceVariable); {
	case o.proxy && (o.suite == "" || o.suite == older.name):
		return []*suite{through}, nil
	case o.proxy:
		return nil, fmt.Errorf("-suite %s -proxy: only the files of %s are run so", o.suite, older.name)
	case o.suite == older.name, o.suite == "" && tree == "":
		return []*suite{older}, nil
	case o.suite == "":
		return []*suite{newer, older}, nil
	case o.suite != newer.name:
		return nil, fmt.Errorf("-suite %s: there are %s and %s", o.suite, newer.name, older.name)
	case tree == "":
		return nil, fmt.Errorf("-suite %s: %s has to name its unpacked source, with a built server in it",
			newer.name, sourceVariable)
	}
	return []*suite{newer}, nil
}

// runSuite runs the files of one suite with the server under test and judges them. The outcome is nil if only the
// suite's own server is run.
func (o *options) runSuite(ctx context.Context, s *suite, server string) (*outcome, error) {
	excluded, err := readExclusions(filepath.Join(o.here, s.exclusions))
	if err != nil {
		return nil, err
	}
	p, err := s.open(ctx, o.here)
	if err != nil {
		return nil, err
	}
	if o.tls {
		if p.reference, err = underTLS(p.reference); err != nil {
			return nil, err
		}
	}
	reference, err := readReference(p.reference)
	if err != nil {
		return nil, err
	}
	if o.list {
		for _, file := range s.files {
			fmt.Printf("%-6s %-40s %4d\n", s.name, file, reference.passes(referenceOf(file)))
		}
		return nil, nil
	}
	files := s.files
	if o.tls {
		files = append(slices.Clone(files), tlsFile)
	}
	if o.files != "" {
		files = strings.Split(o.files, ",")
	}
	run, err := newRunner(p.source, p.server, o.keep)
	if err != nil {
		return nil, err
	}
	defer run.close()
	run.again = o.again
	if run.external = s.external; s.external {
		run.prelude = nil
	}
	if o.tls {
		if err := run.useTLS(ctx); err != nil {
			return nil, err
		}
	}
	unknown := slices.DeleteFunc(slices.Clone(files), func(f string) bool { return reference.knows(referenceOf(f)) })
	if o.reference {
		unknown = files
	}
	if len(unknown) > 0 {
		if s != newer && !o.reference && !o.tls {
			return nil, fmt.Errorf("%s says nothing of %s: run with -reference", p.reference, strings.Join(unknown, ", "))
		}
		if err := renewReference(ctx, run, reference, unknown, p); err != nil {
			return nil, err
		}
	}
	if o.reference {
		return nil, nil
	}
	out := &outcome{suite: s, excluded: excluded, version: p.version, server: serverVersion(ctx, server)}
	if s.external {
		out.server += fmt.Sprintf(", the proxy, over %d shards of the reference's version", shardCount)
	}
	for _, file := range files {
		got, err := run.file(ctx, program{server, ownDirectives}, file, excluded.skipped(file))
		if err != nil {
			return nil, err
		}
		v := judge(file, got, reference.results[referenceOf(file)], excluded.of(file))
		v.print(os.Stdout)
		out.verdicts = append(out.verdicts, v)
	}
	return out, nil
}

// renewReference runs the suite's own server on files, and stores its results in known and in its file.
func renewReference(ctx context.Context, run *runner, known *referenceResults, files []string, p *place) error {
	known.version = p.version
	done := map[string]bool{}
	for _, file := range files {
		if file = referenceOf(file); done[file] {
			continue
		}
		done[file] = true
		got, err := run.file(ctx, program{path: p.server}, file, nil)
		if err != nil {
			return err
		}
		known.results[file] = got
		fmt.Printf("%-40s reference passes %d\n", file, known.passes(file))
		if err := known.write(p.reference); err != nil {
			return err
		}
	}
	return nil
}
