package aof

import (
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"spindle/bgsave"
	"spindle/engine"
	"spindle/engine/client"
	"spindle/internal/disk"
	"spindle/internal/logging"
	"spindle/internal/reason"
	"spindle/protocol"
)

// Parts is what a Log is joined to.
type Parts struct {
	Core     *engine.Core
	Settings *Settings
	Log      *logging.Logger
	Disk     disk.System    // nil: the operating system's
	Dir      func() string  // the server's folder, as it is now
	Gate     *protocol.Gate // what holds replies back until the disk has their effects
	// Fatal ends the process: under appendfsync always nothing may be promised any more. The log has said why.
	Fatal func()
	// Base is how the RDB file of a base is written. It is called in the turn that freezes.
	Base func() bgsave.Options
	// Saving says that a snapshot is being saved: a rewrite waits for its end.
	Saving func() bool
	// Held says that the data here must not become the log's: a copy of the primary's is taking their place, or could
	// not be loaded and has left nothing. No rewrite begins meanwhile; nil: never.
	Held func() bool
	// Changed runs in a turn when Refusal, or what is under way, may have changed.
	Changed func()
	// Latency is part.Listeners.Latency; past the threshold it is told in a turn.
	Latency func(event string, took time.Duration)
	Now     func() time.Time
	// Room is how much may wait for the disk, if that is less than aof-buffer-limit. It is asked in turns; nil: no less.
	Room func() int64
}

// A state is how far a log is.
type state uint8

const (
	off     state = iota
	waiting       // effects are collected, but what is on disk is no data set before the first rewrite is done
	on
)

// A Log is the sink that writes the append-only file. Its methods run in turns, but for those that say otherwise.
//
// aof.L1. A turn's effects are in the buffer when TurnDone is over. With appendfsync always the gate is shut for that
// turn by then, so that its replies stay until the writer has synced them. While a turn runs its posts stay, too.
// aof.L2. Nothing in a turn waits for a disk, but for the write of a turn's effects while the writer is idle, and
// Flush.
type Log struct {
	parts  Parts
	set    *Settings
	folder *folder // the writer's is the same, but for what it still has to do in another
	w      *writer

	state    state
	attached bool  // the core knows this sink
	selected int   // the database the log stands in; -1: the next effect must say
	stamped  int64 // the second of the last annotation
	fresh    bool  // the turn has effects
	strict   bool  // the gate is told of the end of each turn
	word     []byte

	lastSync time.Time // when a sync was last asked for
	stall    time.Time // since when a sync under way keeps bytes from the file; zero: none does
	counted  bool      // the stall is in delayed

	reading bool  // DEBUG LOADAOF reads the files
	limit   int64 // bytes that may wait for the disk
	held    bool
	holding atomic.Bool // held, for the writer

	toldHeld time.Time // when the log last said so
	refused  bool      // the barrier is up
	delayed  int64
	waits    []waiter // clients of WAITAOF, by offset

	rw rewrites
}

// NewLog joins a log to its server. It is off.
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

// Locate has the log lie in the server's folder. While the log is off.
func (l *Log) Locate() {
	dir := l.parts.Dir()
	name, path := l.set.FileName.Get(), filepath.Join(dir, l.set.DirName.Get())
	if l.folder.lies(dir, path, name) {
		return
	}
	l.folder = &folder{disk: l.parts.Disk, root: dir, dir: path, name: name}
	l.w.move(l.folder)
}

