package server

import (
	"time"

	"spindle/cluster"
	"spindle/dataset"
	"spindle/engine"
	"spindle/engine/acl"
	"spindle/engine/client"
	"spindle/engine/data/memory"
	"spindle/engine/family/observe"
	"spindle/engine/part"
	"spindle/internal/process"
	"spindle/scripting"
)

// An observation is what INFO, MEMORY, SLOWLOG and LATENCY show of all packages. It works inside turns.
type observation struct {
	core      *engine.Core
	heap      *memory.Heap
	clients   *client.Registry
	set       *dataset.Set
	scripts   *scripting.Scripts
	cluster   *cluster.Cluster // nil outside cluster mode
	listening *listening
	refusals  func() *acl.Log
	limit     func() int64  // maxmemory
	policy    func() string // maxmemory-policy

	slowlog *observe.Slowlog
	events  *observe.Events
	buffers bufferPeak

	inputRate, outputRate engine.Rate
	peakUsed, startupUsed int64
	startupProcess        int64 // measureProcess
}

// listeners are the events that are recorded.
func (o *observation) listeners() part.Listeners {
	return part.Listeners{Order: part.Later, Tick: o.sampleRates, Latency: o.latency,
		Slow: func(cl *client.Client, args [][]byte, took time.Duration) {
			o.slowlog.Record(o.core.Now(), cl, args, took)
		}}
}

// ticks are the duties at each tick, in order.
func (o *observation) ticks() []func(nowMs int64) {
	garbage := process.NewCollector()
	return []func(int64){o.buffers.tick, func(int64) { o.measureProcess() },
		func(int64) { garbage.Tick(o.limit()) }}
}

// latency records an event that took long.
func (o *observation) latency(event string, took time.Duration) {
	o.events.Record(o.core.Now(), event, took)
}

// sampleRates samples the bytes read and written.
func (o *observation) sampleRates(int64) {
	n := o.listening.reactor.Stats()
	nanos := int64(o.core.Uptime())
	o.inputRate.Sample(uint64(n.BytesIn), nanos)
	o.outputRate.Sample(uint64(n.BytesOut), nanos)
}

// reset forgets the rates.
func (o *observation) reset() { o.inputRate, o.outputRate = engine.Rate{}, engine.Rate{} }

// measureProcess notes at the first tick what the process itself has resident: Go's runtime and heap, and the loops.
// processMost bounds the figure, because a data set may already be loading.
func (o *observation) measureProcess() {
	if o.startupProcess != 0 {
		return
	}
	var heap memory.Stats
	o.heap.Stats(&heap)
	resident, program := memory.ResidentParts()
	o.startupProcess = max(1, min(resident-program-heap.Active-heap.Dirty-heap.Side, processMost))
}

const processMost = 16 << 20

// memory is what INFO memory and MEMORY STATS show.
func (o *observation) memory() observe.MemoryFigures {
	pending, freed := o.heap.LazyObjects()
	used, mail := o.core.UsedMemory(), int64(0)
	if o.listening.reactor != nil { // it is not there yet while the parts are joined
		mail = o.listening.reactor.Stats().MailBytes
	}
	o.peakUsed = max(o.peakUsed, used, o.heap.Peak())
	scripts, libraries := o.scripts.Kept()
	stream, excess := o.set.Feed.StreamBytes()
	links := int64(0)
	if o.cluster != nil {
		links = o.cluster.LinkBytes()
	}
	return observe.MemoryFigures{
		Used: used, Peak: o.peakUsed, Startup: o.startupUsed, Process: o.startupProcess,
		Clients: o.clients.Costs.Sum() + o.clients.Costs.Primary(), Replicas: o.clients.Costs.Replicas() + excess,
		Backlog: stream - excess, Stream: stream,
		NotForEviction: o.core.NotForEviction(), Limit: o.limit(),
		Policy: o.policy(),
		Links:  links, Scripts: scripts, Log: o.set.AOF.Memory(), Libraries: libraries, LazyPending: pending,
		LazyFreed: freed + o.core.Figures().CodesFreed + o.scripts.Freed(), Mail: mail,
	}
}

// counters are what INFO stats shows.
func (o *observation) counters() observe.Counters {
	denied := o.refusals() // before the figures, which count their replies
	f, n := o.core.Figures(), o.listening.reactor.Stats()
	return observe.Counters{
		Connections: f.Connections, Refused: n.Rejected, Commands: f.Commands, OpsPerSecond: f.OpsPerSecond,
		InputBytes: uint64(n.BytesIn), OutputBytes: uint64(n.BytesOut), Reads: uint64(n.Reads), Writes: uint64(n.Writes),
		ThreadedReads: uint64(n.ThreadedReads), ThreadedWrites: uint64(n.ThreadedWrites),
		InputPerSecond: o.inputRate.PerSecond(), OutputPerSecond: o.outputRate.PerSecond(),
		EvictedClients: f.EvictedClients, QueryLimitHits: n.QueryLimitCloses,
		OutputLimitHits: n.OutputLimitCloses + o.set.Feed.OutputLimitCloses(),
		ErrorReplies:    f.ErrorReplies, UnexpectedErrors: f.Unexpected + o.set.Follower.Errors(),
		Turns: f.Turns, TurnTime: time.Duration(f.TurnNanos), CommandTime: time.Duration(f.TurnNanos - f.DutyNanos),
		LongTurns: longTurns(f.LongTurns), LongestTurn: f.LongestTurn, LongestTurnCPU: f.LongestTurnCPU,
		MostCommandsPerTurn: f.MostCommandsPerTurn, DutyTime: time.Duration(f.DutyNanos),
		TurnsPerSecond: f.TurnsPerSecond, TurnMean: f.TurnMean, ExpireTime: time.Duration(f.ExpiryNanos),
		EvictionTime: f.Exceeded, CurrentEvictionTime: f.ExceededNow, DeniedAuth: uint64(denied.Denied(acl.DeniedAuth)),
		DeniedCommands: uint64(denied.Denied(acl.DeniedCommand)), DeniedKeys: uint64(denied.Denied(acl.DeniedKey)),
		DeniedChannels: uint64(denied.Denied(acl.DeniedChannel)),
	}
}

func longTurns(turns []engine.LongTurn) (list []observe.LongTurn) {
	for _, t := range turns {
		list = append(list, observe.LongTurn(t))
	}
	return list
}
