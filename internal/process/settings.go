package process

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"spindle/internal/logging"
	"spindle/internal/reason"
	"spindle/internal/setting"
)

// Settings are the rows of the process: its files, log, supervision and signals.
type Settings struct {
	Daemonize      setting.Bool
	Supervised     setting.Enum[supervision]
	PidFile        setting.String
	LogLevel       setting.Enum[logging.Level]
	LogFormat      setting.Enum[logging.Format]
	HideData       setting.Bool // lines leave out data of users
	LogStamp       setting.Enum[logging.Stamp]
	LogFile        setting.String
	SyslogEnabled  setting.Bool
	SyslogIdent    setting.String
	SyslogFacility setting.Enum[facility]
	AlwaysShowLogo setting.Bool
	SetProcTitle   setting.Bool
	TitleTemplate  setting.String
	Zone           setting.String // availability-zone
	OomScoreAdj    setting.Enum[oomMode]
	OomValues      setting.Value[[3]int]
	OnSigInt       setting.Enum[ShutdownMode]
	OnSigTerm      setting.Enum[ShutdownMode]
	ShutdownWait   setting.Int // shutdown-timeout, seconds
	CrashLog       setting.Bool
	ServerCPUs     setting.String
	SmallPages     setting.Bool // disable-thp
	unread         struct {
		crashMemcheck, exitOnPanic           setting.Bool
		bioCPUs, aofCPUs, saveCPUs, warnings setting.String
		watchdog                             setting.Int
	}
}

type supervision int

const (
	supervisedNo supervision = iota
	supervisedAuto
	supervisedSystemd
	supervisedUpstart
)

// A facility is a syslog facility, by syslog's number.
type facility int

// ShutdownMode is a set of the words that SHUTDOWN accepts. The settings of a signal accept the same words.
type ShutdownMode int

const (
	ShutdownSave     ShutdownMode = 1 << iota // save even if no save rule exists
	ShutdownNoSave                            // do not save even if a save rule exists
	ShutdownNow                               // do not wait for replicas
	ShutdownForce                             // end even if saving has failed
	ShutdownSafe                              // not if this is a primary of a cluster that serves slots
	ShutdownFailover                          // in a cluster, hand over to a replica first
)

var shutdownWords = []setting.Choice[ShutdownMode]{
	{Name: "default", Value: 0}, {Name: "save", Value: ShutdownSave}, {Name: "nosave", Value: ShutdownNoSave},
	{Name: "now", Value: ShutdownNow}, {Name: "force", Value: ShutdownForce},
	{Name: "safe", Value: ShutdownSafe}, {Name: "failover", Value: ShutdownFailover},
}

func checkShutdown(m ShutdownMode) error {
	if m&ShutdownSave != 0 && m&ShutdownNoSave != 0 {
		return errors.New("shutdown options SAVE and NOSAVE can't be used simultaneously")
	}
	return nil
}

// ShutdownLimit returns how long a shutdown of a process that is no server may take for what it owes.
func (s *Settings) ShutdownLimit(m ShutdownMode) time.Duration {
	if m&ShutdownNow != 0 {
		return 0
	}
	return time.Duration(s.ShutdownWait.Get()) * time.Second
}

type oomMode int

const (
	oomLeave oomMode = iota
	oomRelative
	oomAbsolute
)

