package aof

import (
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"spindle/bgsave"
	"spindle/engine"
	"spindle/engine/client"
	"spindle/internal/disk"
	"spindle/internal/logging"
	"spindle/protocol"
)

// Parts are what a Log needs from its server.
type Parts struct {
	Core     *engine.Core
	Settings *Settings
	Log      *logging.Logger
	Disk     disk.System    // nil: the operating system's
	Dir      func() string  // the server's present folder
	Gate     *protocol.Gate // holds replies back until their effects are on disk
	// Fatal ends the process: under appendfsync always no reply may leave any more. The log has given the reason
	// before.
	Fatal func()
	// Base returns how the RDB file of a base is written. It is called in the turn that freezes the view.
	Base func() bgsave.Options
	// Saving reports whether a snapshot is being saved. A rewrite waits for its end.
	Saving func() bool
	// Held reports whether the present data must not go into the log. That is so while a copy of the primary's data
	// replaces them, and after its load has failed. No rewrite begins meanwhile. nil means never.
	Held func() bool
	// Changed runs in a turn after a possible change of Refusal or of the running work.
	Changed func()
	// Latency is part.Listeners.Latency. It is called in a turn for each event past the threshold.
	Latency func(event string, took time.Duration)
	Now     func() time.Time
	// Ends returns commands that only a backup gets, as its end: those that end what is under way in the log, as moves of
	// slots. Turn only. nil means that there are none.
	Ends func() []byte
	// Room returns how many bytes may wait for the disk, if that is less than aof-buffer-limit. Turn only. nil means
	// that aof-buffer-limit holds.
	Room func() int64
}

// A state says whether a log is off, waits for its first base, or is on.
type state uint8

const (
	off     state = iota
	waiting       // effects are collected, but the files hold no data set before the first rewrite is done
	on
)

// A Log is the sink that writes the append-only file. Turn only, unless a method says otherwise.
//
// aof.L1. When TurnDone returns, the turn's effects are in the buffer. With appendfsync always, the gate is then shut
// for the turn: its replies wait until the writer has synced the effects. While the turn runs, its posts wait too.
// aof.L2. A turn waits for a disk only in Flush, and when it writes its effects itself while the writer sleeps.
type Log struct {
	parts  Parts
	set    *Settings
	folder *folder // the writer may still use another one while it has work there
	w      *writer

	state    state
	attached bool  // the log is a sink of the core
	selected int   // the log's database; -1: the next effect needs SELECT
	stamped  int64 // the second of the last annotation
	past     bool  // annotations are written for the history
	fresh    bool  // the turn has effects
	strict   bool  // the gate is told when each turn ends
	word     []byte

	prunedPast time.Time // when the history was last cut to its time

	lastSync time.Time // when a sync was last requested
	stall    time.Time // when a running sync was first seen to keep bytes from the file; zero: none does
	counted  bool      // the present stall was counted in delayed

	reading bool  // DEBUG LOADAOF reads the files
	limit   int64 // bytes that may wait for the disk
	held    bool
	holding atomic.Bool // a copy of held, for the writer

	loggedHeld time.Time // when the log last had a line about it
	refused    bool      // the barrier refuses writes
	delayed    int64
	waits      []waiter // clients in WAITAOF, by offset

	rw       rewrites
	backup   backup
	removing int // running removals of a backup's files
}

// NewLog returns a log for the server that p describes. The log is off.
func NewLog(p Parts) *Log {
	if p.Disk == nil {
		p.Disk = disk.OS
	}
	if p.Now == nil {
		p.Now = time.Now
	}
	l := &Log{parts: p, set: p.Settings, selected: -1}
	l.folder = &folder{disk: p.Disk, root: "."}
	l.w = newWriter(l, l.folder)
	return l
}

// Locate places the log in the server's folder. The log must be off.
func (l *Log) Locate() {
	dir := l.parts.Dir()
	name, path := l.set.FileName.Get(), filepath.Join(dir, l.set.DirName.Get())
	if l.folder.lies(dir, path, name) {
		return
	}
	l.folder = &folder{disk: l.parts.Disk, root: dir, dir: path, name: name}
	l.w.move(l.folder)
}

