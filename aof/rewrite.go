package aof

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"spindle/bgsave"
	"spindle/bgsave/codec"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
	"spindle/internal/disk"
	"spindle/internal/reason"
)

// A rewrite makes a new base from a view, a snapshot of the data set. Meanwhile, effects go to a new increment, which
// begins at the cut:
//
//	turn     startRewrite      freeze: view, cut in the buffer           finished
//	writer        └▶ prepare ──┘   └▶ switch files at the cut   adopt ──┘   └▶ remove history
//	rewriter                       └▶ write the base ───────────┘
//
// aof.R1. The view and the cut are taken in one turn, between two outermost commands. So each unit is in exactly one of
// the base and the new increment.
// aof.R2. The manifest lists an increment before its first byte is written. Before that, the previous increment is
// complete and synced. So only the last increment may be truncated.
// aof.R3. The manifest names a base only when the base is complete and synced. Until then it names the files that the
// base replaces.
type rewrites struct {
	job       *rewriting
	last      *rewriting // the last rewrite that had a temporary file
	scheduled bool
	prepared  func() // a freeze that waits for the end of a move of slots

	count, forks int64
	failures     int64 // failures since the last success
	failed       bool  // the last rewrite has failed
	span         time.Duration
	ended        bool  // a rewrite has ended
	kept         int64 // greatest Retained during the last rewrite

	old, current int64 // sizes: of the files before the last cut, and of the bytes since
	base         int64 // old and current together, after the last rewrite
	baseMs       int64 // when the last base was cut, or the log began
	delay        time.Duration
	notBefore    time.Time
}

// A rewriting is one running rewrite.
type rewriting struct {
	began  time.Time
	first  bool // the log had no data set on disk
	idle   bool // the log is off: the rewrite only makes a base
	ctx    context.Context
	cancel context.CancelCauseFunc
	gone   chan struct{} // closed when its files are in place or removed
	over   atomic.Bool   // it was called off
	temp   atomic.Pointer[string]
	file   disk.File // the new increment, until the writer takes it over
	name   string
	seq    int64
	cut    int64 // offset at which the new increment begins
	cutMs  int64 // the Unix time of the view
	full   bool  // the old file could not be written up to the cut; the writer's field
	base   part
	size   int64
}

var (
	errAborted   = errors.New("called off")
	errRoomAgain = errors.New("the file before it can be written again")
)

// Rewriting reports whether a rewrite is running.
func (l *Log) Rewriting() bool { return l.rw.job != nil }

// rewrite runs BGREWRITEAOF: it starts a rewrite, or schedules one.
func (l *Log) rewrite(inTransaction bool) (scheduled bool, err error) {
	switch {
	case l.rw.job != nil:
		return false, errInProgress
	case l.isHeld():
		return false, bgsave.ErrHeld
	case inTransaction || l.parts.Saving() || l.backup.state == backupIncrementing:
		l.rw.scheduled, l.rw.failures = true, 0
		return true, nil
	}
	l.startRewrite()
	return false, nil
}

// tickRewrite starts a rewrite that is scheduled, or due by growth.
func (l *Log) tickRewrite(now time.Time) {
	if l.reading {
		return
	}
	if f := l.rw.prepared; f != nil {
		l.rw.prepared = nil
		f()
	}
	if l.rw.job != nil || l.parts.Saving() || l.isHeld() || l.backup.state == backupIncrementing { // aof.K1
		return
	}
	if l.rw.scheduled {
		if !l.limited(now) {
			l.startRewrite()
		}
		return
	}
	if l.pastIsDue(now) && !l.limited(now) {
		l.startRewrite()
		return
	}
	percent, least := l.set.Percentage.Get(), l.set.MinSize.Get()
	size := l.size()
	if l.state != on || percent == 0 || size <= least {
		return
	}
	base := max(l.rw.base, 1)
	if growth := size*100/base - 100; growth >= percent && !l.limited(now) {
		l.parts.Log.Notice("Starting automatic rewriting of AOF on %d%% growth", growth)
		l.startRewrite()
	}
}

// pastIsDue reports whether the history needs a base: it has none yet, or the last one is too old. Too old means more
// than a quarter of the time to keep. Without newer bases, the history could not be cut to its time.
func (l *Log) pastIsDue(now time.Time) bool {
	k := l.set.Past.Get()
	if l.state != on || !k.on() {
		return false
	}
	old := k.seconds > 0 && l.rw.current > 0 && now.UnixMilli()-l.rw.baseMs > max(1000*k.seconds/4, pastLeastMs)
	if old || !l.w.pastOn.Load() && !l.w.pastLost.Load() {
		l.parts.Log.Notice("Starting automatic rewriting of AOF for its history")
		return true
	}
	return false
}

