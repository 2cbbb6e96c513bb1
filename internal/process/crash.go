package process

import (
	"os"
	"runtime/debug"
	"time"

	"spindle/internal/logging"
	"spindle/internal/reason"
)

// crashOutput makes the Go runtime write a panic to the log file too. The runtime always writes to standard error, but
// a daemon has none.
//
// The runtime keeps a descriptor, because a dying process cannot open a file. A rotation moves the log away, so the
// file is checked from time to time: the runtime must write to the new one.
type crashOutput struct {
	path    string // absolute; "": the log is standard output, and nothing is done
	enabled func() bool
	log     *logging.Logger
	current os.FileInfo // the file that the runtime writes to; nil: none
}

// crashOutputEvery is the time between two looks at the file.
const crashOutputEvery = 5 * time.Second

// KeepCrashes makes the log file get the stacks of a panic while crash-log-enabled is set, until stop closes.
func KeepCrashes(s *Settings, log *logging.Logger, stop <-chan struct{}) {
	debug.SetTraceback("all") // goroutines of loops and savers may explain a panic in a turn
	c := &crashOutput{path: s.logPath(), enabled: s.CrashLog.Get, log: log}
	if c.path != "" {
		c.follow()
		go c.watch(stop)
	}
}

// watch follows the file and crash-log-enabled until stop closes. It has its own goroutine.
func (c *crashOutput) watch(stop <-chan struct{}) {
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

// follow gives the runtime the file that has the log's name now. If crash-log-enabled is off, it takes the file away.
func (c *crashOutput) follow() {
	if !c.enabled() {
		if c.current != nil {
			c.current = nil
			_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
		}
		return
	}
	if now, err := os.Stat(c.path); c.current != nil && (err != nil || os.SameFile(now, c.current)) {
		return // the same file; or the log was moved and has no new file yet
	}
	f, err := os.OpenFile(c.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return // the log could not record the error either
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
