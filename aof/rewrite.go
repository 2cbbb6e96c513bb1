package aof

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"spindle/bgsave"
	"spindle/engine/data/keyspace"
	"spindle/engine/data/value"
	"spindle/internal/disk"
	"spindle/internal/reason"
	"spindle/protocol"
)

// A rewrite makes a new base from a view, while effects go to a new increment:
//
//	turn     startRewrite      freeze: view, cut in the buffer           finished
//	writer        └▶ prepare ──┘   └▶ switch files at the cut   adopt ──┘   └▶ remove history
//	rewriter                       └▶ write the base ───────────┘
//
// aof.R1. The view and the cut are taken in one turn, between two outermost commands: a unit is in the base or in the
// new increment, never in both, never in neither.
// aof.R2. An increment is in the manifest before it has a byte, and when the one before it is whole and synced. So only
// the last increment may have lost its end.
// aof.R3. The manifest names a base when that is whole and synced, and until then what it stands for.
type rewrites struct {
	job       *rewriting
	last      *rewriting // that had a temporary file
	scheduled bool
	prepared  func() // a freeze that waits for the end of DEBUG LOADAOF

	count, forks int64
	failures     int64 // since one succeeded
	failed       bool  // the last one did
	span         time.Duration
	ended        bool  // there was one
	kept         int64 // greatest Retained during the last

	old, current int64 // sizes: of the files before the last cut, and of what came since
	base         int64 // of both, behind the last rewrite
	delay        time.Duration
	notBefore    time.Time
}

// A rewriting is a rewrite under way.
type rewriting struct {
	began  time.Time
	first  bool // the log had no data set on disk
	idle   bool // the log is off: there is only a base
	ctx    context.Context
	cancel context.CancelCauseFunc
	gone   chan struct{} // closed when it has put away its files
	over   atomic.Bool   // called off
	temp   atomic.Pointer[string]
	file   disk.File // the new increment, until the writer has it
	name   string
	seq    int64
	cut    int64 // offset at which the new increment begins
	full   bool  // the file before it could not be written up to there; it is the writer's
	base   part
	size   int64
}

// Errors as clients match them.
var (
	errInProgress = &protocol.Error{Code: "ERR", Text: "Background append only file rewriting already in progress"}
	errAborted    = errors.New("called off")
	errRoomAgain  = errors.New("the file before it can be written again")
)

// Rewriting says whether a rewrite is under way.
func (l *Log) Rewriting() bool { return l.rw.job != nil }

// rewrite is BGREWRITEAOF: it starts a rewrite, or schedules one.
func (l *Log) rewrite(inTransaction bool) (scheduled bool, err error) {
	switch {
	case l.rw.job != nil:
		return false, errInProgress
	case l.isHeld():
		return false, bgsave.ErrHeld
	case inTransaction || l.parts.Saving():
		l.rw.scheduled, l.rw.failures = true, 0
		return true, nil
	}
	l.startRewrite()
	return false, nil
}

