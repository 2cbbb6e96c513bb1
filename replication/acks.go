package replication

import (
	"cmp"
	"math"
	"slices"
	"time"

	"spindle/engine"
	"spindle/engine/client"
	"spindle/internal/info"
	"spindle/protocol"
)

// Acks decide when replies that wait for replicas may leave. The gate holds them back by turn and level; a level is a
// number of replicas. Acks record the stream's offset after each turn with effects, and the offsets that replicas have
// acknowledged.
//
//	turns    4        5     7         9          entries, oldest first; one is needed until all levels are past it
//	offsets  100      130   190       250
//	level 1  passed   passed          │ next     its greatest offset that one replica has: 190
//	level 2  passed   │ next                     its greatest offset that two replicas have: 120
//
// replication.A1. All data shown by turns before an entry's turn is at or below the offset of the previous entry.
// replication.A2. need is the offset of the last effect. A level that has not acknowledged it holds back every turn
// since its first entry, turns that only read too. So no reply shows data that may still get lost.
// replication.A3. While this server follows a primary, nothing is held. When it begins to follow, held replies fail.
//
// Turn only.
type acks struct {
	*stream
	roster   *roster
	core     *engine.Core
	settings *Settings
	gate     *protocol.Gate

	on      bool
	halted  bool // the server is ending
	ending  bool // tick waits for the end of a unit
	fresh   bool // the turn has effects
	need    int64
	entries []ackEntry
	first   int // the number of entries[0], counted from the beginning
	levels  [protocol.AckLevels + 1]ackLevel
	offsets []int64   // memory for serve
	counted []Address // the replicas whose offsets are in offsets
	awaits  []ackAwait

	askedAt    int64 // need when the replicas were last asked; -1: need was not asked for
	askedNanos int64
	answered   bool          // a replica has answered the last request
	short      bool          // such a replica did not have need on its disk
	rest       time.Duration // before the last request is repeated for that replica's disk
	restless   bool          // a timer runs that ends rest

	timeouts, degradations uint64
}

// An ackEntry is a turn with effects, and the stream's offset after it.
type ackEntry struct {
	turn   uint64
	offset int64
	ms     int64 // by Core.SteadyMs
}

// An ackLevel is the progress of one level.
type ackLevel struct {
	next     int   // the number of its first entry that has neither passed nor failed
	acked    int64 // the greatest offset that enough replicas have; -1: none
	degraded bool  // replies leave without waiting, until acked has reached since
	since    int64
	failing  bool // replies have failed, and acked has not reached need since
}

// An ackAwait waits until enough replicas have acknowledged the stream up to an offset.
type ackAwait struct {
	level      int
	offset, ms int64 // ms: since when, by Core.SteadyMs
	done       func(ok bool)
}

const (
	askGap      = 100 * time.Microsecond // between two requests to the replicas, while one is not answered
	askAgain    = 100 * time.Millisecond // a request without a result is repeated after this
	noteEveryMs = 10                     // how precisely the waits of reads are timed
	entriesMost = 1 << 16                // beyond that, later turns share the last entry, and wait a little longer
)

func newAcks(s *stream, o *roster) *acks {
	a := &acks{stream: s, roster: o, core: s.core, settings: s.settings, gate: s.core.Gate()}
	s.core.OnAckLevels(a.start)
	return a
}

// used reports whether a client may wait at a level.
func (a *acks) used(level int) bool { return a.core.AckClients(level) > 0 }

// top returns the greatest level in use, or 0 if none is.
func (a *acks) top() int {
	for level := protocol.AckLevels; level > 0; level-- {
		if a.used(level) {
			return level
		}
	}
	return 0
}

// start begins to hold replies back once a level is in use. The sink must not change while a unit is open.
func (a *acks) start() {
	if a.on || a.gate == nil || a.following || a.top() == 0 {
		return
	}
	began := false
	a.core.Between(func() {
		if began = true; !a.on && !a.following && a.top() > 0 {
			a.begin()
		}
	})
	if !began { // effects of the open unit may have come before
		a.core.Between(func() { a.fresh = a.on })
	}
}

