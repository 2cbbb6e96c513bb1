package server

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"spindle/admin"
	"spindle/internal/process"
	"spindle/internal/setting"
	"spindle/internal/version"
	"spindle/lane"
)

// The process of an instance: its descriptors, its title in ps, and the line that describes it in the log.

// Descriptors in addition to those of clients.
const (
	reservedFiles = 32 // files, pipes, listeners and the first event loop; the reference reserves as many
	filesPerLoop  = 4  // for each further loop
)

// filesBeside counts the descriptors in addition to those of clients. The admin lane and the admin address have more.
func (in *instance) filesBeside() uint64 {
	n := uint64(reservedFiles + filesPerLoop*max(0, in.sockets.Loops.Get()-1))
	if in.hasLane() {
		n += lane.Clients + lane.Newcomers + filesPerLoop + 2 + uint64(len(in.own.LaneBind.Get()))
	}
	if in.own.Admin.Get() != "" {
		n += admin.Conns + 2 // a newcomer before its victim is closed, and the listener
	}
	return n
}

// retitle shows in ps the addresses that the process serves now.
func (in *instance) retitle() {
	if !in.settings.Process.SetProcTitle.Get() {
		return
	}
	if err := process.SetTitle(in.settings.Process.TitleTemplate.Get(), in.title()); err != nil {
		in.log.Verbose("The process's title stays: %s", err)
	}
}

// title has the values of proc-title-template.
func (in *instance) title() process.Title {
	n := &in.sockets
	t := process.Title{Mode: in.titleMode(), Program: in.program, Port: n.Port.Get(), TLSPort: n.TLSPort.Get(),
		UnixSocket: n.UnixSocket.Get(), ConfigFile: in.config.File}
	if bind := n.Bind.Get(); len(bind) > 0 && bind[0] != "*" {
		t.Bind = strings.TrimPrefix(bind[0], "-")
	}
	return t
}

// summary is one line that identifies this server: version, addresses, configuration, folder, memory limit and files.
func (in *instance) summary() string {
	value := func(name string) string { return in.registry.Lookup(name).Get() }
	addresses := in.reactor.Addrs()
	if in.admin != nil {
		addresses = append(addresses, in.adminAt.String()+" (admin)")
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
	return fmt.Sprintf("spindle %s on %s: %s, folder %s, %s, %s, %s", version.Spindle, strings.Join(addresses, ", "), file,
		value("dir"), memory, disk, saves)
}

// crash is DEBUG SEGFAULT, PANIC, ASSERT and OOM: a report, then the end. PANIC takes the road that a mistake of ours
// would take.
func (in *instance) crash(how string) {
	if how == "panic" {
		panic("DEBUG PANIC")
	}
	if how == "segfault" {
		_ = unix.Kill(os.Getpid(), unix.SIGSEGV) // the report, and the death of one, come from the signal's handler
		select {}
	}
	in.log.Raw(process.CrashReport("DEBUG "+how, process.Stacks()))
	os.Exit(1)
}
