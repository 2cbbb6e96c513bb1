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
	"spindle/engine/diagnose"
	"spindle/engine/family/introspect"
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
	in.figures.Sources = overview.Sources{
		Core: in.core, Heap: in.heap, Clients: in.clients, Set: in.set,
		Reactor:  func() *reactor.Reactor { return in.listening.reactor },
		Refusals: log.Refusals, Limit: func() int64 { return int64(in.engine.MaxMemory.Get()) },
		Policy: in.registry.Lookup("maxmemory-policy").Get,
	}
	in.page = overview.Page{Core: in.core, Gate: in.gate, Space: in.space, Clients: in.clients, Log: log,
		Figures: in.figures, BeatMs: in.beatMs.Load, Set: in.set,
		Certificates: func(f func(name string, left int64)) { in.certificates.Ends().Each(time.Now(), f) },
		Catalogue:    func() *command.Catalogue { return in.catalogue }}
	h := &in.health
	h.Core, h.Set, h.Sentinel, h.Ill = in.core, in.set, in.asSentinel, in.parts.Ill
}

// introspectionPart has INFO, MEMORY, MONITOR, COMMAND, DEBUG, COMMANDLOG, SLOWLOG and LATENCY.
func (in *instance) introspectionPart() *part.Part {
	return &part.Part{Name: "introspection", Rows: in.records.Rows(), Join: func(p *part.Part) error {
		catalogue := func() *command.Catalogue { return in.catalogue }
		d := introspect.Deps{
			Catalogue: catalogue, Sections: func() []info.Section { return in.sections },
			StartMonitor: in.core.StartMonitor, Memory: in.figures.Memory,
			Reload: in.set.Reload, LoadAOF: in.set.LoadAOF, FlushSleep: in.set.AOF.SetFlushSleep,
			SetActiveExpire: in.core.SetActiveExpire, PauseCron: in.core.PauseCron,
			AllowAnyInScripts: in.core.AllowAnyInScripts,
			SkipChecksums:     func(on bool) { in.set.Saver.AnyChecksum = on },
			ChangeReplID:      in.set.Feed.ChangeID, RewriteConfig: func() error { return in.rewriter.Rewrite(true) },
			Log:   func(text string) { in.log.Warning("DEBUG LOG: %s", text) },
			Crash: func(how string) { crash(in.log, how) }, SerializedLength: in.set.Saver.SerializedLength,
			ClientCosts: func() iter.Seq[client.CostClass] {
				if in.engine.ClientsMemory.Get() == 0 {
					return nil // clients are not evicted
				}
				return in.clients.Costs.Classes
			},
		}
		if in.asSentinel {
			d.Only = sentinel.Sections()
		}
		if in.clustering.Enabled.Get() { // the node is made later
			d.Still = func(f func()) { in.cluster.Sleep(f) }
			d.DropPackets = func(kind int) { in.cluster.Drop(kind) }
			d.KillLinks = func(c *command.Context, direction, id []byte) error { return in.cluster.Debug(c, direction, id) }
		}
		p.Families = []command.Family{introspect.Family(d, diagnose.ServerRows(diagnose.Deps{
			Catalogue: catalogue, Logs: in.figures.Logs, Events: in.figures.Events,
			LatencyThreshold: in.engine.LatencyThreshold.Get})...)}
		p.Follows = []part.Follow{
			part.On(func() { in.catalogue.TrackLatency(in.records.LatencyTrack.Get()) }, "latency-tracking")}
		p.Listeners = append(in.figures.Listeners(),
			part.Listeners{Order: part.Later, Lent: in.health.Publish}) // no tick comes until the command is over
		p.Reset = in.figures.Reset
		figures := in.figures
		sections := []info.Section{
			introspect.ServerSection(in.serverFacts()),
			introspect.ClientsSection(introspect.ClientFacts{
				Registry: in.clients, Max: in.network.MaxClients.Get,
				Blocked:      func() int64 { return int64(in.core.BlockedClients()) },
				Waiting:      func() int64 { return int64(in.core.TimedWaits()) },
				BlockingKeys: func() (int64, int64) { return int64(in.core.BlockingKeys()), int64(in.core.BlockingKeysOnGone()) },
				Watching:     func() (int64, int64) { return int64(in.watches.Clients()), int64(in.watches.Keys()) },
				Recent:       figures.Buffers,
				Pausing: func() (reason string, all bool, leftMs int64) {
					p := in.core.Pausing()
					return p.Reason, p.All, p.LeftMs
				},
			}),
			introspect.MemorySection(in.space, figures.Memory),
			introspect.StatsSection(figures.Counters), introspect.DebugSection(figures.Counters),
			introspect.CPUSection(func() time.Duration { return time.Duration(in.core.Figures().TurnNanos) }),
			introspect.ErrorsSection(in.core.Errors),
		}
		sections = append(sections, introspect.KeyspaceSections(in.space)...)
		p.Sections = append(sections, introspect.CommandSections(catalogue, in.records.Percentiles.Get)...)
		return nil
	}}
}

// serverFacts returns the facts of INFO server.
func (in *instance) serverFacts() introspect.ServerFacts {
	sha, modified := version.Revision()
	var id [20]byte
	rand.Read(id[:])
	executable, err := os.Executable()
	if err != nil {
		executable = in.titles.program
	}
	return introspect.ServerFacts{
		RedisVersion: in.common.Redis, Version: version.Spindle, GitSHA: sha, GitDirty: modified, BuildID: version.Build(),
		Mode: in.mode, Multiplexing: in.backend.Polls(), Compiler: runtime.Version(),
		Supervised: in.registry.Lookup("supervised").Get(), RunID: hex.EncodeToString(id[:]),
		Executable: executable, ConfigFile: in.config.File, ProcessID: os.Getpid(),
		Port: in.listening.port, Uptime: in.core.Uptime,
		Zone:  in.settings.Process.Zone.Get,
		Loops: func() (int, bool, string) { return in.listening.reactor.LoopChoice() }, Hz: in.settings.Idle.Hz.Get,
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
