package server

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"iter"
	"os"
	"runtime"
	"time"

	"spindle/engine"
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/engine/data/memory"
	"spindle/engine/family/introspect"
	"spindle/engine/family/observe"
	"spindle/engine/part"
	"spindle/internal/config"
	"spindle/internal/info"
	"spindle/internal/process"
	"spindle/internal/version"
	"spindle/reactor"
)

// What INFO, MEMORY, SLOWLOG and LATENCY know, gathered from the packages that know it.

// A bufferPeak knows the largest buffers that any client had in the last seconds, as INFO clients shows them.
//
// It looks at some clients at each tick, so that a short burst may escape it; the reference does the same.
type bufferPeak struct {
	clients *client.Registry
	next    int64 // client id to go on from
	seconds [peakSeconds]struct{ at, in, out int64 }
}

const (
	peakSeconds = 8
	peakVisits  = 512 // clients looked at in a tick: a round of 10,000 takes two seconds
)

// tick looks at the next clients.
func (p *bufferPeak) tick(nowMs int64) {
	now := nowMs / 1000
	second := &p.seconds[now%peakSeconds]
	if second.at != now {
		second.at, second.in, second.out = now, 0, 0
	}
	left := peakVisits
	for cl := range p.clients.From(p.next) {
		if left--; left < 0 {
			p.next = cl.ID
			return
		}
		if cl.Conn == nil {
			continue
		}
		usage := cl.Conn.Usage()
		second.in, second.out = max(second.in, int64(usage.Query+usage.QueryFree)), max(second.out, int64(usage.Output))
	}
	p.next = 0
}

// recent is the largest input and output buffer of the last seconds.
func (p *bufferPeak) recent(nowMs int64) (in, out int64) {
	for _, second := range p.seconds {
		if nowMs/1000-second.at < peakSeconds {
			in, out = max(in, second.in), max(out, second.out)
		}
	}
	return in, out
}

// joinObservation makes INFO's sections and the recorders behind SLOWLOG and LATENCY.
func (in *instance) joinObservation(args config.Arguments) {
	in.buffers = &bufferPeak{clients: in.clients}
	garbage := process.NewCollector()
	for _, tick := range []func(int64){in.buffers.tick, func(int64) { in.measureProcess() },
		func(int64) { garbage.Tick(int64(in.engine.MaxMemory.Get())) }} {
		in.core.Subscribe(part.Listeners{Order: part.Later, Tick: tick})
	}
	in.slowlog = observe.NewSlowlog(in.observe.SlowlogLen.Get)
	in.events = observe.NewEvents()
	in.sections = append(in.sections,
		observe.ServerSection(in.serverFacts(args)),
		observe.ClientsSection(observe.ClientFacts{
			Registry: in.clients, Max: in.network.MaxClients.Get,
			Blocked:      func() int64 { return int64(in.core.BlockedClients()) },
			Waiting:      func() int64 { return int64(in.core.TimedWaits()) },
			BlockingKeys: func() (int64, int64) { return int64(in.core.BlockingKeys()), int64(in.core.BlockingKeysOnGone()) },
			Watching:     func() (int64, int64) { return int64(in.watches.Clients()), int64(in.watches.Keys()) },
			Recent:       func() (int64, int64) { return in.buffers.recent(in.core.Now()) },
		}),
		observe.MemorySection(in.space, in.memoryFigures),
		observe.StatsSection(in.counters), observe.DebugSection(in.counters),
		observe.CPUSection(),
		observe.ErrorsSection(in.core.Errors),
	)
	in.sections = append(in.sections, observe.KeyspaceSections(in.space)...)
	in.sections = append(in.sections, in.core.DefragSections()...)
	in.sections = append(in.sections, observe.CommandSections(func() *command.Catalogue { return in.catalogue },
		in.observe.Percentiles.Get)...)
	in.sections = append(in.sections, in.modules.Section())
}

func (in *instance) serverFacts(args config.Arguments) observe.ServerFacts {
	sha, modified := version.Revision()
	var id [20]byte
	rand.Read(id[:])
	executable, err := os.Executable()
	if err != nil {
		executable = args.Program
	}
	return observe.ServerFacts{
		RedisVersion: version.Redis, Version: version.Spindle, GitSHA: sha, GitDirty: modified, BuildID: version.Build(), Mode: in.mode(),
		Multiplexing: "epoll", Compiler: runtime.Version(), Supervised: in.registry.Lookup("supervised").Get(),
		RunID:      hex.EncodeToString(id[:]),
		Executable: executable, ConfigFile: in.config.File, ProcessID: os.Getpid(),
		Port: in.port, Uptime: in.core.Uptime,
		Threads: func() bool { return in.sockets.Loops.Get() > 1 }, Hz: in.settings.Idle.Hz.Get,
		Listeners: func(w *info.Writer) {
			for _, l := range in.reactor.Listeners() {
				w.Text(fmt.Sprintf("listener%d", l.Kind), listenerLine(l))
			}
		},
		ShutdownInMs: func() (int64, bool) { return in.set.Shutdown.Remaining(), in.set.Shutdown.Waiting() },
		StartedMs:    time.Now().UnixMilli(),
	}
}