// Rows returns the rows of the process, and gives every value its default.
func (s *Settings) Rows() []setting.Row {
	u := &s.unread
	return []setting.Row{
		setting.NewInt("shutdown-timeout", &s.ShutdownWait, 10, setting.Between(0, math.MaxInt32)),
		setting.NewBool("daemonize", &s.Daemonize, false, setting.Immutable),
		setting.NewEnum("supervised", &s.Supervised, supervisedNo, []setting.Choice[supervision]{
			{Name: "upstart", Value: supervisedUpstart}, {Name: "systemd", Value: supervisedSystemd},
			{Name: "auto", Value: supervisedAuto}, {Name: "no", Value: supervisedNo},
		}, setting.Immutable),
		setting.NewString("pidfile", &s.PidFile, "", setting.Immutable),
		setting.NewEnum("loglevel", &s.LogLevel, logging.LevelNotice, []setting.Choice[logging.Level]{
			{Name: "debug", Value: logging.LevelDebug}, {Name: "verbose", Value: logging.LevelVerbose},
			{Name: "notice", Value: logging.LevelNotice}, {Name: "warning", Value: logging.LevelWarning},
			{Name: "nothing", Value: logging.LevelNothing},
		}),
		setting.NewBool("hide-user-data-from-log", &s.HideData, false),
		setting.NewEnum("log-format", &s.LogFormat, logging.FormatLegacy, []setting.Choice[logging.Format]{
			{Name: "legacy", Value: logging.FormatLegacy}, {Name: "logfmt", Value: logging.FormatLogfmt},
			{Name: "json", Value: logging.FormatJSON},
		}),
		setting.NewEnum("log-timestamp-format", &s.LogStamp, logging.StampLegacy, []setting.Choice[logging.Stamp]{
			{Name: "legacy", Value: logging.StampLegacy}, {Name: "iso8601", Value: logging.StampISO8601},
			{Name: "milliseconds", Value: logging.StampMilliseconds},
		}),
		setting.NewString("logfile", &s.LogFile, "", setting.Immutable, setting.KeepEmpty),
		setting.NewBool("syslog-enabled", &s.SyslogEnabled, false, setting.Immutable),
		setting.NewString("syslog-ident", &s.SyslogIdent, "redis", setting.Immutable),
		setting.NewEnum("syslog-facility", &s.SyslogFacility, 16<<3, facilities, setting.Immutable),
		setting.NewBool("always-show-logo", &s.AlwaysShowLogo, false, setting.Immutable),
		setting.NewBool("set-proc-title", &s.SetProcTitle, true, setting.Immutable),
		setting.NewString("proc-title-template", &s.TitleTemplate,
			"{title} {listen-addr} {server-mode}", setting.CheckString(checkTitle)),
		setting.NewString("availability-zone", &s.Zone, "", setting.CheckString(checkZone)),
		setting.NewEnum("oom-score-adj", &s.OomScoreAdj, oomLeave, []setting.Choice[oomMode]{
			{Name: "no", Value: oomLeave}, {Name: "yes", Value: oomRelative},
			{Name: "relative", Value: oomRelative}, {Name: "absolute", Value: oomAbsolute},
		}),
		setting.NewValue("oom-score-adj-values", &s.OomValues, [3]int{0, 200, 800},
			setting.Codec[[3]int]{Parse: parseOomValues, Format: formatOomValues}, setting.MultiArg),
		setting.NewFlags("shutdown-on-sigint", &s.OnSigInt, 0, shutdownWords, checkShutdown),
		setting.NewFlags("shutdown-on-sigterm", &s.OnSigTerm, 0, shutdownWords, checkShutdown),
		setting.NewBool("crash-log-enabled", &s.CrashLog, true),
		setting.NewString("server-cpulist", &s.ServerCPUs, "", setting.Immutable, setting.Also("server_cpulist")),
		setting.NewBool("disable-thp", &s.SmallPages, true, setting.Immutable),
		directoryRow(),

		setting.NewBool("crash-memcheck-enabled", &u.crashMemcheck, true, setting.Nothing("a crash report tests no memory")),
		setting.NewBool("use-exit-on-panic", &u.exitOnPanic, false, setting.Hidden,
			setting.Nothing("a panic always ends with exit code 2")),
		setting.NewString("bio-cpulist", &u.bioCPUs, "", setting.Immutable, setting.Also("bio_cpulist"),
			setting.Nothing("background work has no separate threads")),
		setting.NewString("aof-rewrite-cpulist", &u.aofCPUs, "", setting.Immutable, setting.Also("aof_rewrite_cpulist"),
			setting.Nothing("a rewrite is no separate process")),
		setting.NewString("bgsave-cpulist", &u.saveCPUs, "", setting.Immutable, setting.Also("bgsave_cpulist"),
			setting.Nothing("a save is no separate process")),
		setting.NewString("ignore-warnings", &u.warnings, "", setting.KeepEmpty,
			setting.Nothing("no warning of this server stops it")),
		setting.NewInt("watchdog-period", &u.watchdog, 0, setting.Between(0, math.MaxInt32), setting.Adjust(watchdogPeriod),
			setting.Hidden, setting.Nothing("execution traces and pprof show what is slow")),
	}
}

// zoneMax is the greatest length of a zone's name that nodes send each other.
const zoneMax = 255

// checkZone refuses a name that INFO cannot show in one line.
func checkZone(zone string) error {
	if len(zone) > zoneMax || strings.ContainsFunc(zone, unicode.IsControl) {
		return errors.New("availability-zone must have at most 255 characters, and no control characters")
	}
	return nil
}

// facilities are the facilities of <syslog.h>, with its numbers.
var facilities = []setting.Choice[facility]{
	{Name: "user", Value: 1 << 3}, {Name: "local0", Value: 16 << 3}, {Name: "local1", Value: 17 << 3},
	{Name: "local2", Value: 18 << 3},
	{Name: "local3", Value: 19 << 3}, {Name: "local4", Value: 20 << 3}, {Name: "local5", Value: 21 << 3},
	{Name: "local6", Value: 22 << 3}, {Name: "local7", Value: 23 << 3},
}

// directoryRow returns the row of dir, the working directory of the process. Setting it changes the directory at once.
func directoryRow() setting.Row {
	return setting.NewCall("dir", setting.Call{
		Set: func(args []string, _ setting.How) error {
			if len(args) != 1 {
				return setting.ErrArguments
			}
			if err := os.Chdir(args[0]); err != nil {
				return errors.New(reason.Of(err))
			}
			return nil
		},
		Get: func() string {
			cwd, _ := os.Getwd() // a deleted folder has no name
			return cwd
		},
	}, setting.Protected, setting.DenyLoading, setting.AlwaysFile)
}

// parseOomValues reads the scores of a primary, a replica and a saving process.
func parseOomValues(args []string, _ [3]int, _ setting.How) (values [3]int, err error) {
	if len(args) != len(values) {
		return values, setting.ErrArguments
	}
	for i, arg := range args {
		n, ok := lenientInt(arg)
		if !ok || n < -2000 || n > 2000 {
			return values, errors.New("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")
		}
		values[i] = int(n)
	}
	return values, nil
}

func formatOomValues(v [3]int) string { return strings.Trim(fmt.Sprint(v), "[]") }

// watchdogPeriod returns the period of the watchdog, which is at least 200 ms. 0 means that the watchdog is off.
func watchdogPeriod(ms int64) int64 {
	if ms == 0 {
		return 0
	}
	return max(ms, 200)
}

// lenientInt reads a number as C's strtoll does: an empty text is 0, and blanks and a plus may precede the digits.
func lenientInt(s string) (int64, bool) {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	if s == "" {
		return 0, true
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
