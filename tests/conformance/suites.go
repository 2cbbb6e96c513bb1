package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// A suite is one release's tests: which of its files are run, and what is known of them.
type suite struct {
	name       string // the release, as the report and -suite call it
	files      []string
	later      []laterFiles // files of which nothing is run yet
	exclusions string       // the file's name, in the folder of the lists
	open       func(ctx context.Context, here string) (*place, error)
}

// laterFiles are whole files that are about a feature to come.
type laterFiles struct {
	feature string
	files   []string
}

// A place is where a suite lies on this machine.
type place struct {
	source    string // the unpacked tree
	server    string // its own server: the reference
	version   string // what the report says of both
	reference string // the file that keeps what that server makes of each test
}

// newerVersion is the release whose behaviour spindle follows.
const newerVersion = "7.4.1"

// sourceVariable names the unpacked source of the newer suite.
const sourceVariable = "REDIS_SRC"

var (
	newer = &suite{name: newerVersion, files: newerFiles, later: newerLater, exclusions: "exclusions-7.4.txt",
		open: openNewer}
	older = &suite{name: "7.0", files: olderFiles, exclusions: "exclusions.txt", open: openOlder}
)

// inReport are the suites in the order the report has them.
var inReport = []*suite{newer, older}

// openOlder is Debian's source package and its redis-server.
func openOlder(ctx context.Context, here string) (*place, error) {
	source, version, err := fetchSource(ctx)
	if err != nil {
		return nil, err
	}
	server, err := exec.LookPath("redis-server")
	return &place{source, server, "Debian's redis source package " + version, filepath.Join(here, "reference.txt")}, err
}

var (
	versionLine = regexp.MustCompile(`#define REDIS_VERSION "([^"]*)"`)
	buildWord   = regexp.MustCompile(`\bbuild=(\w+)`)
	errNoServer = errors.New("there is no built server in it: make it first")
)

// openNewer is the tree that REDIS_SRC names. What its server makes of the suite is kept for each build of it.
func openNewer(ctx context.Context, _ string) (*place, error) {
	source, err := filepath.Abs(os.Getenv(sourceVariable))
	if err != nil {
		return nil, err
	}
	header, err := os.ReadFile(filepath.Join(source, "src", "version.h"))
	if err != nil {
		return nil, fmt.Errorf("%s names no source of redis: %w", sourceVariable, err)
	}
	if m := versionLine.FindSubmatch(header); m == nil || string(m[1]) != newerVersion {
		return nil, fmt.Errorf("%s names another version than %s: %s", sourceVariable, newerVersion, m)
	}
	server := filepath.Join(source, "src", "redis-server")
	if _, err := os.Stat(server); err != nil {
		return nil, fmt.Errorf("%s: %w", sourceVariable, errNoServer)
	}
	build := buildWord.FindStringSubmatch(serverVersion(ctx, server))
	if build == nil {
		return nil, fmt.Errorf("%s does not say which build it is", server)
	}
	cache, err := cacheDir()
	return &place{source, server, "redis " + newerVersion + ", unpacked, with its own server",
		filepath.Join(cache, "reference-"+newerVersion+"-"+build[1]+".txt")}, err
}