// begin starts to hold replies back, first those of this turn. Replicas must acknowledge the present data too.
func (a *acks) begin() {
	a.on, a.fresh, a.first, a.entries = true, false, 0, a.entries[:0]
	a.need, a.askedAt = a.offset, -1
	clear(a.levels[:])
	a.forget()
	a.core.AddSink(a, client.ToReplicas)
	a.heard()
	a.note()
	for level := 1; level < len(a.levels); level++ {
		a.shut(level)
	}
}

// end fails the held replies, and stops holding replies back.
func (a *acks) end() {
	if !a.on {
		return
	}
	a.halt()
	a.on, a.halted, a.entries = false, false, nil
	a.core.RemoveSink(a)
}

// halt fails the held replies, and lets later replies leave, because the server ends. A unit may be open.
func (a *acks) halt() {
	if !a.on {
		return
	}
	a.halted = true
	a.serveAwaits()
	for level := 1; level < len(a.levels); level++ {
		if a.fresh && !a.levels[level].degraded { // no replica has the effects of this turn
			a.gate.ShutLevel(level, a.core.TurnNumber())
		}
		a.gate.FailLevel(level, a.core.TurnNumber()+1)
		a.gate.PassLevel(level, math.MaxUint64)
	}
	a.gate.RelaxLevels()
	if a.core.HasEffects() {
		a.core.BeforeReply(a.failTurn)
	}
}

// failTurn fails the replies of this turn. A transaction ends in it, of which no replica gets any effect, because this
// server became a replica in its middle.
func (a *acks) failTurn() {
	for level := 1; level < len(a.levels); level++ {
		if turn := a.core.TurnNumber(); !a.levels[level].degraded {
			a.gate.ShutLevel(level, turn)
			a.gate.FailLevel(level, turn+1)
			a.gate.PassLevel(level, math.MaxUint64)
		}
	}
}

// again ends and begins, because the data set was replaced.
func (a *acks) again() {
	a.end()
	a.start()
}

// Append implements engine.Sink.
func (a *acks) Append([]engine.Effect) { a.fresh = true }

// TurnDone implements engine.Sink.
func (a *acks) TurnDone() {
	if a.halted {
		return
	}
	switch {
	case a.fresh:
		a.fresh = false
		a.need = a.offset
		if a.log == nil {
			a.forget()
		}
		a.note()
		for level := 1; level < len(a.levels); level++ {
			a.shut(level)
		}
	case a.lacks() && a.core.SteadyMs()-a.entries[len(a.entries)-1].ms >= noteEveryMs:
		a.note()
	}
	a.ask()
	a.gate.EndedAt(a.core.TurnNumber())
}

// forget drops the offsets that replicas have acknowledged. Without a backlog effects do not move the offset. Each
// later replica takes a full copy.
func (a *acks) forget() {
	for level := range a.levels {
		a.levels[level].acked = -1
	}
}

// lacks reports whether a level in use has not acknowledged everything.
func (a *acks) lacks() bool {
	for level := range a.levels {
		if level > 0 && a.levels[level].acked < a.need && a.used(level) {
			return true
		}
	}
	return false
}

// note adds an entry for this turn.
func (a *acks) note() {
	if n := len(a.entries); n >= entriesMost {
		a.entries[n-1].offset = a.need
		return
	}
	a.entries = append(a.entries, ackEntry{a.core.TurnNumber(), a.need, a.core.SteadyMs()})
}

// shut holds back this turn and later ones at a level. It does nothing if the level is degraded, or if enough replicas
// have everything.
func (a *acks) shut(level int) {
	l := &a.levels[level]
	if l.degraded || l.acked >= a.need {
		l.next = a.first + len(a.entries)
		return
	}
	a.gate.ShutLevel(level, a.core.TurnNumber())
}

// ask asks the replicas for acknowledgements, if any reply waits for one. It asks at most once a turn, and rarely while
// the last request is not answered. For disks that may have synced more by now, it repeats a request. Each pause before
// that is a quarter longer than the one before. So a silent replica costs some 30 requests, and then ten a second.
func (a *acks) ask() {
	if len(a.roster.replicas) == 0 || a.still || !a.lacks() {
		return
	}
	now := a.core.Nanos()
	since := time.Duration(now - a.askedNanos)
	switch {
	case a.need > a.askedAt && (a.answered || since >= askGap): // for effects that no request covers
		a.rest = askGap
	case since >= askAgain:
	case a.answered && a.short && since >= a.rest:
		a.rest = min(a.rest*5/4, askAgain)
	case a.answered && a.short && !a.restless:
		a.restless = true
		time.AfterFunc(a.rest-since, func() { a.core.Do(func() { a.restless = false }) }) // its turn ends with ask
		return
	default:
		return
	}
	a.askedAt, a.askedNanos, a.answered, a.short = a.need, now, false, false
	a.write(getAck)
	a.flush()
}

