package overview

import (
	"time"

	"spindle/dataset"
	"spindle/engine"
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/data/memory"
	"spindle/engine/diagnose"
	"spindle/engine/family/introspect"
	"spindle/engine/part"
	"spindle/internal/process"
	"spindle/internal/spikes"
	"spindle/reactor"
	"spindle/scripting"
)

// Sources are the packages whose figures are shown.
type Sources struct {
	Core     *engine.Core
	Heap     *memory.Heap
	Clients  *client.Registry
	Set      *dataset.Set
	Scripts  *scripting.Scripts
	Reactor  func() *reactor.Reactor // nil before the server listens
	Refusals func() *acl.Log
	Links    func() int64  // bytes of the links to other nodes; nil outside cluster mode
	Limit    func() int64  // maxmemory
	Policy   func() string // maxmemory-policy
}

// Figures are the figures of all packages for INFO, MEMORY, COMMANDLOG and LATENCY.
type Figures struct {
	Sources
	Logs   *diagnose.CommandLogs
	Events *spikes.Events

	buffers               bufferPeak
	inputRate, outputRate engine.Rate
	peakUsed, startupUsed int64
	peakAtMs              int64 // Unix ms of peakUsed
	startupProcess        int64 // measureProcess
}

// NewFigures makes the recorders. The server sets Sources before the first turn.
func NewFigures(s *diagnose.Settings) *Figures {
	return &Figures{Logs: diagnose.NewCommandLogs(s), Events: &spikes.Events{}}
}

// Started notes how much memory is used before there are data.
func (o *Figures) Started() { o.startupUsed = o.Core.UsedMemory() }

// Listeners returns the listeners for recorded events, and for the work of each tick.
func (o *Figures) Listeners() []part.Listeners {
	o.buffers.clients = o.Clients
	garbage := process.NewCollector()
	list := []part.Listeners{{Order: part.Later, Tick: o.sampleRates, Latency: o.Latency,
		Logged: func(cl *client.Client, args [][]byte, m part.Measure) {
			o.Logs[m.Log].Record(o.Core.Now(), cl, args, m.Value)
		}}}
	for _, tick := range []func(nowMs int64){o.buffers.tick, o.measureProcess,
		func(nowMs int64) { o.notePeak(o.Core.UsedMemory(), nowMs) }, func(int64) { garbage.Tick(o.Limit()) }} {
		list = append(list, part.Listeners{Order: part.Later, Tick: tick})
	}
	return list
}

// Latency records an event that took long.
func (o *Figures) Latency(event string, took time.Duration) {
	o.Events.Record(o.Core.Now(), event, took)
}

// Buffers returns the largest input and output buffer of the last seconds.
func (o *Figures) Buffers() (in, out int64) { return o.buffers.recent(o.Core.Now()) }

// sampleRates samples the bytes read and written.
func (o *Figures) sampleRates(int64) {
	n := o.Reactor().Stats()
	nanos := int64(o.Core.Uptime())
	o.inputRate.Sample(uint64(n.BytesIn), nanos)
	o.outputRate.Sample(uint64(n.BytesOut), nanos)
}

// Reset does the part of CONFIG RESETSTAT.
func (o *Figures) Reset() { o.inputRate, o.outputRate = engine.Rate{}, engine.Rate{} }

// measureProcess notes at the first tick how much resident memory the process itself has: Go's runtime and heap, and
// the loops. processMost bounds the figure, because a data set may already be loading.
func (o *Figures) measureProcess(int64) {
	if o.startupProcess != 0 {
		return
	}
	var heap memory.Stats
	o.Heap.Stats(&heap)
	resident, program := memory.ResidentParts()
	o.startupProcess = max(1, min(resident-program-heap.Active-heap.Dirty-heap.Side, processMost))
}

const processMost = 16 << 20

// notePeak notes when the most memory was used, to within 100 ms.
func (o *Figures) notePeak(used, nowMs int64) {
	if most := max(used, o.Heap.Peak()); most > o.peakUsed {
		o.peakUsed, o.peakAtMs = most, nowMs
	}
}

