package process

import (
	"golang.org/x/sys/unix"

	"spindle/internal/logging"
	"spindle/internal/reason"
	"spindle/internal/setting"
)

// A Begun is a process that has opened its log, and has become a daemon or a supervised process if the settings ask for
// that.
type Begun struct {
	Supervisor *Supervisor

	isDaemon bool
}

// Begin opens the log, finds the supervisor, and becomes a daemon if the settings ask for one. It switches off huge
// pages and keeps to some processors if the settings ask for that. argv and stdin are for Daemonize. If the process has
// nothing more to do, the result is nil, and the process must exit with code.
func Begin(s *Settings, registry *setting.Registry, log *logging.Logger, argv []string, stdin []byte) (b *Begun,
	code int) {
	OpenLog(log, s, registry)
	b = &Begun{Supervisor: Supervise(s, log), isDaemon: IsDaemon()}
	if s.Daemonize.Get() && !b.Supervisor.Active() && !b.isDaemon {
		if err := Daemonize(argv, stdin); err != nil {
			log.Warning("Can't daemonize: %s", err)
			return nil, 1
		}
		return nil, 0
	}
	if err := Detach(); err != nil {
		log.Warning("Can't detach from standard input: %s", err)
		return nil, 1
	}
	if s.SmallPages.Get() {
		if err := unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0); err != nil {
			log.Warning("Can't switch off transparent huge pages: %s", reason.Of(err))
		}
	}
	pin(s, log)
	return b, 0
}

// Follow applies settings of a process that is no server, now and after each change. They are the title and the score
// for the kernel's choice when memory runs out. Until stop closes, the log also gets the traces of a crash.
func (b *Begun) Follow(s *Settings, registry *setting.Registry, log *logging.Logger, t Title,
	stop <-chan struct{}) error {
	KeepCrashes(s, log, stop)
	show := func() error { ShowTitle(s, log, t); return nil }
	registry.OnChange(show, "proc-title-template")
	_ = show()
	oom := NewOomAdjuster(s, log)
	adjust := func() error { return oom.Apply(false) }
	registry.OnChange(adjust, "oom-score-adj", "oom-score-adj-values")
	return adjust()
}

// WritePidFile writes the PID to the file that the settings name. A daemon has a default file. A file that cannot be
// written is only a warning. The path is for RemovePidFile; it is empty without a pid file.
func (b *Begun) WritePidFile(s *Settings, log *logging.Logger) (path string) {
	return writePidFile(s, b.isDaemon, log)
}
