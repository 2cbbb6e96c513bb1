package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

// A verdict is the judgement of one file.
//
//	conformance.J1. A test that the suite's own server passes must pass here, or an exclusion names it.
//	conformance.J2. A test that the suite's own server fails may also fail here.
//	conformance.J3. An exclusion that no failing or skipped test needs is an error: it could hide a later failure.
type verdict struct {
	file      string
	reference int // tests that the reference passes
	passes    int // those of them that pass here
	more      int // tests that pass here but not on the reference
	bothFail  int
	excluded  map[*class]int
	failures  []record     // failures without an exclusion: conformance.J1
	missing   []string     // tests that the reference passes and that were not reached here: conformance.J1
	stale     []*exclusion // conformance.J3
}

func (v *verdict) wrong() int { return len(v.failures) + len(v.missing) + len(v.stale) }

// judge compares spindle's results with those of the suite's own server, and with the exclusions of the file.
func judge(file string, got, want *results, excluded []*exclusion) *verdict {
	v := &verdict{file: file, reference: want.count(statusOK), excluded: map[*class]int{}}
	excuse := func(name string) bool {
		for _, e := range excluded {
			if e.matches(name) {
				e.matched++
				v.excluded[e.class]++
				return true
			}
		}
		return false
	}
	for _, name := range got.names {
		rec, ref := got.of[name], want.of[name].status
		switch rec.status {
		case statusOK:
			if ref == statusOK {
				v.passes++
			} else {
				v.more++
			}
		case statusErr, statusHang:
			if excuse(name) {
				break
			}
			if ref == statusErr || ref == statusHang {
				v.bothFail++
				break
			}
			v.failures = append(v.failures, rec)
		case statusSkip:
			if !excuse(name) {
				v.missing = append(v.missing, name)
			}
		case statusIgnore:
			if ref == statusOK && !excuse(name) {
				v.missing = append(v.missing, name)
			}
		}
	}
	for _, name := range want.names {
		if _, reached := got.of[name]; !reached && want.of[name].status == statusOK && !excuse(name) {
			v.missing = append(v.missing, name)
		}
	}
	for _, e := range excluded {
		if e.matched == 0 {
			v.stale = append(v.stale, e)
		}
	}
	return v
}

// later, never and version count the exclusions: tests that will pass later, tests that will never pass, and tests
// about another version.
func (v *verdict) later() (n int) { return v.sum(func(c *class) bool { return c.later }) }
func (v *verdict) never() (n int) {
	return v.sum(func(c *class) bool { return !c.later && !c.version })
}
func (v *verdict) version() (n int) { return v.sum(func(c *class) bool { return c.version }) }

func (v *verdict) sum(counts func(*class) bool) (n int) {
	for c, count := range v.excluded {
		if counts(c) {
			n += count
		}
	}
	return n
}

func (v *verdict) print(w io.Writer) {
	fmt.Fprintf(w, "%-40s reference %3d  spindle %3d  later %3d  excluded %3d  version %3d  fails in both %2d  wrong %d\n",
		v.file, v.reference, v.passes, v.later(), v.never(), v.version(), v.bothFail, v.wrong())
	for _, rec := range v.failures {
		fmt.Fprintf(w, "  %s: %s\n%s", rec.status, rec.name, indent(rec.detail))
	}
	for _, name := range v.missing {
		fmt.Fprintf(w, "  not reached: %s\n", name)
	}
	for _, e := range v.stale {
		fmt.Fprintf(w, "  exclusions, line %d: nothing needs it any more: %s\n", e.line, e.name)
	}
}

// indent returns the first lines of a failure, indented.
func indent(detail string) string {
	lines := strings.SplitN(strings.TrimSpace(detail), "\n", 14)
	for i, line := range lines {
		if len(line) > 240 {
			line = line[:240] + "…"
		}
		lines[i] = "      " + line
	}
	return strings.Join(lines, "\n") + "\n"
}

// unsteady matches the number of a process, a port, and random choices of a test. In integration/psync2 these choices
// are the primary, the replicas, a counter, and the number of cycles. In the cluster's tests they are the failing node
// and its epoch.
var unsteady = regexp.MustCompile(`(\bpid |\bport |\(x = |\bSet #|\bfrom #|\bCYCLE |\bNew master 127\.0\.0\.1:` +
	`|\bnode #|\bInstance #|\bslave of #|\bfailover by #|\bwith old epoch )\d+`)

// steadyName returns a test's name without the parts that differ between runs.
func steadyName(name string) string { return unsteady.ReplaceAllString(name, "${1}N") }