// hears notes that a replica has sent an acknowledgement.
func (a *acks) hears(r *replica) {
	if r.ackOffset >= a.askedAt {
		a.answered = true
		a.short = a.short || a.far()(r) < a.need
	}
}

// far returns the function that gives the offset of a replica which counts.
func (a *acks) far() func(*replica) int64 {
	if a.settings.AckMode.Get() == ackDisk {
		return onDisk
	}
	return applied
}

// heard looks at the replicas' offsets, and releases the replies that enough replicas have acknowledged.
func (a *acks) heard() {
	if !a.on || a.halted {
		return
	}
	far := a.far()
	a.offsets, a.counted = a.offsets[:0], a.counted[:0]
	for _, r := range a.roster.replicas {
		if r.state == online {
			a.count(r, far(r))
		}
	}
	slices.SortFunc(a.offsets, func(x, y int64) int { return cmp.Compare(y, x) })
	moved := false
	for i, offset := range a.offsets {
		if level := i + 1; level < len(a.levels) && offset > a.levels[level].acked {
			a.levels[level].acked = offset
			moved = a.settle(level) || moved
		}
	}
	if moved {
		a.drop()
		a.gate.CallWaiting()
	}
	a.serveAwaits()
}

// count adds a replica's offset. Two connections of one replica count once: the old one may not have been closed yet.
func (a *acks) count(r *replica, offset int64) {
	at := r.address()
	if i := slices.Index(a.counted, at); i >= 0 && at.Port != 0 {
		a.offsets[i] = max(a.offsets[i], offset)
		return
	}
	a.counted, a.offsets = append(a.counted, at), append(a.offsets, offset)
}

// await calls done when level replicas have acknowledged all data of now. ok is false if they have not within
// ack-timeout, or if this server begins to follow a primary. With ack-on-timeout degrade, ok is true then.
func (a *acks) await(level int, done func(ok bool)) {
	if level == 0 || a.gate == nil {
		done(true)
		return
	}
	offset := a.need
	if a.fresh || !a.on {
		offset = a.offset
	}
	a.awaits = append(a.awaits, ackAwait{level, offset, a.core.SteadyMs(), done})
	a.serveAwaits()
}

// serveAwaits ends the awaits that are decided.
func (a *acks) serveAwaits() {
	limit := a.core.SteadyMs() - a.settings.AckTimeout.Get()
	a.awaits = slices.DeleteFunc(a.awaits, func(w ackAwait) bool {
		l, ok := &a.levels[w.level], false
		switch {
		case !a.on || a.halted:
		case l.degraded, l.acked >= w.offset:
			ok = true
		case w.ms <= limit:
			ok = a.settings.AckOnTimeout.Get() == ackDegrade
		default:
			return false
		}
		a.core.Later(func() { w.done(ok) })
		return true
	})
}

// settle releases the replies of a level that enough replicas have acknowledged by now. It reports whether any reply
// may leave.
func (a *acks) settle(level int) (moved bool) {
	l := &a.levels[level]
	if l.degraded {
		return l.acked >= l.since && a.restore(level)
	}
	for l.next < a.first+len(a.entries) && a.entries[l.next-a.first].offset <= l.acked {
		l.next++
		moved = true
	}
	switch {
	case l.acked >= a.need && !a.fresh:
		l.next = a.first + len(a.entries)
		moved = a.gate.HeldFrom(level) != math.MaxUint64
		a.gate.PassLevel(level, math.MaxUint64)
		a.recovered(level)
	case moved && l.next < a.first+len(a.entries):
		a.gate.PassLevel(level, a.entries[l.next-a.first].turn)
	case moved: // the others are this turn's
		a.gate.PassLevel(level, a.core.TurnNumber())
	}
	return moved
}

