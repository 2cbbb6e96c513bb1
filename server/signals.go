package server

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"spindle/internal/logging"
)

// Signals turns what the system sends into what the server does.
//
//	SIGTERM, SIGINT       a shutdown, as shutdown-on-sigterm and -sigint say; a second SIGINT ends the process
//	                      at once, with 1
//	SIGHUP, SIGPIPE       nothing
//	SIGALRM               the log gets what every goroutine does
//	SIGUSR1, SIGUSR2      a line in the log; an operator's script for another program shall not end this one
//	SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT from outside    a crash report, then the end by that signal
type Signals struct {
	// Shutdown gets the mode of each shutdown asked for. Whoever reads it calls Refused if the server goes on after all.
	Shutdown chan ShutdownMode

	settings *ProcessSettings
	log      *logging.Logger
	pending  atomic.Bool
	atOnce   func() // cleans up before the end that does not wait
	loading  func() bool
	incoming chan os.Signal
}

// WatchSignals begins. atOnce runs before a second SIGINT ends the process: it removes unfinished files. loading says
// that the data set is being read. Either may be nil.
func WatchSignals(s *ProcessSettings, log *logging.Logger, atOnce func(), loading func() bool) *Signals {
	w := &Signals{
		Shutdown: make(chan ShutdownMode, 1), settings: s, log: log, atOnce: atOnce, loading: loading,
		incoming: make(chan os.Signal, 16),
	}
	signal.Ignore(unix.SIGHUP, unix.SIGPIPE)
	signal.Notify(w.incoming, unix.SIGTERM, unix.SIGINT, unix.SIGALRM, unix.SIGUSR1, unix.SIGUSR2)
	w.watchCrashes()
	go func() {
		for s := range w.incoming {
			w.handle(s.(unix.Signal))
		}
	}()
	return w
}

// watchCrashes follows crash-log-enabled; without it those signals end the process as they would any.
func (w *Signals) watchCrashes() {
	crashes := []os.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGABRT}
	if w.settings.CrashLog.Get() {
		signal.Notify(w.incoming, crashes...)
	} else {
		signal.Reset(crashes...)
	}
}

// CrashLogChanged is crash-log-enabled's hook.
func (w *Signals) CrashLogChanged() error {
	w.watchCrashes()
	return nil
}

// Stop gives signals back to the system's own ways.
func (w *Signals) Stop() {
	signal.Stop(w.incoming)
	close(w.incoming)
}

// Refused says that the last shutdown did not happen: the next signal asks anew.
func (w *Signals) Refused() { w.pending.Store(false) }

func (w *Signals) handle(s unix.Signal) {
	switch s {
	case unix.SIGTERM:
		w.shutdown("SIGTERM", w.settings.OnSigTerm.Get())
	case unix.SIGINT:
		if w.pending.Load() {
			w.log.Signal(logging.LevelWarning, "You insist... exiting now.")
			if w.atOnce != nil {
				w.atOnce()
			}
			os.Exit(1)
		}
		w.shutdown("SIGINT", w.settings.OnSigInt.Get())
	case unix.SIGALRM:
		w.log.Signal(logging.LevelWarning, "\nReceived SIGALRM")
		w.log.Raw(stacks() + "--------\n")
	case unix.SIGUSR1, unix.SIGUSR2:
		w.log.Notice("Received %s, which asks nothing of this server", unix.SignalName(s))
	default:
		w.crash(s)
	}
}

func (w *Signals) shutdown(name string, mode ShutdownMode) {
	text := "Received " + name + " scheduling shutdown..."
	if w.loading != nil && w.loading() {
		text = "Received shutdown signal during loading, scheduling shutdown."
	}
	w.log.Signal(logging.LevelWarning, text)
	w.pending.Store(true)
	select {
	case w.Shutdown <- mode:
	default: // the one before has not been looked at yet
	}
}

// crash reports a signal that came from outside and ends the process: by the signal itself, so that whoever waits for
// it sees that, where the Go runtime does not catch it once more and exits with 2 (SIGSEGV, SIGABRT).
func (w *Signals) crash(s unix.Signal) {
	w.log.Raw(CrashReport(fmt.Sprintf("Redis %s crashed by signal: %d, sent from outside the process",
		RedisVersion, int(s)), stacks()))
	signal.Reset(s)
	_ = unix.Kill(os.Getpid(), s)
}

// CrashReport frames what a person who mends it needs to see: what happened, where every goroutine was, and which build
// it was.
func CrashReport(what, trace string) string {
	sha, modified := Revision()
	return fmt.Sprintf(`

=== REDIS BUG REPORT START: Cut & paste starting from here ===
%d:M # %s
%d:M # spindle %s, Redis %s, commit %s, modified %d, %s, pid %d

------ STACK TRACE ------
%s
=== REDIS BUG REPORT END. Make sure to include from START to END. ===

`, os.Getpid(), what, os.Getpid(), Version, RedisVersion, sha, asInt(modified), runtime.Version(), os.Getpid(), trace)
}

// stacks is what every goroutine does, up to a size that a log bears.
func stacks() string {
	buf := make([]byte, 256<<10)
	return string(buf[:runtime.Stack(buf, true)])
}