// Take implements engine.Sink.
func (l *Log) Take(unit []engine.Effect) {
	l.fresh = true
	if l.set.Timestamps.Get() {
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
	if !l.held && l.w.behind() > l.limit {
		if l.weigh(); l.w.behind() > l.limit {
			l.hold()
		}
	}
}

var wordSelect = []byte("SELECT")

// stamp writes which second it is, once a second.
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

// appendStamp appends the annotation of a second.
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

// relax lets turns that run post at once.
func (l *Log) relax() {
	if l.strict {
		l.strict = false
		l.parts.Gate.Relax()
	}
}

// durable says whether replies wait for the disk.
func (l *Log) durable() bool { return l.set.Fsync.Get() == Always && !l.spared() }

// spared says that nothing is synced while other work keeps the disk busy.
func (l *Log) spared() bool {
	return l.set.NoSyncOnRewrite.Get() && (l.rw.job != nil || l.parts.Saving())
}

// weigh finds out how much may wait for the disk now. Each tick does, too.
func (l *Log) weigh() {
	l.limit = l.set.BufferLimit.Get()
	if l.parts.Room != nil {
		l.limit = min(l.limit, l.parts.Room())
	}
}

// hold keeps writers back, as a pause does, until the disk has caught up. Each tick renews it.
func (l *Log) hold() {
	if now := l.parts.Now(); !l.held && now.Sub(l.toldHeld) >= logEvery {
		l.toldHeld = now
		l.parts.Log.Warning("Clients that write are held until the disk takes more of the AOF: %d bytes wait, %d may. "+
			"See aof-buffer-limit.", l.w.behind(), l.limit)
	}
	l.held = true
	l.holding.Store(true)
	l.parts.Core.PauseFor(engine.PauseLog, false, holdMs)
}

// holdMs is how long writers are held at a time.
const holdMs = 1000

// caughtUp lets writers go on.
func (l *Log) caughtUp() {
	if l.w.behind() <= l.limit/2 {
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

// Tick is the log's share of the core's 100 ms duty.
func (l *Log) Tick(int64) {
	l.look()
	now := l.parts.Now()
	l.tickRewrite(now)
	if l.state == off {
		return
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

// syncIsDue says whether a tick asks for a sync. Under always replies do, but what was written under another policy is
// awaited by none.
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
	syncEvery  = time.Second
	stallAfter = 2 * time.Second // a sync that keeps bytes from the file for longer is counted
)

// watchStall counts syncs that keep bytes from the file for too long.
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

// look takes over what the writer has met since the last time: trouble, its end, and what took long.
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

// Refusal is why writes are refused, nil while they are not.
func (l *Log) Refusal() *protocol.Error {
	if l.state == off {
		return nil
	}
	if err := l.w.refusal(); err != "" {
		return protocol.Errorf("MISCONF", "Errors writing to the AOF file: %s", err)
	}
	return nil
}

// distrust is the end of a file whose sync has failed: what it has of the bytes written before is not known. What
// follows goes to a file of its own, and what is on disk stays as it is until a rewrite has made a new data set beside
// it.
func (l *Log) distrust(why error) {
	if !l.attached {
		return
	}
	l.parts.Log.Warning("What was written to the AOF since the last sync may be lost: a rewrite makes a new one.")
	l.abortRewrite("the file it goes on from cannot be believed")
	l.detach()
	l.state = waiting
	l.w.abandon()
	l.rw.scheduled = true
}

// attach has the core tell effects from here on.
func (l *Log) attach() {
	l.selected, l.stamped = -1, 0
	if !l.attached {
		l.parts.Core.AddSink(l, client.ToLog)
		l.attached = true
	}
}

func (l *Log) detach() {
	if l.attached {
		l.parts.Core.RemoveSink(l)
		l.attached = false
		l.relax()
	}
}

// TurnOn is CONFIG SET appendonly yes: a rewrite begins, at once or as soon as it may.
//
// Errors: those of Claim; the system's, if no file can be made in the folder. They are logged.
func (l *Log) TurnOn() error {
	if l.state != off {
		return nil
	}
	if l.rw.job != nil {
		l.parts.Log.Notice("AOF was enabled but there is already an AOF rewriting in background. " +
			"Stopping background AOF and starting a rewrite now.")
		l.abortRewrite("")
	}
	l.Locate()
	err := l.Claim(0)
	if err == nil {
		err = l.tryFolder()
	}
	if err != nil {
		l.parts.Log.Warning("Redis needs to enable the AOF but can't trigger a background AOF rewrite operation. " +
			"Check the above logs for more info about the error.")
		return err
	}
	l.state = waiting
	const scheduled = "An AOF background was scheduled to start when possible."
	switch {
	case l.parts.Saving():
		l.rw.scheduled = true
		l.parts.Log.Notice("AOF was enabled but there is already another background operation. " + scheduled)
	case l.isHeld():
		l.rw.scheduled = true
		l.parts.Log.Notice("AOF was enabled while a copy of the primary's is loaded, or could not be. " + scheduled)
	case l.parts.Core.Transacting():
		l.rw.scheduled = true
		l.parts.Log.Notice("AOF was enabled during a transaction. " + scheduled)
	default:
		l.startRewrite()
	}
	return nil
}

// tryFolder makes the file that the first rewrite begins with, so that a folder that takes no files is no log's. It
// removes the file again: the rewrite may begin much later, or never. Like Claim it asks the disk inside the turn.
func (l *Log) tryFolder() error {
	f := l.folder
	there := f.exists(f.path(f.temporaryIncr())) // of a log that was just switched off; its writer removes it
	file, err := f.disk.Open(f.path(f.temporaryIncr()), os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		l.parts.Log.Warning("Can't open the append-only file %s: %s", f.temporaryIncr(), reason.Of(err))
		l.w.do(0, func() { go l.parts.Core.Do(l.giveBack) }) // behind what a log that was just switched off has to write
		return err
	}
	err = file.Close()
	if !there {
		_ = f.disk.Remove(f.path(f.temporaryIncr()))
	}
	return err
}

// Suspend says that a copy of a primary's data begins to take the data set's place. What was decided until now is
// written and synced. The files then stay as they are: if the copy cannot be loaded, they still are the data set of
// before. A rewrite is due, which begins after Replaced or when Held says no more.
func (l *Log) Suspend() {
	if l.state == off {
		return
	}
	l.abortRewrite("a copy of the primary's takes the place of what it reads")
	if l.state == on {
		l.flushTurn() // before the gate hears no more of turns
		l.detach()
		l.w.finish()
	} else { // what was collected has no base
		l.detach()
		l.w.abandon()
	}
	l.fresh, l.state, l.rw.scheduled = false, waiting, true
}

// Replaced says that other data has taken the data set's place: a primary's. The files stay as they are until a rewrite
// has made new ones.
func (l *Log) Replaced() {
	if l.state == off {
		return
	}
	l.abortRewrite("other data has taken the place of what it reads")
	l.detach()
	l.fresh, l.state = false, waiting
	l.w.abandon()
	if l.rw.scheduled = true; !l.parts.Saving() {
		l.startRewrite()
	}
}

func (l *Log) isHeld() bool { return l.parts.Held != nil && l.parts.Held() }

// TurnOff is CONFIG SET appendonly no: what was decided until now is written and synced, beside the turns that follow.
func (l *Log) TurnOff() {
	if l.state == off {
		return
	}
	l.abortRewrite("")
	l.flushTurn() // before the gate hears no more of turns
	l.detach()
	l.state, l.rw.scheduled = off, false
	l.w.finish()
	l.release()
	l.look()
	l.serveWaits()
}

// giveBack lets another server have the log's files, if this one does nothing with them any more. Turn only.
func (l *Log) giveBack() {
	if l.state == off && l.rw.job == nil {
		l.folder.unclaim()
	}
}

// flushTurn gives the writer what the turn that is held has had until now.
func (l *Log) flushTurn() {
	l.fresh = false
	l.w.publish(l.parts.Core.TurnNumber(), l.durable())
}

// Close writes and syncs what there is, and calls off a rewrite: a shutdown. wait, called outside of turns, holds until
// that is done, or limit is over.
func (l *Log) Close() (wait func(limit time.Duration)) {
	j := l.rw.job
	if j != nil {
		l.parts.Log.Warning("There is a child rewriting the AOF. Killing it!")
		l.abortRewrite("")
	}
	if l.state != off {
		l.flushTurn()
		l.parts.Log.Notice("Calling fsync() on the AOF file.")
	}
	done := l.w.last() // a log that was turned off an instant ago is not on disk yet
	return func(limit time.Duration) {
		select {
		case <-done:
		case <-time.After(limit):
			l.parts.Log.Warning("The disk does not take the last of the AOF within %s.", limit)
		}
		l.cleanUp(j)
	}
}

// rewritePatience is how long a server that ends waits for a rewrite to put away its files.
const rewritePatience = time.Second

// cleanUp waits for a rewrite that was called off. What it writes to is removed, however long it needs to notice.
func (l *Log) cleanUp(j *rewriting) {
	if j == nil {
		return
	}
	select {
	case <-j.gone:
	case <-time.After(rewritePatience):
		if temp := j.temp.Load(); temp != nil {
			_ = l.parts.Disk.Remove(*temp)
		}
	}
}

// Flush waits until everything decided so far is in the files, and keeps them as they are until release is called, in
// a turn: DEBUG LOADAOF reads them. No rewrite begins meanwhile, because the data set may be half of one. release gets
// what Load has found, also behind an error.
func (l *Log) Flush() (release func(found Loaded)) {
	if l.state != off {
		l.flushTurn()
	}
	l.reading = true
	done, goOn := l.w.drain()
	<-done
	return func(found Loaded) {
		l.reading = false
		l.reread(found)
		close(goOn)
	}
}

// reread goes on behind what DEBUG LOADAOF has read, while the goroutine rests. The load may have cut the file, or
// somebody else has changed it: its end is asked for, and the next effect says its database.
func (l *Log) reread(found Loaded) {
	l.selected, l.stamped = -1, 0
	l.w.measure()
	switch {
	case l.state != on || !found.there:
	case l.rw.job == nil:
		l.rw.old, l.rw.current = found.size, l.w.behind()
	default:
		l.rw.current = max(l.rw.current-found.cut, 0)
	}
}

// Durable says that replies wait for the disk.
func (l *Log) Durable() bool { return l.state != off && l.durable() }

// Path is where the manifest lies.
func (l *Log) Path() string { return l.folder.manifestPath() }

// Wrote notes how far the log was when a command of cl's had gone into it: what its WAITAOF waits for.
func (l *Log) Wrote(cl *client.Client) {
	if l.attached {
		cl.LogOffset = l.w.end()
	}
}

// On says that the log is on, or is being turned on.
func (l *Log) On() bool { return l.state != off }

// HistoryChanged is CONFIG SET aof-disable-auto-gc: what was kept until now goes, unless it is to stay. Turn only.
func (l *Log) HistoryChanged() {
	if l.state != off {
		l.w.do(0, l.w.removeHistory)
	}
}

// Waiting says that the first rewrite is not done: what is on disk is not the data set.
func (l *Log) Waiting() bool { return l.state == waiting }

// Memory is what the buffer costs.
func (l *Log) Memory() int64 { return l.w.memory() }

// SetFlushSleep is DEBUG AOF-FLUSH-SLEEP: the writer rests for so long before each write.
func (l *Log) SetFlushSleep(d time.Duration) { l.w.rest.Store(int64(d)) }
