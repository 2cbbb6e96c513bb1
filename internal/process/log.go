package process

import (
	"fmt"
	"log/syslog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"spindle/internal/logging"
	"spindle/internal/setting"
	"spindle/internal/version"
)

// OpenLog opens the log of the settings. Its level and form follow the settings.
func OpenLog(log *logging.Logger, s *Settings, registry *setting.Registry) {
	log.ToFile(s.logPath())
	if s.SyslogEnabled.Get() {
		log.ToSyslog(s.SyslogIdent.Get(), syslog.Priority(s.SyslogFacility.Get()))
	}
	follow := func() {
		log.SetLevel(s.LogLevel.Get())
		log.SetForm(s.LogFormat.Get(), s.LogStamp.Get())
		log.Hide(s.HideData.Get())
	}
	follow()
	registry.Follow(follow, "loglevel", "log-format", "log-timestamp-format", "hide-user-data-from-log")
	registry.LogWarnings(log.Warning)
}

// logPath returns the absolute path of the log file, or "" without a file. It is absolute so that CONFIG SET dir does
// not move the log.
func (s *Settings) logPath() string {
	path := s.LogFile.Get()
	if path == "" {
		return ""
	}
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// LogStart writes the first lines of a process. program is argv[0]. bare means that there was no other argument.
func LogStart(log *logging.Logger, program string, bare bool) {
	sha, modified := version.Commit()
	log.Notice("oO0OoO0OoO0Oo Redis is starting oO0OoO0OoO0Oo")
	log.Notice("Redis version=%s, bits=64, commit=%s, modified=%d, pid=%d, just started",
		version.Redis, sha, modified, os.Getpid())
	log.Notice("spindle version=%s", version.Spindle)
	if bare {
		log.Warning("Warning: no config file specified, using the default config. In order to specify a config file use %s "+
			"/path/to/redis.conf", program)
	} else {
		log.Notice("Configuration loaded")
	}
}

// LogMode shows the logo on a terminal, and one line with the same facts elsewhere. port is the TCP port, or the TLS
// port if there is no TCP port.
func LogMode(log *logging.Logger, s *Settings, mode string, port int64) {
	terminal := s.LogFile.Get() == "" && !s.SyslogEnabled.Get() && isTerminal(os.Stdout)
	if !terminal && !s.AlwaysShowLogo.Get() || s.LogFormat.Get() != logging.FormatLegacy {
		log.Notice("Running mode=%s, port=%d.", mode, port)
		return
	}
	if log.Enabled(logging.LevelNotice) {
		log.Raw(logo(mode, port))
	}
}

// logo is a spindle, with the server's mode and port at its side.
func logo(mode string, port int64) string {
	return fmt.Sprintf(`
          |
          |
        .-+-.         spindle %s, a server for Redis %s clients
      .'  |  '.
     /::::|::::\      Running in %s mode
    |:::::|:::::|     Port: %d
     \::::|::::/      PID: %d
      '.  |  .'
        '-+-'
          |
          v

`, version.Spindle, version.Redis, mode, port, os.Getpid())
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
