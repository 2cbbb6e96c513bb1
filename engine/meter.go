package engine

import (
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"spindle/engine/client"
	"spindle/engine/command"
	"spindle/internal/clock"
	"spindle/protocol"
)

// meter holds the core's own statistics: what INFO shows of commands, errors and turns.
//
// The clock is read when a turn begins, after each run of equal commands, and every lapEvery commands of a run. A
// command that is neither fast nor brief, or has manyArgs, is timed alone. While precise is set, every command is timed
// alone.
type meter struct {
	spec       *command.Spec // whose calls are not recorded yet
	calls      int
	unanswered int            // of the calls: made by a client that gets no replies
	client     *client.Client // of the first of the calls, as are args (R2: lent)
	args       [][]byte
	innerNanos int64 // when the last inner command ended
	precise    bool

	commands       uint64
	dirty          int64
	connections    uint64
	evictedClients uint64
	errorReplies   uint64
	unexpected     uint64
	errors         map[string]uint64 // by code: INFO errorstats
	errorsFull     bool
	manyCodes      func(codes []string) // Hooks.ManyCodes
	codesFreed     int64                // entries of errors dropped since CONFIG RESETSTAT
	turnBegan      int64
	turns          uint64
	turnNanos      uint64
	longestTurn    int64
	measuresCPU    bool // measure-turn-cpu: the thread's CPU time, which does not depend on other processes
	turnCPU        int64
	longestTurnCPU int64
	longTurns      longTurns
	dutyNanos      uint64
	expiryNanos    uint64
	mostCommands   uint64 // in one turn
	commandsBefore uint64

	ops           Rate
	perTurn       Rate // turns
	inTurns       Rate // nanoseconds
	rejectedCalls uint64
}

// errorCodesMax is the number of different error codes that are counted. Scripts can make up any number of codes.
const errorCodesMax = 128

func (m *meter) init() { m.errors = map[string]uint64{} }

// sample takes a sample for each rate, ten times a second.
func (m *meter) sample(nanos int64) {
	m.ops.Sample(m.commands, nanos)
	m.perTurn.Sample(m.turns, nanos)
	m.inTurns.Sample(m.turnNanos, nanos)
}

func (m *meter) begin(nanos int64) {
	m.turnBegan, m.commandsBefore = nanos, m.commands
	m.measuresCPU = false
}

// measureCPU starts the thread's clock for this turn. It locks the goroutine to the thread until the turn ends.
// Otherwise the runtime could run a reclaimer or a saver on the thread, whose time would count as the turn's.
func (m *meter) measureCPU(on bool) {
	if m.measuresCPU = on; on {
		runtime.LockOSThread()
		m.turnCPU = clock.ThreadCPU()
	}
}

// end records the turn's length, up to the last reading of the clock. A turn of brief commands is not worth another
// reading.
func (m *meter) end(nanos int64, started time.Time, wall *clock.Wall) {
	took := nanos - m.turnBegan
	m.turns++
	m.turnNanos += uint64(took)
	m.longestTurn = max(m.longestTurn, took)
	if m.measuresCPU {
		cpu := clock.ThreadCPU() - m.turnCPU
		m.longestTurnCPU = max(m.longestTurnCPU, cpu)
		runtime.UnlockOSThread()
		m.longTurns.note(started, m.turnBegan, wall.Nanos(), cpu)
	}
	m.mostCommands = max(m.mostCommands, m.commands-m.commandsBefore)
}

func (m *meter) failed(spec *command.Spec, err error) {
	spec.Stats.Failed++
	if _, counted := err.(command.CountedError); !counted {
		m.countError(err)
	}
}

func (m *meter) rejected(spec *command.Spec, err error) {
	if spec != nil {
		spec.Stats.Rejected++
	}
	m.rejectedCalls++
	m.countError(err)
}

// countError counts an error reply under its code.
func (m *meter) countError(err error) { m.countErrors(err, 1) }

// countErrors counts n error replies with the same error.
func (m *meter) countErrors(err error, n uint64) {
	m.errorReplies += n
	code := "ERR"
	if e, ok := err.(*protocol.Error); ok {
		code = strings.TrimSuffix(e.Code, " ") // a script's error may be a code and a blank
	}
	if m.errorsFull {
		return
	}
	if _, known := m.errors[code]; !known && len(m.errors) >= errorCodesMax {
		m.stopErrors()
		return
	}
	m.errors[code] += n
}

// stopErrors stops the count of error replies by code, until CONFIG RESETSTAT. One entry shows that it has stopped.
func (m *meter) stopErrors() {
	if m.manyCodes != nil {
		m.manyCodes(slices.Sorted(maps.Keys(m.errors)))
	}
	m.codesFreed += int64(len(m.errors))
	m.errors, m.errorsFull = map[string]uint64{"ERRORSTATS_DISABLED": 1}, true
}

// A Rate is a figure per second, averaged over the last sixteen samples.
type Rate struct {
	samples   [16]float64
	next      int
	lastCount uint64
	lastNanos int64
}

// Sample adds a sample: the counter has the value count at the time nanos, on the caller's clock.
func (r *Rate) Sample(count uint64, nanos int64) {
	if elapsed := nanos - r.lastNanos; r.lastNanos != 0 && elapsed > 0 {
		r.samples[r.next] = float64(count-r.lastCount) * 1e9 / float64(elapsed)
		r.next = (r.next + 1) % len(r.samples)
	}
	r.lastCount, r.lastNanos = count, nanos
}

// PerSecond returns the mean of the samples.
func (r *Rate) PerSecond() float64 {
	sum := 0.0
	for _, s := range r.samples {
		sum += s
	}
	return sum / float64(len(r.samples))
}

// reset clears the figures that CONFIG RESETSTAT clears.
func (m *meter) reset() {
	m.commands, m.connections, m.errorReplies, m.rejectedCalls = 0, 0, 0, 0
	m.turns, m.turnNanos, m.dutyNanos, m.longestTurn, m.mostCommands = 0, 0, 0, 0, 0
	m.longestTurnCPU, m.evictedClients = 0, 0
	m.longTurns = longTurns{}
	m.commandsBefore, m.unexpected = 0, 0
	m.ops, m.perTurn, m.inTurns = Rate{}, Rate{}, Rate{} // because they compute differences
	m.expiryNanos = 0
	m.errors, m.errorsFull, m.codesFreed = map[string]uint64{}, false, 0
}
