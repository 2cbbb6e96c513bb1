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

// A suite is the tests of one release: the files that are run, and their known results.
type suite struct {
	name       string // the release, as in the report and in -suite
	files      []string
	later      []laterFiles // files that are not run yet
	exclusions string       // the name of its file of exclusions
	open       func(ctx context.Context, here string) (*place, error)
	external   bool // the suite is a client of servers that are started here
}

// laterFiles lists whole files about a missing feature.
type laterFiles struct {
	feature string
	files   []string
}

// A place is the location of a suite on this machine.
type place struct {
	source    string // the unpacked tree
	server    string // the suite's own server, the reference
	version   string // the versions of both for the report
	reference string // the file with that server's result for each test
}

// newerVersion is the release whose behaviour spindle follows.
const newerVersion = "7.4.1"

// sourceVariable is the environment variable that names the unpacked source of the newer suite.
const sourceVariable = "REDIS_SRC"

var (
	newer = &suite{name: newerVersion, files: newerFiles, later: newerLater, exclusions: "exclusions-7.4.txt",
		open: openNewer}
	older = &suite{name: "7.0", files: olderFiles, exclusions: "exclusions.txt", open: openOlder}
)

// inReport lists the suites in the report's order.
var inReport = []*suite{newer, older, through}

// openOlder returns the place with Debian's source package and its redis-server.
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

// openNewer returns the place of the tree that REDIS_SRC names. The results of its server are kept for each build of
// that server.
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
