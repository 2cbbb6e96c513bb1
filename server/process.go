package server

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"spindle/admin"
	"spindle/internal/logging"
	"spindle/internal/process"
	"spindle/internal/setting"
	"spindle/internal/version"
	"spindle/lane"
	"spindle/reactor"
)

// filesBeside counts the descriptors in addition to those of clients. The admin lane and the admin address need more.
func filesBeside(loops int64, hasLane bool, laneAddresses int, hasAdmin bool) uint64 {
	n := process.FilesOfLoops(loops)
	if hasLane {
		n += lane.Clients + lane.Newcomers + process.FilesPerLoop + 2 + uint64(laneAddresses)
	}
	if hasAdmin {
		n += admin.Conns + 2 // a newcomer before its victim is closed, and the listener
	}
	return n
}

// titles is the process title, as ps shows it.
type titles struct {
	settings *process.Settings
	sockets  *reactor.ListenSettings
	mode     string
	program  string // argv[0]
	file     string // the configuration file
	log      *logging.Logger
}

// show makes ps show the addresses that the process serves now.
func (t *titles) show() {
	process.ShowTitle(t.settings, t.log, t.values())
}

// values returns the values of proc-title-template.
func (t *titles) values() process.Title {
	n := t.sockets
	v := process.Title{Program: t.program, Port: n.Port.Get(), TLSPort: n.TLSPort.Get(),
		UnixSocket: n.UnixSocket.Get(), ConfigFile: t.file}
	if t.mode != "standalone" {
		v.Mode = "[" + t.mode + "]"
	}
	if bind := n.Bind.Get(); len(bind) > 0 && bind[0] != "*" {
		v.Bind = strings.TrimPrefix(bind[0], "-")
	}
	return v
}

// summary returns one line that identifies this server: version, addresses, configuration, folder, memory limit and
// files. value returns a setting.
func summary(addresses []string, file string, limit int64, value func(name string) string) string {
	memory, disk, saves := "no maxmemory", "no append-only file", "no saves"
	if file == "" {
		file = "no configuration file"
	}
	if limit != 0 {
		memory = "maxmemory " + setting.FormatMemory(uint64(limit)) + " " + value("maxmemory-policy")
	}
	if value("appendonly") == "yes" {
		disk = "append-only file synced " + value("appendfsync")
	}
	if rules := value("save"); rules != "" {
		saves = "saves " + rules
	}
	return fmt.Sprintf("spindle %s on %s: %s, folder %s, %s, %s, %s", version.Spindle, strings.Join(addresses, ", "), file,
		value("dir"), memory, disk, saves)
}

// crash runs DEBUG SEGFAULT, PANIC, ASSERT and OOM: a report, then the end. PANIC ends the process as a bug would.
func crash(log *logging.Logger, how string) {
	if how == "panic" {
		panic("DEBUG PANIC")
	}
	if how == "segfault" {
		_ = unix.Kill(os.Getpid(), unix.SIGSEGV) // the signal's handler writes the report and ends the process
		select {}
	}
	log.Raw(process.CrashReport("DEBUG "+how, process.Stacks()))
	os.Exit(1)
}