// pastLeastMs is the youngest age of a base at which the history asks for another.
const pastLeastMs = 60_000

// After three failures, retries become rarer each time.
const (
	limitFailures = 3
	delayFirst    = time.Minute
	delayMost     = time.Hour
)

// limited reports whether rewrites have failed too often to try again now.
func (l *Log) limited(now time.Time) bool {
	if l.rw.failures < limitFailures {
		l.rw.delay, l.rw.notBefore = 0, time.Time{}
		return false
	}
	if !l.rw.notBefore.IsZero() {
		if now.Before(l.rw.notBefore) {
			return true
		}
		l.rw.notBefore = time.Time{}
		return false
	}
	l.rw.delay = min(max(2*l.rw.delay, delayFirst), delayMost)
	l.rw.notBefore = now.Add(l.rw.delay)
	l.parts.Log.Warning("Background AOF rewrite has repeatedly failed and triggered the limit, will retry in %d minutes",
		l.rw.delay/time.Minute)
	return true
}

// startRewrite begins a rewrite: the writer makes the file for later effects.
func (l *Log) startRewrite() {
	if l.state == off {
		l.Locate()
	}
	j := &rewriting{began: l.parts.Now(), first: l.state == waiting, idle: l.state == off, gone: make(chan struct{})}
	j.ctx, j.cancel = context.WithCancelCause(context.Background())
	l.rw.job, l.rw.scheduled = j, false
	l.snapshotting()
	l.rw.count++
	l.rw.forks++
	l.parts.Log.Notice("Background append only file rewriting started by pid %d", os.Getpid())
	l.w.do(0, func() { l.w.prepare(j) })
}

// freeze takes the view, and cuts the buffer (aof.R1). No unit is open. While slots move here, it waits for a later
// tick, because the data set is incomplete.
func (l *Log) freeze(j *rewriting) {
	switch {
	case j.over.Load():
		l.w.do(0, func() { l.w.dropIncr(j); close(j.gone) })
		return
	case l.parts.Core.Importing():
		l.rw.prepared = func() { l.freeze(j) }
		return
	}
	l.parts.Core.AssertWhole("the log is cut")
	o, rdb := l.parts.Base(), l.set.Preamble.Get()
	o.Header.AOFBase, o.Progress = true, nil
	view := l.parts.Core.Freeze()
	j.cutMs = l.parts.Now().UnixMilli()
	l.warnOfReaders(o)
	if j.first {
		l.attach()
	}
	if !j.idle {
		l.selected, l.stamped = -1, 0
		l.rw.old, l.rw.current = l.size(), 0
		j.cut = l.w.end()
		l.w.do(j.cut, func() { l.w.change(j) })
	}
	j.base.name = l.folder.baseName(j.base.seq, rdb)
	f := l.baseFile(j.base.name, l.temporary(j))
	f.Sync = l.set.IncrementalSync.Get()
	go l.writeBase(j, view, f, o, rdb)
}

// warnOfReaders logs which servers can load a base with the described data, if not every server of Redis 7 can. Deleted
// Bloom filters count too, until the data set is emptied.
func (l *Log) warnOfReaders(o bgsave.Options) {
	needs, of := "", o.Header
	switch {
	case codec.Version(of.Encodings, o.Newest, false) == codec.MemoryVersion:
		needs = "Redis 8.6 or later, for the messages of a stream's producers"
	case of.Deadlines:
		needs = "Redis 7.4 or later, for the deadlines of hash fields"
	}
	if of.Encodings.Any(value.Module) {
		if needs != "" {
			needs += ", and "
		}
		needs += "the module bf, for Bloom filters"
	}
	if needs != "" {
		l.parts.Log.Notice("A server that loads the new AOF base has to be spindle, or needs %s", needs)
	}
}

// temporary returns the file in which a rewrite writes its base. A rewrite that was called off may still use another
// file.
func (l *Log) temporary(j *rewriting) string {
	name := l.folder.rewriteTemporary()
	if last := l.rw.last; last != nil {
		select {
		case <-last.gone:
		default:
			name = strings.TrimSuffix(name, ".aof") + "-" + strconv.FormatInt(l.rw.count, 10) + ".aof"
		}
	}
	l.rw.last = j
	j.temp.Store(&name)
	return name
}

