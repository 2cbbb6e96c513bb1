package main

import (
	_ "embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// The tests of Sentinel have a driver of their own, which runs all of their files. Here they count as one file, which
// is run three times: with Sentinels and servers of both kinds.
const (
	sentinelFile    = "sentinel"
	sentinelOver    = "sentinel over redis-server"
	sentinelBeneath = "redis-sentinel over spindle"
)

// sentinelFiles are the three runs.
var sentinelFiles = []string{sentinelFile, sentinelOver, sentinelBeneath}

// sentinelLimit is how long one run may take.
const sentinelLimit = 40 * time.Minute

//go:embed sentinel.tcl
var sentinelTcl []byte

// isSentinel says whether file is one of the three.
func isSentinel(file string) bool { return referenceOf(file) == sentinelFile }

// referenceOf is the file under which the reference's results stand: it has one kind of Sentinel only.
func referenceOf(file string) string {
	if file == sentinelOver || file == sentinelBeneath {
		return sentinelFile
	}
	return file
}

// addSentinel makes the second edit: the end of tests/instances.tcl. A tree without that driver has no such tests.
func addSentinel(dir string) error {
	out, err := os.OpenFile(filepath.Join(dir, "tests", "instances.tcl"), os.O_APPEND|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err = out.Write(sentinelTcl); err != nil {
		return err
	}
	return os.MkdirAll(filepath.Join(dir, "tests", "sentinel", "tmp"), 0o755)
}

// wrapSentinel makes src/redis-sentinel and src/redis-server stand for the programs of one of the three runs. Which of
// them is a Sentinel the program knows by its name.
func wrapSentinel(dir, file, server, reference string) error {
	watcher, watched := server, server
	switch file {
	case sentinelOver:
		watched = reference
	case sentinelBeneath:
		watcher = reference
	}
	if err := wrap(dir, "redis-sentinel", watcher); err != nil {
		return err
	}
	return wrap(dir, "redis-server", watched)
}