// port is the TCP port, or the TLS port if that is all there is.
func (in *instance) port() int64 {
	if port := in.sockets.Port.Get(); port != 0 {
		return port
	}
	return in.sockets.TLSPort.Get()
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

// measureProcess notes at the first tick what the process itself has resident: Go's runtime and heap, and the loops.
// processMost bounds the figure, because a data set may already be loading.
func (in *instance) measureProcess() {
	if in.startupProcess != 0 {
		return
	}
	var heap memory.Stats
	in.heap.Stats(&heap)
	resident, program := memory.ResidentParts()
	in.startupProcess = max(1, min(resident-program-heap.Active-heap.Dirty-heap.Side, processMost))
}

const processMost = 16 << 20

func (in *instance) memoryFigures() observe.MemoryFigures {
	pending, freed := in.heap.LazyObjects()
	used, mail := in.core.UsedMemory(), int64(0)
	if in.reactor != nil { // it is not there yet while the parts are joined
		mail = in.reactor.Stats().MailBytes
	}
	in.peakUsed = max(in.peakUsed, used, in.heap.Peak())
	scripts, libraries := in.scripts.Kept()
	stream, excess := in.set.Feed.StreamBytes()
	links := int64(0)
	if in.cluster != nil {
		links = in.cluster.LinkBytes()
	}
	return observe.MemoryFigures{
		Used: used, Peak: in.peakUsed, Startup: in.startupUsed, Process: in.startupProcess,
		Clients: in.clients.Costs.Sum() + in.clients.Costs.Primary(), Replicas: in.clients.Costs.Replicas() + excess,
		Backlog: stream - excess, Stream: stream,
		NotForEviction: in.core.NotForEviction(), Limit: int64(in.engine.MaxMemory.Get()),
		Policy: in.registry.Lookup("maxmemory-policy").Get(),
		Links:  links, Scripts: scripts, Log: in.set.AOF.Memory(), Libraries: libraries, LazyPending: pending,
		LazyFreed: freed + in.core.Figures().CodesFreed + in.scripts.Freed(), Mail: mail,
	}
}

func (in *instance) counters() observe.Counters {
	denied := in.refusals() // before the figures, which count their replies
	f, n := in.core.Figures(), in.reactor.Stats()
	return observe.Counters{
		Connections: f.Connections, Refused: n.Rejected, Commands: f.Commands, OpsPerSecond: f.OpsPerSecond,
		InputBytes: uint64(n.BytesIn), OutputBytes: uint64(n.BytesOut), Reads: uint64(n.Reads), Writes: uint64(n.Writes),
		ThreadedReads: uint64(n.ThreadedReads), ThreadedWrites: uint64(n.ThreadedWrites),
		InputPerSecond: in.inputRate.PerSecond(), OutputPerSecond: in.outputRate.PerSecond(),
		EvictedClients: f.EvictedClients, QueryLimitHits: n.QueryLimitCloses,
		OutputLimitHits: n.OutputLimitCloses + in.set.Feed.OutputLimitCloses(),
		ErrorReplies:    f.ErrorReplies, UnexpectedErrors: f.Unexpected + in.set.Follower.Errors(),
		Turns: f.Turns, TurnTime: time.Duration(f.TurnNanos), CommandTime: time.Duration(f.TurnNanos - f.DutyNanos),
		LongTurns: longTurns(f.LongTurns), LongestTurn: f.LongestTurn, LongestTurnCPU: f.LongestTurnCPU,
		MostCommandsPerTurn: f.MostCommandsPerTurn, DutyTime: time.Duration(f.DutyNanos),
		TurnsPerSecond: f.TurnsPerSecond, TurnMean: f.TurnMean, ExpireTime: time.Duration(f.ExpiryNanos),
		EvictionTime: f.Exceeded, CurrentEvictionTime: f.ExceededNow, DeniedAuth: uint64(denied.Denied(acl.DeniedAuth)),
		DeniedCommands: uint64(denied.Denied(acl.DeniedCommand)), DeniedKeys: uint64(denied.Denied(acl.DeniedKey)),
		DeniedChannels: uint64(denied.Denied(acl.DeniedChannel)),
	}
}

// sampleRates is done at each tick.
func (in *instance) sampleRates(int64) {
	n := in.reactor.Stats()
	nanos := int64(in.core.Uptime())
	in.inputRate.Sample(uint64(n.BytesIn), nanos)
	in.outputRate.Sample(uint64(n.BytesOut), nanos)
}

// observeDeps are what INFO, SLOWLOG, LATENCY, MEMORY and MONITOR ask of the rest.
func (in *instance) observeDeps() observe.Deps {
	return observe.Deps{
		Catalogue: func() *command.Catalogue { return in.catalogue }, Sections: func() []info.Section { return in.sections },
		Slowlog: in.slowlog, Events: in.events, StartMonitor: in.core.StartMonitor,
		LatencyThreshold: in.engine.LatencyThreshold.Get, Memory: in.memoryFigures, Only: in.sentinelSections(),
	}
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
		Crash: in.crash, ClientCosts: in.clientCosts, SerializedLength: in.set.Saver.SerializedLength,
	}
	if in.cluster != nil {
		d.Still, d.DropPackets, d.KillLinks = in.cluster.Sleep, in.cluster.Drop, in.cluster.Debug
	}
	return d
}

// clientCosts are the classes of DEBUG CLIENT-EVICTION; nil while clients are not evicted.
func (in *instance) clientCosts() iter.Seq[client.CostClass] {
	if in.engine.ClientsMemory.Get() == 0 {
		return nil
	}
	return in.clients.Costs.Classes
}

// slow and latency are the core's reports of what took long.
func (in *instance) slow(cl *client.Client, args [][]byte, took time.Duration) {
	in.slowlog.Record(in.core.Now(), cl, args, took)
}

func (in *instance) latency(event string, took time.Duration) {
	in.events.Record(in.core.Now(), event, took)
}

func longTurns(turns []engine.LongTurn) (list []observe.LongTurn) {
	for _, t := range turns {
		list = append(list, observe.LongTurn(t))
	}
	return list
}
