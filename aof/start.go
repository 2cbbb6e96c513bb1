package aof

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"time"

	"spindle/bgsave"
	"spindle/engine/data/keyspace"
	"spindle/internal/disk"
	"spindle/internal/reason"
)

// A log begins in four steps, before the first client: ReadManifest, Claim, Load, Open.

// Open begins a log at start, after a load has returned found. It makes the missing files.
//
// It is called before the first client. Errors: the system's, logged.
func (l *Log) Open(found Loaded) error {
	w, f := l.w, l.folder
	w.manifest = found.manifest
	m := found.manifest.clone()
	if err := f.disk.Mkdir(f.dir, 0o755); err != nil {
		l.parts.Log.Warning("Can't open or create append-only dir %s: %s", filepath.Base(f.dir), reason.Of(err))
		return ErrLoad
	}
	if f.exists(f.path(f.temporaryIncr())) {
		_ = f.disk.Remove(f.path(f.temporaryIncr()))
	}
	changed := m.end != nil // the next end may be another one
	m.end = nil
	if m.empty() {
		if err := l.firstBase(m); err != nil {
			return ErrLoad
		}
		changed = true
	}
	name, fresh, shared := "", false, false
	if n := len(m.incrs); n > 0 { // a backup's last increment is another server's file too
		shared, _ = f.disk.Shared(f.path(m.incrs[n-1].name)) // an error comes again when the file is opened
	}
	if n := len(m.incrs); n > 0 && !shared {
		name = m.incrs[n-1].name
		l.parts.Log.Notice("Opening AOF incr file %s on server start", name)
	} else {
		taken, _ := f.readHistory()
		incr := f.nextIncr(m, taken)
		name, changed, fresh = incr.name, true, true
		m.incrs, m.incrSeq = append(m.incrs, incr), incr.seq
		l.parts.Log.Notice("Creating AOF incr file %s on server start", name)
	}
	file, err := w.openIncr(name, fresh)
	if err == nil && changed {
		err = w.persist(m)
	}
	if err != nil {
		l.parts.Log.Warning("Can't open the append-only file %s: %s", name, reason.Of(err))
		return ErrLoad
	}
	size, err := f.disk.Size(f.path(name))
	if err != nil {
		l.parts.Log.Warning("Can't open the append-only file %s: %s", name, reason.Of(err))
		return ErrLoad
	}
	l.parts.Core.Do(func() { // in a turn, because ticks read it
		w.manifest = m
		w.useFile(file, size)
		w.openPast(m)
		l.rw.old, l.rw.base, l.rw.baseMs = found.size, found.baseSize, l.parts.Now().UnixMilli()
		l.state = on
		w.do(0, w.removeHistory)
		l.attach()
		if len(found.ends) > 0 { // otherwise the next load would drop later keys of these slots
			w.add(found.ends)
			l.rw.current += int64(len(found.ends))
			l.flushTurn()
		}
	})
	return nil
}

// firstBase makes the base for a data set that had no log.
func (l *Log) firstBase(m *manifest) (err error) {
	rdb := l.set.Preamble.Get()
	taken, _ := l.folder.readHistory()
	m.baseSeq = l.folder.nextBase(m, taken)
	base := part{l.folder.baseName(m.baseSeq, rdb), m.baseSeq}
	l.parts.Log.Notice("Creating AOF base file %s on server start", base.name)
	var view *keyspace.View
	var o bgsave.Options
	l.parts.Core.Do(func() { o, view = l.parts.Base(), l.parts.Core.Freeze() })
	defer view.Close()
	l.warnOfReaders(o)
	o.Header.AOFBase = true
	file := l.baseFile(base.name, l.folder.rewriteTemporary())
	stepDone := file.StepDone
	file.StepDone = func(step disk.Step, err error) {
		if err != nil { // no rewrite has ended
			stepDone(step, err)
		}
	}
	if rdb {
		_, err = bgsave.SaveFile(context.Background(), view, file, o)
	} else {
		_, err = bgsave.WriteFile(context.Background(), file, func(w io.Writer) error {
			return writeCommands(context.Background(), w, view, o, l.set.Timestamps.Get(), l.parts.Now().Unix())
		})
	}
	m.base = &base
	return err
}

