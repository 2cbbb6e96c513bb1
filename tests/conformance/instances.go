package main

import (
	_ "embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// The tests of Sentinel and of the cluster have their own drivers. Each driver starts its servers once and runs all of
// its files on them. Here the tests of a driver count as one file, which is run once for each pair of programs.
const (
	sentinelFile    = "sentinel"
	sentinelOver    = "sentinel over redis-server"
	sentinelBeneath = "redis-sentinel over spindle"
	clusterFile     = "cluster"
	clusterMixed    = "cluster beside redis-servers"
)

var instancesFiles = []string{sentinelFile, sentinelOver, sentinelBeneath, clusterFile, clusterMixed}

// An instancesRun says how one of these files is run.
type instancesRun struct {
	driver    string
	reference string        // the file with the results of a run with only Redis's programs
	limit     time.Duration // for the whole run
	idle      time.Duration // the limit between two ends of tests; moving slots under load takes minutes
	programs  func(server, reference string) programs
}

// programs has the programs to start for each name that the drivers use.
type programs struct {
	sentinel string
	server   string
	odd      string // the server of every second node
}

var instancesRuns = map[string]*instancesRun{
	sentinelFile: {"./runtest-sentinel", sentinelFile, 40 * time.Minute, idleLimit,
		func(server, _ string) programs { return programs{server, server, server} }},
	sentinelOver: {"./runtest-sentinel", sentinelFile, 40 * time.Minute, idleLimit,
		func(server, reference string) programs { return programs{server, reference, reference} }},
	sentinelBeneath: {"./runtest-sentinel", sentinelFile, 40 * time.Minute, idleLimit,
		func(server, reference string) programs { return programs{reference, server, server} }},
	clusterFile: {"./runtest-cluster", clusterFile, 2 * time.Hour, 20 * time.Minute,
		func(server, _ string) programs { return programs{server, server, server} }},
	clusterMixed: {"./runtest-cluster", clusterFile, 2 * time.Hour, 20 * time.Minute,
		func(server, reference string) programs { return programs{server, server, reference} }},
}

//go:embed instances.tcl
var instancesTcl []byte

// referenceOf returns the name of the file with the reference's results.
func referenceOf(file string) string {
	if run := instancesRuns[file]; run != nil {
		return run.reference
	}
	return file
}

// addInstances makes the second edit, at the end of tests/instances.tcl. A tree without these drivers has no such
// tests.
func addInstances(dir string) error {
	out, err := os.OpenFile(filepath.Join(dir, "tests", "instances.tcl"), os.O_APPEND|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err = out.Write(instancesTcl); err != nil {
		return err
	}
	for _, driver := range []string{"sentinel", "cluster"} {
		if err := os.MkdirAll(filepath.Join(dir, "tests", driver, "tmp"), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// everySecond starts one program for instances with an even number and another for those with an odd number. exec
// replaces the shell, so the PID that the driver knows is the server's.
const everySecond = `#!/bin/sh
case "$1" in
redis_*[13579]/*) exec "$ODD_SERVER" "$@" ;;
*) exec "$EVEN_SERVER" "$@" ;;
esac
`

// wrapInstances makes the names in src start the programs of one run. spindle runs as a Sentinel when it is started
// under a Sentinel's name. env is the environment that the run needs.
func wrapInstances(dir string, with programs) (env []string, err error) {
	if err := wrap(dir, "redis-sentinel", with.sentinel); err != nil {
		return nil, err
	}
	if err := wrap(dir, "redis-server", with.server); err != nil || with.odd == with.server {
		return nil, err
	}
	script := filepath.Join(dir, "every-second")
	if err := os.WriteFile(script, []byte(everySecond), 0o755); err != nil {
		return nil, err
	}
	return []string{"EVEN_SERVER=" + with.server, "ODD_SERVER=" + with.odd}, wrap(dir, "redis-server", script)
}
