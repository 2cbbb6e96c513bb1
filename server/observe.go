package server

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"iter"
	"os"
	"runtime"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/family/introspect"
	"spindle/engine/family/observe"
	"spindle/engine/part"
	"spindle/internal/config"
	"spindle/internal/info"
	"spindle/internal/version"
	"spindle/reactor"
	"spindle/sentinel"
)

// What INFO, MEMORY, SLOWLOG and LATENCY know, gathered from the packages that know it.

// joinObservation makes INFO's sections and the recorders behind SLOWLOG and LATENCY.
func (in *instance) joinObservation(args config.Arguments) {
	sha, modified := version.Revision()
	var id [20]byte
	rand.Read(id[:])
	executable, err := os.Executable()
	if err != nil {
		executable = args.Program
	}
	facts := observe.ServerFacts{
		RedisVersion: version.Redis, Version: version.Spindle, GitSHA: sha, GitDirty: modified, BuildID: version.Build(), Mode: in.mode,
		Multiplexing: "epoll", Compiler: runtime.Version(), Supervised: in.registry.Lookup("supervised").Get(),
		RunID:      hex.EncodeToString(id[:]),
		Executable: executable, ConfigFile: in.config.File, ProcessID: os.Getpid(),
		Port: in.listening.port, Uptime: in.core.Uptime,
		Threads: func() bool { return in.sockets.Loops.Get() > 1 }, Hz: in.settings.Idle.Hz.Get,
		Listeners: func(w *info.Writer) {
			for _, l := range in.listening.reactor.Listeners() {
				w.Text(fmt.Sprintf("listener%d", l.Kind), listenerLine(l))
			}
		},
		ShutdownInMs: func() (int64, bool) { return in.set.Shutdown.Remaining(), in.set.Shutdown.Waiting() },
		StartedMs:    time.Now().UnixMilli(),
	}
	for _, tick := range in.observed.ticks() {
		in.core.Subscribe(part.Listeners{Order: part.Later, Tick: tick})
	}
	in.sections = append(in.sections,
		observe.ServerSection(facts),
		observe.ClientsSection(observe.ClientFacts{
			Registry: in.clients, Max: in.network.MaxClients.Get,
			Blocked:      func() int64 { return int64(in.core.BlockedClients()) },
			Waiting:      func() int64 { return int64(in.core.TimedWaits()) },
			BlockingKeys: func() (int64, int64) { return int64(in.core.BlockingKeys()), int64(in.core.BlockingKeysOnGone()) },
			Watching:     func() (int64, int64) { return int64(in.watches.Clients()), int64(in.watches.Keys()) },
			Recent:       func() (int64, int64) { return in.observed.buffers.recent(in.core.Now()) },
		}),
		observe.MemorySection(in.space, in.observed.memory),
		observe.StatsSection(in.observed.counters), observe.DebugSection(in.observed.counters),
		observe.CPUSection(),
		observe.ErrorsSection(in.core.Errors),
	)
	in.sections = append(in.sections, observe.KeyspaceSections(in.space)...)
	in.sections = append(in.sections, in.core.DefragSections()...)
	in.sections = append(in.sections, observe.CommandSections(func() *command.Catalogue { return in.catalogue },
		in.observe.Percentiles.Get)...)
	in.sections = append(in.sections, in.modules.Section())
}

// listenerLine describes the listeners of one kind: its name, their addresses as configured, and the port.
func listenerLine(l reactor.Listening) string {
	line := "name=" + l.Kind.String()
	for _, name := range l.Names {
		line += ",bind=" + name
	}
	if l.Port != 0 {
		line += fmt.Sprintf(",port=%d", l.Port)
	}
	return line
}

// observeDeps are what INFO, SLOWLOG, LATENCY, MEMORY and MONITOR ask of the rest.
func (in *instance) observeDeps() observe.Deps {
	d := observe.Deps{
		Catalogue: func() *command.Catalogue { return in.catalogue }, Sections: func() []info.Section { return in.sections },
		Slowlog: in.observed.slowlog, Events: in.observed.events, StartMonitor: in.core.StartMonitor,
		LatencyThreshold: in.engine.LatencyThreshold.Get, Memory: in.observed.memory,
	}
	if in.asSentinel {
		d.Only = sentinel.Sections()
	}
	return d
}

// introspectDeps are what COMMAND and DEBUG ask of the rest.
func (in *instance) introspectDeps() introspect.Deps {
	d := introspect.Deps{
		Catalogue: func() *command.Catalogue { return in.catalogue },
		Reload:    in.set.Reload, LoadAOF: in.set.LoadAOF, FlushSleep: in.set.AOF.SetFlushSleep,
		SetActiveExpire: in.core.SetActiveExpire, PauseCron: in.core.PauseCron,
		AllowAnyInScripts: in.core.AllowAnyInScripts,
		SkipChecksums:     func(on bool) { in.set.Saver.AnyChecksum = on },
		ChangeReplID:      in.set.Feed.ChangeID, RewriteConfig: func() error { return in.rewriter.Rewrite(true) },
		Log:   func(text string) { in.log.Warning("DEBUG LOG: %s", text) },
		Crash: func(how string) { crash(in.log, how) }, SerializedLength: in.set.Saver.SerializedLength,
	}
	d.ClientCosts = func() iter.Seq[client.CostClass] {
		if in.engine.ClientsMemory.Get() == 0 {
			return nil // clients are not evicted
		}
		return in.clients.Costs.Classes
	}
	if in.cluster != nil {
		d.Still, d.DropPackets, d.KillLinks = in.cluster.Sleep, in.cluster.Drop, in.cluster.Debug
	}
	return d
}