// There reports whether the load found a log.
func (l Loaded) There() bool { return l.there }

// Claim locks the log's files for this process. A server that is ending may still hold them. Claim waits up to patience
// for it. Turn only if patience is 0.
//
// Errors: disk.ErrLocked; the system's. They are logged.
func (l *Log) Claim(patience time.Duration) error { return l.claim(l.folder, patience) }

func (l *Log) claim(f *folder, patience time.Duration) error {
	end := l.parts.Now().Add(patience)
	err := f.claim()
	for errors.Is(err, disk.ErrLocked) && l.parts.Now().Before(end) {
		time.Sleep(10 * time.Millisecond)
		err = f.claim()
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, disk.ErrLocked):
		l.parts.Log.Warning("The append-only file %s is another server's, which runs: it holds %s. "+
			"Two servers cannot write to one log.", f.name, f.lockPath())
	default:
		l.parts.Log.Warning("Can't open or create append-only dir %s: %s", filepath.Base(f.dir), reason.Of(err))
	}
	return err
}

// ReadManifest reads the manifest at start, whether the log is on or not.
//
// Errors: ErrLoad, logged.
func (l *Log) ReadManifest() error {
	m, err := l.folder.read()
	if err != nil {
		complainOfManifest(l.parts.Log, l.folder.manifestPath(), err)
		return ErrLoad
	}
	l.w.manifest = m
	return nil
}

// PassOver notes that this server serves other data than those of the log. The log then lacks later writes, so it must
// not say that a server has ended with all its data in it. It runs at start after ReadManifest. Errors are logged.
func (l *Log) PassOver() {
	if l.w.manifest.end == nil || l.Claim(0) != nil {
		return
	}
	l.w.manifest.end = nil
	_ = l.w.persist(l.w.manifest) // the log has the error
	l.folder.unclaim()
}

// LoadOther reads the files of another log into the data set, at start (preload-file aof:PATH). path is the manifest of
// that log. The files stay as they are, so a missing end is an error.
//
// Errors: ErrLoad, logged; the context's cause.
func (l *Log) LoadOther(ctx context.Context, path string, to Target) error {
	dir, name := filepath.Split(path)
	f := &folder{disk: l.parts.Disk, dir: filepath.Clean(dir), name: strings.TrimSuffix(name, manifestSuffix)}
	if !f.exists(path) {
		l.parts.Log.Warning("preload-file: there is no manifest %s", path)
		return ErrLoad
	}
	m, err := f.read()
	if err != nil {
		complainOfManifest(l.parts.Log, path, err)
		return ErrLoad
	}
	_, err = (&load{ctx: ctx, folder: f, log: l.parts.Log, to: to}).files(m)
	return err
}

// Load reads the log's files into the data set. It runs at start after ReadManifest, and for DEBUG LOADAOF after Flush.
// A log from before Redis 7 is moved into the log's folder only after it was read whole. If it is refused here, the
// server that wrote it can still read it.
//
// Errors: ErrLoad, logged; the context's cause.
func (l *Log) Load(ctx context.Context, to Target) (Loaded, error) {
	f := l.folder
	r := &load{ctx: ctx, folder: f, mayCut: l.set.Truncated.Get(), log: l.parts.Log, to: to}
	m := l.w.manifest
	if r.apart = l.state == off && f.apart(m); r.apart {
		m = m.clone()
		m.base, m.baseSeq = &part{f.name, 1}, 1
	}
	found, err := r.files(m)
	if err != nil || !r.apart {
		return found, err
	}
	if err := f.upgrade(m); err != nil {
		complainOfWriting(l.parts.Log, f, err)
		l.parts.Log.Warning("Error trying to move the old AOF file %s into dir %s: %s",
			f.name, filepath.Base(f.dir), reason.Of(err))
		return Loaded{}, ErrLoad
	}
	l.w.manifest = m
	l.parts.Log.Notice("Successfully migrated an old-style AOF file (%s) into the AOF directory (%s).",
		f.name, filepath.Base(f.dir))
	return found, nil
}