// tickRewrite starts what is scheduled, or what growth asks for.
func (l *Log) tickRewrite(now time.Time) {
	if l.reading {
		return
	}
	if f := l.rw.prepared; f != nil {
		l.rw.prepared = nil
		f()
	}
	if l.rw.job != nil || l.parts.Saving() || l.isHeld() {
		return
	}
	if l.rw.scheduled {
		if !l.limited(now) {
			l.startRewrite()
		}
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

// Tries that fail are made ever more rarely, from the fourth on.
const (
	limitFailures = 3
	delayFirst    = time.Minute
	delayMost     = time.Hour
)

// limited says that rewrites have failed too often to try again now.
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

// startRewrite begins a rewrite: the writer makes the file for what is to come.
func (l *Log) startRewrite() {
	if l.state == off {
		l.Locate()
	}
	j := &rewriting{began: l.parts.Now(), first: l.state == waiting, idle: l.state == off, gone: make(chan struct{})}
	j.ctx, j.cancel = context.WithCancelCause(context.Background())
	l.rw.job, l.rw.scheduled = j, false
	l.rw.count++
	l.rw.forks++
	l.parts.Log.Notice("Background append only file rewriting started by pid %d", os.Getpid())
	l.w.do(0, func() { l.w.prepare(j) })
}

// prepare makes the new increment. The writer's.
func (w *writer) prepare(j *rewriting) {
	f := w.folder
	w.latest = j
	if j.over.Load() {
		close(j.gone)
		return
	}
	if err := w.log.claim(f, 0); err != nil {
		w.fail(j, err)
		return
	}
	j.name, j.seq = f.temporaryIncr(), 0
	if m, err := w.firstManifest(j); err != nil {
		complainOfManifest(w.log.parts.Log, f.manifestPath(), err)
		w.fail(j, err)
		return
	} else {
		w.manifest = m
	}
	if !j.first {
		next := f.nextIncr(w.manifest)
		j.name, j.seq = next.name, next.seq
	}
	j.base.seq = w.manifest.baseSeq + 1
	if j.idle {
		if err := f.disk.Mkdir(f.dir, 0o755); err != nil {
			w.log.parts.Log.Warning("Can't open or create append-only dir %s: %s", filepath.Base(f.dir), reason.Of(err))
			w.fail(j, err)
			return
		}
		go w.log.parts.Core.DoBetween(func() { w.log.freeze(j) })
		return
	}
	w.dropMade()
	w.log.parts.Log.Notice("Creating AOF incr file %s on background rewrite", j.name)
	file, err := w.openIncr(j.name, true)
	if err == nil && j.first {
		err = f.disk.SyncDir(f.dir)
	}
	if err != nil {
		w.log.parts.Log.Warning("Can't open the append-only file %s: %s", j.name, reason.Of(err))
		w.fail(j, err)
		return
	}
	j.file, w.made = file, j
	go w.log.parts.Core.DoBetween(func() { w.log.freeze(j) })
}

// firstManifest is the manifest that a rewrite goes on from. A log that is turned on may have one of other days.
// While a server runs no number of an increment comes twice.
func (w *writer) firstManifest(j *rewriting) (*manifest, error) {
	if !j.first && !j.idle {
		return w.manifest, nil
	}
	m, err := w.folder.read()
	if err == nil {
		m.incrSeq = max(m.incrSeq, w.manifest.incrSeq)
	}
	return m, err
}

// fail ends a rewrite that has nothing under way any more. Not in a turn.
func (w *writer) fail(j *rewriting, err error) {
	close(j.gone)
	go w.log.parts.Core.Do(func() { w.log.finished(j, err) })
}

// freeze takes the view, and cuts the buffer (aof.R1). No unit is open. It waits for a tick while the log is read: half
// a data set is not frozen.
func (l *Log) freeze(j *rewriting) {
	switch {
	case j.over.Load():
		l.w.do(0, func() { l.w.dropIncr(j); close(j.gone) })
		return
	case l.reading:
		l.rw.prepared = func() { l.freeze(j) }
		return
	}
	l.parts.Core.AssertWhole("the log is cut")
	o, rdb := l.parts.Base(), l.set.Preamble.Get()
	o.Header.AOFBase, o.Progress = true, nil
	view := l.parts.Core.Freeze()
	l.warnOfReaders(o.Header)
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

// warnOfReaders tells which servers can load a base of the data set that is described, if not every one of Redis 7 can.
// Of Bloom filters it knows only that there have been some since everything was last emptied.
func (l *Log) warnOfReaders(of bgsave.Header) {
	needs := ""
	if of.Deadlines {
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

// temporary is the file in which a rewrite writes its base. One that was called off may not have put its own away yet.
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

// change goes on in the new increment, once the old one is whole (aof.R2). If that cannot be written, as on a full
// disk, the writer goes on trying with it until the base is there. The writer's.
func (w *writer) change(j *rewriting) {
	if j.over.Load() && !j.first {
		w.dropIncr(j)
		return
	}
	if j.first {
		w.file, j.file, w.temp = j.file, nil, true
		w.setSize(0)
		return
	}
	w.mu.Lock()
	whole := w.buf.first >= j.cut && w.bad == nil
	j.full = !whole && w.bad == nil && w.failing != nil
	w.mu.Unlock()
	if j.full {
		return
	}
	err := error(nil)
	if !whole {
		err = errors.New("the file before it is not whole")
	}
	if err == nil {
		err = w.syncWhole()
	}
	began := time.Now()
	next := w.manifest.clone()
	next.incrs, next.incrSeq = append(next.incrs, part{j.name, j.seq}), j.seq
	if err == nil {
		err = w.persist(next)
	}
	if err != nil {
		w.log.parts.Log.Warning("Can't go on in the AOF incr file %s: %s", j.name, reason.Of(err))
		if w.takeBack() {
			w.dropIncr(j)
		} else { // it stays, empty
			_ = j.file.Close()
			j.file = nil
		}
		j.cancel(err)
		return
	}
	w.manifest = next
	w.mu.Lock()
	w.slow(eventRename, time.Since(began))
	w.confirmed(j.cut)
	w.mu.Unlock()
	old := w.file
	w.file, j.file = j.file, nil
	w.setSize(0)
	_ = old.Close()
}

// takeBack puts the manifest that holds in the place of one whose writing failed. That one may be on disk all the same,
// when only its folder could not be synced. It answers whether the files that the failed one names may go. Only the
// writer calls it.
func (w *writer) takeBack() bool {
	f := w.folder
	if w.manifest.empty() {
		err := f.disk.Remove(f.manifestPath())
		return err == nil || errors.Is(err, fs.ErrNotExist)
	}
	return w.persist(w.manifest) == nil
}

// persist puts m in the place of the manifest on disk. The writer's. Errors are logged.
func (w *writer) persist(m *manifest) error {
	err := w.folder.write(m)
	if err != nil {
		complainOfWriting(w.log.parts.Log, w.folder, err)
	}
	return err
}

// setSize tells how long the file is. The writer's.
func (w *writer) setSize(n int64) {
	w.mu.Lock()
	w.size = n
	w.mu.Unlock()
}

// dropMade removes the increment of a rewrite that was called off before the log went on in it: the next may have the
// same name. The writer's.
func (w *writer) dropMade() {
	if w.made != nil {
		w.dropIncr(w.made)
		w.made = nil
	}
}

// dropIncr removes a new increment that nobody has written to, if it is still there. The writer's.
func (w *writer) dropIncr(j *rewriting) {
	if j.file == nil {
		return
	}
	_ = j.file.Close()
	j.file = nil
	_ = w.folder.disk.Remove(w.folder.path(j.name))
}

// baseFile is how a base gets on disk. The log's lines are those of Redis.
func (l *Log) baseFile(name, temp string) bgsave.FileOptions {
	dir, log := l.folder.dir, l.parts.Log
	f := bgsave.FileOptions{Path: l.folder.path(name), Temp: temp, Disk: l.folder.disk, Log: log}
	temp = filepath.Base(temp)
	f.Told = func(step disk.Step, err error) {
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

// writeBase writes the new base. It has a goroutine of its own.
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

// adopt puts the new base in the manifest (aof.R3). The writer's.
func (w *writer) adopt(j *rewriting) {
	f := w.folder
	err := context.Cause(j.ctx)
	next := w.manifest.clone()
	next.baseSeq = j.base.seq
	renamed, began := false, time.Now()
	w.mu.Lock()
	at := w.buf.first
	w.mu.Unlock()
	if err == nil && j.first {
		next.replaceBase(j.base, 0)
		incr := f.nextIncr(next)
		next.incrs, next.incrSeq = []part{incr}, incr.seq
		if err = w.syncWhole(); err == nil {
			err = f.disk.Rename(f.path(f.temporaryIncr()), f.path(incr.name))
			if renamed = err == nil; renamed {
				w.log.parts.Log.Notice("Successfully renamed the temporary AOF incr file %s into %s", f.temporaryIncr(), incr.name)
			} else {
				w.log.parts.Log.Warning("Error trying to rename the temporary AOF incr file %s into %s: %s",
					f.temporaryIncr(), incr.name, reason.Of(err))
			}
		}
	} else if err == nil && j.idle {
		next.replaceBase(j.base, 0)
	} else if err == nil && j.full {
		next.replaceBase(j.base, 0)
		next.incrs, next.incrSeq = []part{{j.name, j.seq}}, j.seq
		if at > j.cut { // there was room again: what the base has must not follow it
			err = errRoomAgain
		}
	} else if err == nil {
		next.replaceBase(j.base, 1)
	}
	if err == nil {
		err = f.disk.SyncDir(f.dir)
	}
	wrote := false
	if err == nil {
		err, wrote = w.persist(next), true
	}
	if err != nil {
		back := !wrote || w.takeBack()
		if renamed && back {
			_ = f.disk.Rename(f.path(next.incrs[0].name), f.path(f.temporaryIncr()))
		}
		if back && w.latest == j { // else the name may be the next rewrite's by now
			_ = f.disk.Remove(f.path(j.base.name))
		}
		if !errors.Is(err, errAborted) {
			w.log.parts.Log.Warning("Can't put the new AOF base file %s in place: %s", j.base.name, reason.Of(err))
		}
		w.fail(j, err)
		return
	}
	w.manifest, w.temp = next, false
	if j.full {
		w.goOnIn(j)
	}
	w.mu.Lock()
	w.slow(eventRename, time.Since(began))
	if w.lost = nil; j.first {
		w.confirmed(at) // the base has what came before the cut, and the rest was synced above
	}
	w.mu.Unlock()
	w.removeHistory()
	close(j.gone)
	go w.log.parts.Core.Do(func() { w.log.finished(j, nil) })
}

// goOnIn is for a rewrite whose base has what the file before could not take: the rest goes to its increment. The
// writer's.
func (w *writer) goOnIn(j *rewriting) {
	_ = w.file.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.file, j.file, w.size = j.file, nil, 0
	w.wrote(j.cut - w.buf.first)
	w.size = 0
	w.confirmed(j.cut)
	w.tried = time.Time{} // at once
}

// removeHistory removes the files that a rewrite has replaced. The writer's.
func (w *writer) removeHistory() {
	if w.log.set.KeepHistory.Get() || len(w.manifest.history) == 0 {
		return
	}
	f := w.folder
	for _, p := range w.manifest.history {
		w.log.parts.Log.Notice("Removing the history file %s in the background", p.name)
		_ = f.disk.Remove(f.path(p.name))
	}
	next := w.manifest.clone()
	next.history = nil
	if err := w.persist(next); err != nil {
		w.log.parts.Log.Warning("Can't take removed files out of the AOF manifest: %s", reason.Of(err))
		return // they are tried again behind the next rewrite
	}
	w.manifest = next
}

// finished books the end of a rewrite.
func (l *Log) finished(j *rewriting, err error) {
	j.cancel(nil)
	if l.rw.job != j {
		return // called off; nobody waits for it any more
	}
	l.rw.job, l.rw.ended = nil, true
	l.rw.span = max(l.parts.Now().Sub(j.began), 1)
	if err == nil {
		l.rw.failed, l.rw.failures = false, 0
		l.rw.old = j.size
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
		if l.state == waiting { // without a base what was collected is of no use
			l.detach()
			l.w.abandon()
			l.rw.scheduled = true
		}
	}
	l.giveBack()
	l.look()
	l.parts.Changed()
}

// RewriteBegan is when the rewrite under way began; the zero time without one.
func (l *Log) RewriteBegan() (at time.Time) {
	if l.rw.job != nil {
		at = l.rw.job.began
	}
	return at
}

// CutOff ends the rewrite under way as one that has failed: it keeps too much memory alive.
func (l *Log) CutOff(why string) {
	l.parts.Log.Warning("Background AOF rewrite called off: %s", why)
	l.rw.job.cancel(errors.New(why))
}

// abortRewrite calls off the rewrite that is under way.
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
}

// size is how long all files of the log are, with what waits for the disk.
func (l *Log) size() int64 { return l.rw.old + l.rw.current }