// restore ends the degradation of a level once enough replicas acknowledge again.
func (a *acks) restore(level int) (moved bool) {
	l := &a.levels[level]
	l.degraded, l.next = false, a.first+len(a.entries)
	if l.acked < a.need {
		a.note()
		a.gate.ShutLevel(level, a.core.TurnNumber())
	}
	l.failing = true
	a.recovered(level)
	return false
}

// recovered logs that enough replicas acknowledge again.
func (a *acks) recovered(level int) {
	if l := &a.levels[level]; l.failing {
		if l.failing = false; a.used(level) {
			a.settings.Log.Notice("%d replicas acknowledge again: replies wait for them.", level)
		}
	}
}

// modeChanged starts again, from the offsets that replicas have acknowledged in the new mode. Replies that have left
// stay confirmed.
func (a *acks) modeChanged() {
	if a.on {
		a.forget()
		a.heard()
		a.rest, a.short, a.answered = askGap, true, true
	}
}

// drop forgets the entries that no level needs.
func (a *acks) drop() {
	next := a.first + len(a.entries)
	for level := 1; level < len(a.levels); level++ {
		next = min(next, a.levels[level].next)
	}
	if n := next - a.first; n > len(a.entries)/2 {
		last := a.entries[len(a.entries)-1]
		a.entries = append(a.entries[:0], a.entries[n:]...)
		if a.first = next; len(a.entries) == 0 { // the time of reads depends on it
			a.entries, a.first = append(a.entries, last), next-1
		}
	}
}

// tick times out replies that have waited for too long, and ends when no client waits any more.
func (a *acks) tick() {
	if !a.on || a.halted {
		return
	}
	limit := a.core.SteadyMs() - a.settings.AckTimeout.Get()
	end := a.first // the first entry that may still wait
	for end < a.first+len(a.entries) && a.entries[end-a.first].ms <= limit {
		end++
	}
	moved, idle := false, a.top() == 0 && !a.fresh
	for level := 1; level < len(a.levels); level++ {
		l := &a.levels[level]
		if l.next < end && l.acked < a.need {
			a.expire(level, end)
			moved = true
		}
		idle = idle && l.next == a.first+len(a.entries)
	}
	if moved {
		a.drop()
		a.gate.CallWaiting()
	}
	a.serveAwaits()
	if idle {
		a.core.BetweenOnce(&a.ending, func() {
			if a.top() == 0 && !a.fresh {
				a.end()
			}
		})
	}
}

// expire ends the wait of a level's turns before the entry with number end.
func (a *acks) expire(level, end int) {
	l := &a.levels[level]
	used := a.used(level)
	if used {
		a.timeouts++
	}
	if a.settings.AckOnTimeout.Get() == ackDegrade {
		l.degraded, l.since, l.next = true, a.need, a.first+len(a.entries)
		a.gate.PassLevel(level, math.MaxUint64)
		if used {
			a.degradations++
			a.settings.Log.Warning(
				"Fewer than %d replicas acknowledge within ack-timeout: replies wait no longer, until they do.", level)
		}
		return
	}
	turn := a.core.TurnNumber()
	if l.next = end; end < a.first+len(a.entries) {
		turn = a.entries[end-a.first].turn
	}
	a.gate.FailLevel(level, turn)
	if used && !l.failing {
		a.settings.Log.Warning("Fewer than %d replicas acknowledge within ack-timeout: replies become errors, until they do.",
			level)
	}
	l.failing = true
}

// state returns the state of replies that wait for replicas: "ok", or the worst state of a level.
func (a *acks) state() string {
	worst := "ok"
	for level := 1; level < len(a.levels); level++ {
		switch l := &a.levels[level]; {
		case !a.used(level):
		case l.degraded:
			return "degraded"
		case l.failing:
			worst = "failing"
		case l.acked < a.need && worst == "ok":
			worst = "waiting"
		}
	}
	return worst
}

// lines writes INFO's fields while clients wait for replicas.
func (a *acks) lines(w *info.Writer) {
	if !a.on {
		return
	}
	top := a.top()
	w.Text("ack_state", a.state())
	w.Int("ack_replicas_wanted", int64(top))
	w.Int("ack_offset_needed", a.need)
	w.Int("ack_offset_confirmed", a.levels[top].acked)
	w.Int("ack_timeouts", int64(a.timeouts))
	w.Int("ack_degradations", int64(a.degradations))
	w.Int("ack_errors", a.gate.Refused())
}