// Append implements engine.Sink.
func (l *Log) Append(unit []engine.Effect) {
	l.fresh = true
	if l.set.Timestamps.Get() || l.past {
		l.stamp()
	}
	for _, e := range unit {
		if e.DB != engine.AnyDB && e.DB != l.selected {
			l.selected = e.DB
			l.word = protocol.AppendCommand(l.word[:0], [][]byte{wordSelect, strconv.AppendInt(nil, int64(e.DB), 10)})
			l.w.add(l.word)
			l.rw.current += int64(len(l.word))
		}
		l.w.add(e.Command)
		l.rw.current += int64(len(e.Command))
	}
	if !l.held && l.w.unwritten() > l.limit {
		if l.weigh(); l.w.unwritten() > l.limit {
			l.hold()
		}
	}
}

var wordSelect = []byte("SELECT")

// stamp writes the time, once a second.
func (l *Log) stamp() {
	now := l.parts.Core.Now() / 1000
	if now <= l.stamped {
		return
	}
	l.stamped = now
	l.word = appendStamp(l.word[:0], now)
	l.w.add(l.word)
	l.rw.current += int64(len(l.word))
}

func appendStamp(dst []byte, unix int64) []byte {
	return append(strconv.AppendInt(append(dst, "#TS:"...), unix, 10), "\r\n"...)
}

// TurnDone implements engine.Sink.
func (l *Log) TurnDone() {
	durable := l.durable()
	if l.fresh {
		l.fresh = false
		l.w.publish(l.parts.Core.TurnNumber(), durable)
	}
	if durable {
		l.strict = true
		l.parts.Gate.Ended(l.parts.Core.TurnNumber())
	} else {
		l.relax()
	}
}

// relax lets the posts of a turn leave while the turn runs.
func (l *Log) relax() {
	if l.strict {
		l.strict = false
		l.parts.Gate.Relax()
	}
}

// durable reports whether replies wait for the disk.
func (l *Log) durable() bool { return l.set.Fsync.Get() == Always && !l.spared() }

// spared reports whether syncs are left out because other work keeps the disk busy.
func (l *Log) spared() bool {
	return l.set.NoSyncOnRewrite.Get() && (l.rw.job != nil || l.parts.Saving())
}

// weigh updates the limit on the bytes that may wait for the disk.
func (l *Log) weigh() {
	l.limit = l.set.BufferLimit.Get()
	if l.parts.Room != nil {
		l.limit = min(l.limit, l.parts.Room())
	}
}

// hold keeps writers back, as a pause does, until the disk has caught up. Each tick renews it.
func (l *Log) hold() {
	if now := l.parts.Now(); !l.held && now.Sub(l.loggedHeld) >= logEvery {
		l.loggedHeld = now
		l.parts.Log.Warning("Clients that write are held until the disk takes more of the AOF: %d bytes wait, %d may. "+
			"See aof-buffer-limit.", l.w.unwritten(), l.limit)
	}
	l.held = true
	l.holding.Store(true)
	l.parts.Core.PauseFor(engine.PauseLog, false, holdMs)
}

// holdMs is how long writers are held at a time.
const holdMs = 1000

// caughtUp lets writers continue, if the disk has caught up.
func (l *Log) caughtUp() {
	if l.w.unwritten() <= l.limit/2 {
		l.release()
	}
}

func (l *Log) release() {
	if l.held {
		l.held = false
		l.holding.Store(false)
		l.parts.Core.Unpause(engine.PauseLog)
	}
}

// Tick is the log's share of the core's duty that runs every 100 ms.
func (l *Log) Tick(int64) {
	l.look()
	now := l.parts.Now()
	l.tickRewrite(now)
	l.tickBackup(now)
	if l.state == off {
		return
	}
	if l.past = l.set.Past.Get().on(); now.Sub(l.prunedPast) >= pruneEvery {
		l.prunedPast = now
		l.w.do(0, func() {
			l.w.findPast()
			l.w.keepPast()
		})
	}
	l.weigh()
	if l.held {
		if l.caughtUp(); l.held {
			l.hold()
		}
	}
	if l.syncIsDue(now) && l.w.askSync() {
		l.lastSync = now
	}
	l.watchStall(now)
}

