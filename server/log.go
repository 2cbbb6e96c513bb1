package server

import (
	"fmt"
	"log/syslog"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"spindle/internal/logging"
	"spindle/internal/setting"
)

// Version is spindle's own version.
const Version = "0.1.0"

// OpenLog points log to where the settings say, and keeps its level with loglevel.
func OpenLog(log *logging.Logger, s *ProcessSettings, registry *setting.Registry) {
	log.ToFile(absoluteOrEmpty(s.LogFile.Get()))
	if s.SyslogEnabled.Get() {
		log.ToSyslog(s.SyslogIdent.Get(), syslog.Priority(s.SyslogFacility.Get()))
	}
	log.SetLevel(s.LogLevel.Get())
	registry.Follow(func() { log.SetLevel(s.LogLevel.Get()) }, "loglevel")
	registry.LogWarnings(log.Warning)
}

// absoluteOrEmpty fixes a path now, so that CONFIG SET dir does not move the log.
func absoluteOrEmpty(path string) string {
	if path == "" {
		return ""
	}
	return absolute(path)
}

// Revision is the commit the program was built from: eight hex digits, and whether files had been changed.
func Revision() (sha string, modified bool) {
	sha = "00000000"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return sha, false
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 8:
			sha = s.Value[:8]
		case s.Key == "vcs.modified":
			modified = s.Value == "true"
		}
	}
	return sha, modified
}

// BuildID tells builds apart: a hash of what the program was made of, in hex.
func BuildID() string {
	h := uint64(14695981039346656037) // FNV-1a
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, c := range []byte(info.String()) {
			h = (h ^ uint64(c)) * 1099511628211
		}
	}
	return strconv.FormatUint(h, 16)
}

// LogStart writes the first lines of a life.
func LogStart(log *logging.Logger, args Arguments) {
	sha, modified := Revision()
	log.Notice("oO0OoO0OoO0Oo Redis is starting oO0OoO0OoO0Oo")
	log.Notice("Redis version=%s, bits=64, commit=%s, modified=%d, pid=%d, just started",
		RedisVersion, sha, asInt(modified), os.Getpid())
	log.Notice("spindle version=%s", Version)
	if args.Bare {
		log.Warning("Warning: no config file specified, using the default config. In order to specify a config file use %s "+
			"/path/to/redis.conf", args.Program)
	} else {
		log.Notice("Configuration loaded")
	}
}

// LogMode shows the logo, or one line that says the same. port is the TCP port, or the TLS port if that is all there
// is.
func LogMode(log *logging.Logger, s *ProcessSettings, mode string, port int64) {
	terminal := s.LogFile.Get() == "" && !s.SyslogEnabled.Get() && isTerminal(os.Stdout)
	if !terminal && !s.AlwaysShowLogo.Get() {
		log.Notice("Running mode=%s, port=%d.", mode, port)
		return
	}
	if log.Enabled(logging.LevelNotice) {
		log.Raw(logo(mode, port))
	}
}

// logo is a spindle, and beside it what it runs as.
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

`, Version, RedisVersion, mode, port, os.Getpid())
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// summary is the one line that tells this server from others: version, addresses, configuration, folder, the limit of
// memory, and what is kept on disk.
func (in *instance) summary() string {
	value := func(name string) string { return in.registry.Lookup(name).Get() }
	addresses := in.reactor.Addrs()
	if in.admin != nil {
		addresses = append(addresses, in.admin.at.String()+" (admin)")
	}
	file, memory, disk := in.config.File, "no maxmemory", "no append-only file"
	if file == "" {
		file = "no configuration file"
	}
	if limit := in.engine.MaxMemory.Get(); limit != 0 {
		memory = "maxmemory " + setting.FormatMemory(uint64(limit)) + " " + value("maxmemory-policy")
	}
	if value("appendonly") == "yes" {
		disk = "append-only file synced " + value("appendfsync")
	}
	saves := "no saves"
	if rules := value("save"); rules != "" {
		saves = "saves " + rules
	}
	return fmt.Sprintf("spindle %s on %s: %s, folder %s, %s, %s, %s", Version, strings.Join(addresses, ", "), file,
		value("dir"), memory, disk, saves)
}