// Memory returns the figures of INFO memory and MEMORY STATS.
func (o *Figures) Memory() introspect.MemoryFigures {
	pending, freed := o.Heap.LazyObjects()
	used, mail := o.Core.UsedMemory(), int64(0)
	if r := o.Reactor(); r != nil {
		mail = r.Stats().MailBytes
	}
	o.notePeak(used, o.Core.Now())
	scripts, libraries := o.Scripts.StoredBytes()
	stream, excess := o.Set.Feed.StreamBytes()
	links := int64(0)
	if o.Links != nil {
		links = o.Links()
	}
	return introspect.MemoryFigures{
		Used: used, Peak: o.peakUsed, PeakAtMs: o.peakAtMs, Startup: o.startupUsed, Process: o.startupProcess,
		Clients: o.Clients.Costs.Sum() + o.Clients.Costs.Primary(), Replicas: o.Clients.Costs.Replicas() + excess,
		Backlog: stream - excess, Stream: stream,
		NotForEviction: o.Core.NotForEviction(), Limit: o.Limit(),
		Policy: o.Policy(),
		Links:  links, Scripts: scripts, Log: o.Set.AOF.Memory(), Libraries: libraries, LazyPending: pending,
		LazyFreed: freed + o.Core.Figures().CodesFreed + o.Scripts.Freed(), Mail: mail,
	}
}

// Counters returns the figures of INFO stats.
func (o *Figures) Counters() introspect.Counters {
	denied := o.Refusals() // before the figures, which count their replies
	f, n := o.Core.Figures(), o.Reactor().Stats()
	return introspect.Counters{
		Connections: f.Connections, Refused: n.Rejected, Commands: f.Commands, OpsPerSecond: f.OpsPerSecond,
		InputBytes: uint64(n.BytesIn), OutputBytes: uint64(n.BytesOut), Reads: uint64(n.Reads), Writes: uint64(n.Writes),
		ThreadedReads: uint64(n.ThreadedReads), ThreadedWrites: uint64(n.ThreadedWrites),
		InputPerSecond: o.inputRate.PerSecond(), OutputPerSecond: o.outputRate.PerSecond(),
		EvictedClients: f.EvictedClients, QueryLimitHits: n.QueryLimitCloses,
		OutputLimitHits: n.OutputLimitCloses + o.Set.Feed.OutputLimitCloses(),
		ErrorReplies:    f.ErrorReplies, UnexpectedErrors: f.Unexpected + o.Set.Follower.Errors(),
		Turns: f.Turns, TurnTime: time.Duration(f.TurnNanos), CommandTime: time.Duration(f.TurnNanos - f.DutyNanos),
		LongTurns: longTurns(f.LongTurns), LongestTurn: f.LongestTurn, LongestTurnCPU: f.LongestTurnCPU,
		MostCommandsPerTurn: f.MostCommandsPerTurn, Combined: f.Combined, DutyTime: time.Duration(f.DutyNanos),
		TurnsPerSecond: f.TurnsPerSecond, TurnMean: f.TurnMean, ExpireTime: time.Duration(f.ExpiryNanos),
		EvictionTime: f.Exceeded, CurrentEvictionTime: f.ExceededNow, DeniedAuth: uint64(denied.Denied(acl.DeniedAuth)),
		DeniedCommands: uint64(denied.Denied(acl.DeniedCommand)), DeniedKeys: uint64(denied.Denied(acl.DeniedKey)),
		DeniedChannels:     uint64(denied.Denied(acl.DeniedChannel)),
		DeniedDatabases:    uint64(denied.Denied(acl.DeniedDatabase)),
		DeniedCertificates: uint64(denied.Denied(acl.DeniedCertificate)),
	}
}

func longTurns(turns []engine.LongTurn) (list []introspect.LongTurn) {
	for _, t := range turns {
		list = append(list, introspect.LongTurn(t))
	}
	return list
}
