package process

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"spindle/internal/logging"
	"spindle/internal/version"
)

// Signals turns the signals of the system into actions of the server.
//
//	SIGTERM, SIGINT       a shutdown, as shutdown-on-sigterm and -sigint say; a second SIGINT ends the process
//	                      at once, with 1
//	SIGHUP, SIGPIPE       nothing
//	SIGALRM               the log gets the stack of every goroutine
//	SIGUSR1, SIGUSR2      a line in the log; a script made for another program shall not end this one
//	SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT from outside    a crash report, then the end by that signal
type Signals struct {
	// Shutdown gets the mode of each shutdown that a signal asks for. Its reader calls Refused if the server continues.
	Shutdown chan ShutdownMode

	settings *Settings
	log      *logging.Logger
	pending  atomic.Bool // a shutdown was asked for
	atOnce   func()
	loading  func() bool
	incoming chan os.Signal
}

// WatchSignals begins to handle signals. atOnce runs before a second SIGINT ends the process, and removes unfinished
// files. loading reports whether the data set is being loaded. Either function may be nil.
func WatchSignals(s *Settings, log *logging.Logger, atOnce func(), loading func() bool) *Signals {
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

// watchCrashes applies crash-log-enabled. Without it, crash signals keep their default action.
func (w *Signals) watchCrashes() {
	crashes := []os.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGABRT}
	if w.settings.CrashLog.Get() {
		signal.Notify(w.incoming, crashes...)
	} else {
		signal.Reset(crashes...)
	}
}

// CrashLogChanged is the hook of crash-log-enabled.
func (w *Signals) CrashLogChanged() error {
	w.watchCrashes()
	return nil
}

// Stop ends WatchSignals. Signals then have their default actions again.
func (w *Signals) Stop() {
	signal.Stop(w.incoming)
	close(w.incoming)
}

// Refused notes that the last shutdown was given up. The next signal starts another one.
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
		w.log.Raw(Stacks() + "--------\n")
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
	default: // the server has not received the previous one yet
	}
}

// crash reports a signal that came from outside, and ends the process by that signal. The parent process sees that,
// unless the Go runtime catches the signal first and exits with 2 (SIGSEGV, SIGABRT).
func (w *Signals) crash(s unix.Signal) {
	w.log.Raw(CrashReport(fmt.Sprintf("Redis %s crashed by signal: %d, sent from outside the process",
		version.Redis, int(s)), Stacks()))
	signal.Reset(s)
	_ = unix.Kill(os.Getpid(), s)
}

// CrashReport returns the text that a bug report needs: the event, the stacks of all goroutines, and the build.
func CrashReport(event, stacks string) string {
	sha, modified := version.Commit()
	return fmt.Sprintf(`

=== REDIS BUG REPORT START: Cut & paste starting from here ===
%d:M # %s
%d:M # spindle %s, Redis %s, commit %s, modified %d, %s, pid %d

------ STACK TRACE ------
%s
=== REDIS BUG REPORT END. Make sure to include from START to END. ===

`, os.Getpid(), event,
		os.Getpid(), version.Spindle, version.Redis, sha, modified, runtime.Version(), os.Getpid(),
		stacks)
}

// Stacks returns the stacks of all goroutines, cut to a size that fits a log.
func Stacks() string {
	buf := make([]byte, 256<<10)
	return string(buf[:runtime.Stack(buf, true)])
}
