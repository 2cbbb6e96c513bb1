package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
)

// A class is a kind of exclusion.
type class struct {
	name    string
	later   bool // the tests must pass once a feature exists
	version bool // the test is about another version's behaviour
	means   string
}

// classes is the complete list. A new kind of exclusion changes this table, so reviewers of the commit notice it.
var classes = []class{
	{"debugger", true, false, "needs a Lua debugger: SCRIPT DEBUG YES and SYNC are refused"},
	{"cluster", true, false, "needs cluster mode or MIGRATE"},
	{"modules", true, false, "needs modules"},
	{"allocator", false, false, "figures or commands of jemalloc"},
	{"c-internals", false, false, "looks into C structures: hash table sizes, client buffers, shared objects"},
	{"forked-child", false, false, "looks for a forked child by PID: spindle saves without fork"},
	{"c-crash", false, false, "C stack traces, or input on which the C server has to die"},
	{"crypto-tls", false, false, "needs a cipher that Go's crypto/tls does not have"},
	{"better", false, false, "spindle serves the client better, on purpose"},
	{"several-slots", false, false, "names keys of several slots in one command or transaction: refused with an error"},
	{"one-server", false, false, "asks about a single server, or sets it up: refused by name, or another shard answers"},
	{"proxy-later", true, false, "needs a command that the proxy does not serve yet"},
	{"since-7.4", false, true, "7.4 changed it against 7.0, and spindle follows 7.4"},
	{"newer", false, true, "newer servers changed it against 7.4, and spindle follows them"},
}

// An exclusion is one line of exclusions.txt.
//
//	== unit/keyspace
//	list: SCAN TYPE -- makes its keys with LPUSH
//	list!: a test that must not even start -- blocks forever
//	hash: /^SET .* on a hash -- a name that begins with a slash is a regular expression
//
// The text before the first colon is the class. With ! the test is left out of the run. The reason follows the last "
// -- ".
type exclusion struct {
	line    int
	file    string
	class   *class
	skip    bool
	name    string
	pattern *regexp.Regexp // if nil, the name must match exactly
	reason  string
	matched int
}

func (e *exclusion) matches(name string) bool {
	if e.pattern != nil {
		return e.pattern.MatchString(name)
	}
	return e.name == name
}

// exclusions is the whole list, by file.
type exclusions struct {
	files map[string][]*exclusion
	all   []*exclusion
}

func (x *exclusions) of(file string) []*exclusion { return x.files[file] }

// skipped returns the names of the tests of file that the suite must leave out.
func (x *exclusions) skipped(file string) (names []string) {
	for _, e := range x.files[file] {
		if e.skip {
			names = append(names, e.name)
		}
	}
	return names
}

var (
	errNoFile   = errors.New("an exclusion stands below a line \"== file\"")
	errNoReason = errors.New("an exclusion is \"class: name of test -- reason\"")
)

func readExclusions(file string) (*exclusions, error) {
	x := &exclusions{files: map[string][]*exclusion{}}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return x, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	current := ""
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if name, ok := strings.CutPrefix(line, "== "); ok {
			current = name
			continue
		}
		e, err := parseExclusion(line)
		if err == nil && current == "" {
			err = errNoFile
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		e.file, e.line = current, n
		x.files[current] = append(x.files[current], e)
		x.all = append(x.all, e)
	}
	return x, lines.Err()
}

// parseExclusion parses one line.
func parseExclusion(line string) (*exclusion, error) {
	kind, rest, ok := strings.Cut(line, ": ")
	at := strings.LastIndex(rest, " -- ")
	if !ok || at < 0 || strings.TrimSpace(rest[at+4:]) == "" {
		return nil, errNoReason
	}
	e := &exclusion{name: strings.TrimSpace(rest[:at]), reason: strings.TrimSpace(rest[at+4:])}
	kind, e.skip = strings.CutSuffix(kind, "!")
	for i := range classes {
		if classes[i].name == kind {
			e.class = &classes[i]
		}
	}
	if e.class == nil {
		return nil, fmt.Errorf("there is no class %q; exclusions.go lists them", kind)
	}
	if pattern, ok := strings.CutPrefix(e.name, "/"); ok {
		var err error
		if e.pattern, err = regexp.Compile(pattern); err != nil {
			return nil, err
		}
	}
	return e, nil
}