// baseFile returns how a base is written to disk. The log's lines are those of Redis.
func (l *Log) baseFile(name, temp string) bgsave.FileOptions {
	dir, log := l.folder.dir, l.parts.Log
	f := bgsave.FileOptions{Path: l.folder.path(name), Temp: temp, Disk: l.folder.disk, Log: log}
	temp = filepath.Base(temp)
	f.StepDone = func(step disk.Step, err error) {
		switch {
		case step == disk.StepOpen:
			log.Warning("Opening the temp file for AOF rewrite in rewriteAppendOnlyFile(): %s", reason.Of(err))
		case step == disk.StepWrite && err != nil:
			log.Warning("Write error writing append only file on disk: %s", reason.Of(err))
		case step == disk.StepWrite:
			log.Notice("Successfully created the temporary AOF base file %s", temp)
		case step == disk.StepRename && err != nil:
			log.Warning("Error trying to rename the temporary AOF base file %s into %s: %s", temp, name, reason.Of(err))
		case step == disk.StepRename:
			log.Notice("Background AOF rewrite terminated with success")
			log.Notice("Successfully renamed the temporary AOF base file %s into %s", temp, name)
		default:
			log.Warning("Fail to fsync AOF directory %s: %s.", dir, reason.Of(err))
		}
	}
	return f
}

// writeBase writes the new base. It runs on its own goroutine.
func (l *Log) writeBase(j *rewriting, view *keyspace.View, f bgsave.FileOptions, o bgsave.Options, rdb bool) {
	var err error
	if rdb {
		j.size, err = bgsave.SaveFile(j.ctx, view, f, o)
	} else {
		j.size, err = bgsave.WriteFile(j.ctx, f, func(w io.Writer) error {
			return writeCommands(j.ctx, w, view, o, l.set.Timestamps.Get(), l.parts.Now().Unix())
		})
	}
	view.Close()
	if err != nil {
		l.w.fail(j, err)
		return
	}
	l.w.do(0, func() { l.w.adopt(j) })
}

// finished notes the end of a rewrite.
func (l *Log) finished(j *rewriting, err error) {
	j.cancel(nil)
	if l.rw.job != j {
		return // it was called off
	}
	l.rw.job, l.rw.ended = nil, true
	l.rw.span = max(l.parts.Now().Sub(j.began), 1)
	if err == nil {
		l.rw.failed, l.rw.failures = false, 0
		l.rw.old, l.rw.baseMs = j.size, j.cutMs
		l.rw.base = l.size()
		if l.state == waiting {
			l.state = on
		}
		l.parts.Log.Notice("Background AOF rewrite finished successfully")
	} else {
		l.rw.failed = true
		l.rw.failures++
		l.parts.Log.Warning("Background AOF rewrite terminated with error: %s", reason.Of(err))
		l.w.do(0, func() { l.w.dropIncr(j) })
		if l.state == waiting { // without a base, the collected effects are useless
			l.detach()
			l.w.abandon()
			l.rw.scheduled = true
		}
	}
	l.rewritten(err)
	l.giveBack()
	l.look()
	l.parts.Changed()
}

// RewriteBegan returns when the running rewrite began, or the zero time if none runs.
func (l *Log) RewriteBegan() (at time.Time) {
	if l.rw.job != nil {
		at = l.rw.job.began
	}
	return at
}

// CutOff calls off the running rewrite, because it keeps too much memory alive. It counts as failed.
func (l *Log) CutOff(why string) {
	l.parts.Log.Warning("Background AOF rewrite called off: %s", why)
	l.rw.job.cancel(errors.New(why))
}

// abortRewrite calls off the running rewrite.
func (l *Log) abortRewrite(why string) {
	j := l.rw.job
	if j == nil {
		return
	}
	l.parts.Log.Notice("Killing running AOF rewrite child: %d", os.Getpid())
	if why != "" {
		l.parts.Log.Notice("It is called off because %s", why)
	}
	l.rw.job, l.rw.ended = nil, true
	l.rw.span = max(l.parts.Now().Sub(j.began), 1)
	j.over.Store(true)
	j.cancel(errAborted)
	if l.rw.prepared != nil {
		l.rw.prepared()
		l.rw.prepared = nil
	}
	if l.backup.state == backupSnapshotting {
		l.failBackup(errAborted)
	}
}

// size is the length of all files of the log, with the bytes that wait for the disk.
func (l *Log) size() int64 { return l.rw.old + l.rw.current }
