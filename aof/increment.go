package aof

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"spindle/internal/reason"
)

// This file has the writer's share of a rewrite. All of it runs on the writer's goroutine.

// prepare makes the new increment.
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
	taken, _ := f.readHistory() // even if no history is kept now
	if !j.first {
		next := f.nextIncr(w.manifest, taken)
		j.name, j.seq = next.name, next.seq
	}
	j.base.seq = f.nextBase(w.manifest, taken)
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

// firstManifest returns the manifest before a rewrite. A log that is turned on may find an old one on disk. While a
// server runs, no number of an increment is used twice.
func (w *writer) firstManifest(j *rewriting) (*manifest, error) {
	if !j.first && !j.idle {
		return w.manifest, nil
	}
	m, err := w.folder.read()
	if err == nil {
		m.end = nil // that of an earlier server
		m.incrSeq = max(m.incrSeq, w.manifest.incrSeq)
	}
	return m, err
}

// fail ends a rewrite whose goroutine does not run any more. It must not be called in a turn. The log may then leave
// the core's sinks, so the report waits for the end of an open unit.
func (w *writer) fail(j *rewriting, err error) {
	close(j.gone)
	go w.log.parts.Core.DoBetween(func() { w.log.finished(j, err) })
}

// change directs the log to the new increment, once the old one is complete (aof.R2). If the old one cannot be written,
// for example on a full disk, the writer tries again until the base is there.
func (w *writer) change(j *rewriting) {
	if j.over.Load() && !j.first {
		w.dropIncr(j)
		return
	}
	if j.first {
		w.useFile(j.file, 0)
		j.file, w.file.temp = nil, true
		return
	}
	s := w.lock()
	whole := s.buf.first >= j.cut && s.trouble.bad == nil
	j.full = !whole && s.trouble.bad == nil && s.trouble.failing != nil
	w.unlock()
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
		w.log.parts.Log.Warning("Can't continue the AOF incr file %s: %s", j.name, reason.Of(err))
		if w.restoreManifest() {
			w.dropIncr(j)
		} else { // the file stays, empty
			_ = j.file.Close()
			j.file = nil
		}
		j.cancel(err)
		return
	}
	w.manifest = next
	s = w.lock()
	s.trouble.slow(eventRename, time.Since(began))
	w.confirmed(s, j.cut)
	w.unlock()
	old, size := w.file.File, w.file.size
	w.useFile(j.file, 0)
	j.file = nil
	_ = old.Close()
	w.pastChanged(j, size)
}

// restoreManifest writes the present manifest again after the write of a newer one has failed. The newer one may still
// be on disk, if only the sync of its folder failed. restoreManifest reports whether the files that the newer one names
// may be removed.
func (w *writer) restoreManifest() bool {
	f := w.folder
	if w.manifest.empty() {
		err := f.disk.Remove(f.manifestPath())
		return err == nil || errors.Is(err, fs.ErrNotExist)
	}
	return w.persist(w.manifest) == nil
}

// persist replaces the manifest on disk by m. Only the writer calls it. Errors are logged.
func (w *writer) persist(m *manifest) error {
	err := w.folder.write(m)
	if err != nil {
		complainOfWriting(w.log.parts.Log, w.folder, err)
	}
	return err
}

// dropMade removes the increment of a rewrite that was called off before the log used the file. The next rewrite may
// need the same name.
func (w *writer) dropMade() {
	if w.made != nil {
		w.dropIncr(w.made)
		w.made = nil
	}
}

// dropIncr removes a new increment that is still empty, if it is still there.
func (w *writer) dropIncr(j *rewriting) {
	if j.file == nil {
		return
	}
	_ = j.file.Close()
	j.file = nil
	_ = w.folder.disk.Remove(w.folder.path(j.name))
}

// adopt puts the new base in the manifest (aof.R3).
func (w *writer) adopt(j *rewriting) {
	f := w.folder
	err := context.Cause(j.ctx)
	next := w.manifest.clone()
	next.baseSeq = j.base.seq
	renamed, began := false, time.Now()
	at := w.lock().buf.first
	w.unlock()
	if err == nil && j.first {
		next.replaceBase(j.base, 0)
		taken, _ := f.readHistory()
		incr := f.nextIncr(next, taken)
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
		if at > j.cut { // there was room again, and the old file has effects that the base has too
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
		back := !wrote || w.restoreManifest()
		if renamed && back {
			_ = f.disk.Rename(f.path(next.incrs[0].name), f.path(f.temporaryIncr()))
		}
		if back && w.latest == j { // otherwise the next rewrite may have the name
			_ = f.disk.Remove(f.path(j.base.name))
		}
		if !errors.Is(err, errAborted) {
			w.log.parts.Log.Warning("Can't put the new AOF base file %s in place: %s", j.base.name, reason.Of(err))
		}
		w.fail(j, err)
		return
	}
	w.manifest, w.file.temp = next, false
	if j.full {
		w.goOnIn(j)
	}
	s := w.lock()
	s.trouble.slow(eventRename, time.Since(began))
	if s.trouble.lost = nil; j.first {
		w.confirmed(s, at) // the base has everything before the cut, and the rest was synced above
	}
	w.unlock()
	w.pastAdopted(j)
	w.removeHistory()
	close(j.gone)
	go w.log.parts.Core.Do(func() { w.log.finished(j, nil) })
}

// goOnIn handles a rewrite whose base has the effects that the old file could not take. Later effects go to the
// rewrite's increment.
func (w *writer) goOnIn(j *rewriting) {
	_ = w.file.Close()
	s := w.lock()
	w.wrote(s, j.cut-s.buf.first)
	w.confirmed(s, j.cut)
	s.trouble.tried = time.Time{} // so that it retries at once
	w.unlock()
	w.useFile(j.file, 0)
	j.file = nil
}

// removeHistory removes the files that a rewrite has replaced, except those that the history keeps. It removes none
// while the disk does not say what the history keeps.
func (w *writer) removeHistory() {
	lost := w.pastLost.Load() && w.log.set.Past.Get().on()
	if w.log.set.KeepHistory.Get() || len(w.manifest.history) == 0 || lost {
		return
	}
	f := w.folder
	for _, p := range w.manifest.history {
		if w.past != nil && w.past.has(p.name) {
			continue
		}
		w.log.parts.Log.Notice("Removing the history file %s in the background", p.name)
		_ = f.disk.Remove(f.path(p.name))
	}
	next := w.manifest.clone()
	next.history = nil
	if err := w.persist(next); err != nil {
		w.log.parts.Log.Warning("Can't take removed files out of the AOF manifest: %s", reason.Of(err))
		return // the removal is retried after the next rewrite
	}
	w.manifest = next
}
