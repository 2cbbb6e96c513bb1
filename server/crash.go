package server

import (
	"os"
	"runtime/debug"
	"time"

	"spindle/internal/logging"
	"spindle/internal/reason"
)

// crashOutput has the log file get what the Go runtime says when a goroutine panics: standard error, where it goes in
// any case, is nowhere for a daemon.
//
// The runtime keeps a descriptor of its own, because a dying process opens no file. So the file is looked at now and
// then: one that was moved away by a rotation shall not get what belongs to its successor.
type crashOutput struct {
	path    string // absolute; "": the log is standard output, and nothing is done
	enabled func() bool
	log     *logging.Logger
	current os.FileInfo // the file that the runtime writes to; nil: none
}

// crashOutputEvery is how often the file is looked at.
const crashOutputEvery = 5 * time.Second

// watch follows the file and crash-log-enabled until stop closes. On a goroutine of its own.
func (c *crashOutput) watch(stop <-chan struct{}) {
	if c.path == "" {
		return
	}
	ticker := time.NewTicker(crashOutputEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			c.follow()
		}
	}
}

// follow gives the runtime the file that bears the log's name now, or takes it away.
func (c *crashOutput) follow() {
	if c.path == "" {
		return
	}
	if !c.enabled() {
		if c.current != nil {
			c.current = nil
			_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
		}
		return
	}
	if now, err := os.Stat(c.path); c.current != nil && (err != nil || os.SameFile(now, c.current)) {
		return // the same, or moved away and nothing written since
	}
	f, err := os.OpenFile(c.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return // the log cannot say so either
	}
	defer func() { _ = f.Close() }() // the runtime has a duplicate
	info, err := f.Stat()
	if err == nil {
		err = debug.SetCrashOutput(f, debug.CrashOptions{})
	}
	if err != nil {
		c.log.Warning("The log will not get the trace of a crash: %s", reason.Of(err))
		return
	}
	c.current = info
}
