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
	"spindle/internal/info"
	"spindle/internal/version"
	"spindle/overview"
	"spindle/reactor"
	"spindle/sentinel"
)

// joinOverview gives the overview its sources.
func (in *instance) joinOverview() {
	log := &in.clientLog
	log.Core, log.Hub, log.Log = in.core, in.hub, in.log
	log.BookLane = func() {
		if l := in.lane.Load(); l != nil {
			l.Book()
		}
	}
	in.figures.Sources = overview.Sources{
		Core: in.core, Heap: in.heap, Clients: in.clients, Set: in.set,
		Reactor:  func() *reactor.Reactor { return in.listening.reactor },
		Refusals: log.Refusals, Limit: func() int64 { return int64(in.engine.MaxMemory.Get()) },
		Policy: in.registry.Lookup("maxmemory-policy").Get,
	}
	in.page = overview.Page{Core: in.core, Gate: in.gate, Space: in.space, Clients: in.clients, Log: log,
		Figures: in.figures, BeatMs: in.beatMs.Load}
	h := &in.health
	h.Core, h.Set, h.Sentinel, h.Ill = in.core, in.set, in.asSentinel, in.parts.Ill
}

// observationPart is INFO, MEMORY, SLOWLOG, LATENCY and MONITOR.
func (in *instance) observationPart() *part.Part {
	return &part.Part{Name: "observation", Rows: in.observe.Rows(), Join: func(p *part.Part) error {
		d := observe.Deps{
			Catalogue: func() *command.Catalogue { return in.catalogue },
			Sections:  func() []info.Section { return in.sections },
			Slowlog:   in.figures.Slowlog, Events: in.figures.Events, StartMonitor: in.core.StartMonitor,
			LatencyThreshold: in.engine.LatencyThreshold.Get, Memory: in.figures.Memory,
		}
		if in.asSentinel {
			d.Only = sentinel.Sections()
		}
		p.Families = []command.Family{observe.Family(d)}
		p.Listeners = append(in.figures.Listeners(),
			part.Listeners{Order: part.Later, Lent: in.health.Tell}) // no tick comes until the command is over
		p.Reset = in.figures.Reset
		figures := in.figures
		p.Sections = append([]info.Section{
			observe.ServerSection(in.serverFacts()),
			observe.ClientsSection(observe.ClientFacts{
				Registry: in.clients, Max: in.network.MaxClients.Get,
				Blocked:      func() int64 { return int64(in.core.BlockedClients()) },
				Waiting:      func() int64 { return int64(in.core.TimedWaits()) },
				BlockingKeys: func() (int64, int64) { return int64(in.core.BlockingKeys()), int64(in.core.BlockingKeysOnGone()) },
				Watching:     func() (int64, int64) { return int64(in.watches.Clients()), int64(in.watches.Keys()) },
				Recent:       figures.Buffers,
			}),
			observe.MemorySection(in.space, figures.Memory),
			observe.StatsSection(figures.Counters), observe.DebugSection(figures.Counters),
			observe.CPUSection(),
			observe.ErrorsSection(in.core.Errors),
		}, observe.KeyspaceSections(in.space)...)
		return nil
	}}
}

// commandsPart is COMMAND and DEBUG, and the figures of each command.
func (in *instance) commandsPart() *part.Part {
	return &part.Part{Name: "commands", Join: func(p *part.Part) error {
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
		p.Families = []command.Family{introspect.Family(d)}
		p.Sections = observe.CommandSections(func() *command.Catalogue { return in.catalogue }, in.observe.Percentiles.Get)
		p.Follows = []part.Follow{
			part.On(func() { in.catalogue.TrackLatency(in.observe.LatencyTrack.Get()) }, "latency-tracking")}
		return nil
	}}
}

// serverFacts are the facts of INFO server.
func (in *instance) serverFacts() observe.ServerFacts {
	sha, modified := version.Revision()
	var id [20]byte
	rand.Read(id[:])
	executable, err := os.Executable()
	if err != nil {
		executable = in.titles.program
	}
	return observe.ServerFacts{
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
}

// listenerLine describes the listeners of one kind: the kind's name, the configured addresses and the port.
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