// syncIsDue reports whether a tick must ask for a sync. Under always, replies ask for syncs, but no reply waits for
// bytes that were written under another policy.
func (l *Log) syncIsDue(now time.Time) bool {
	switch policy := l.set.Fsync.Get(); {
	case l.spared():
		return false
	case policy == Always:
		return true
	default:
		return policy == EverySecond && now.Sub(l.lastSync) >= syncEvery
	}
}

const (
	pruneEvery = time.Minute

	syncEvery  = time.Second
	stallAfter = 2 * time.Second // a sync that keeps bytes from the file for longer is counted
)

// watchStall counts the syncs that have kept bytes from the file for stallAfter.
func (l *Log) watchStall(now time.Time) {
	switch {
	case !l.w.syncStalls():
		l.stall, l.counted = time.Time{}, false
	case l.stall.IsZero():
		l.stall = now
	case !l.counted && now.Sub(l.stall) > stallAfter:
		l.counted = true
		l.delayed++
		l.parts.Log.Notice("Asynchronous AOF fsync is taking too long (disk is busy?). " +
			"Effects wait in memory until it is over.")
	}
}

// look handles the writer's news: the start and the end of trouble, and slow events.
func (l *Log) look() {
	events, distrust := l.w.takeNews()
	for _, e := range events {
		l.parts.Latency(e.name, e.took)
		switch {
		case e.name == eventPending:
			l.parts.Latency(eventWrite, e.took)
		case e.name == eventWrite && (l.rw.job != nil || l.parts.Saving()):
			l.parts.Latency(eventActive, e.took)
		case e.name == eventWrite:
			l.parts.Latency(eventAlone, e.took)
		}
	}
	if distrust != nil {
		l.parts.Core.Between(func() { l.distrust(distrust) })
	}
	if refused := l.Refusal() != nil; refused != l.refused {
		l.refused = refused
		l.parts.Changed()
	}
	l.caughtUp()
	l.serveWaits()
}

// Refusal returns the error for refused writes, or nil if writes are allowed.
func (l *Log) Refusal() *protocol.Error {
	if l.state == off {
		return nil
	}
	if err := l.w.refusal(); err != "" {
		return errWriting(err)
	}
	return nil
}

// Durable reports whether replies wait for the disk.
func (l *Log) Durable() bool { return l.state != off && l.durable() }

// Path returns the path of the manifest.
func (l *Log) Path() string { return l.folder.manifestPath() }

// Wrote notes the log's offset after a command of cl. A later WAITAOF of cl waits for this offset.
func (l *Log) Wrote(cl *client.Client) {
	if l.attached {
		cl.LogOffset = l.w.end()
	}
}

// On reports whether the log is on, or is being turned on.
func (l *Log) On() bool { return l.state != off }

// HistoryChanged applies CONFIG SET aof-disable-auto-gc. It removes replaced files, unless the setting keeps them.
func (l *Log) HistoryChanged() {
	if l.state != off {
		l.w.do(0, l.w.removeHistory)
	}
}

// Waiting reports whether the first rewrite is not done. The files then do not hold the data set.
func (l *Log) Waiting() bool { return l.state == waiting }

// SyncingFor returns how long the running sync has taken so far, or 0 if none runs.
func (l *Log) SyncingFor() time.Duration { return l.w.syncingFor() }

// Failure returns why the file cannot be written, in the system's words, or "" if it can.
func (l *Log) Failure() string { return l.w.refusal() }

// Memory returns the memory of the buffer.
func (l *Log) Memory() int64 { return l.w.memory() }

// SetFlushSleep is DEBUG AOF-FLUSH-SLEEP: the writer sleeps for d before each write.
func (l *Log) SetFlushSleep(d time.Duration) { l.w.rest.Store(int64(d)) }
