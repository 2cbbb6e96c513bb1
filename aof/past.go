package aof

import (
	"errors"
	"slices"

	"spindle/internal/reason"
)

// This file has the writer's share of the history. All of it runs on the writer's goroutine, except the first call of
// openPast, which comes before the first client.

// openPast begins the history at start, after the manifest m and its files exist. After a crash the index may lack the
// last step of the manifest. Increments in the manifest that follow the index's last one adjoin it (aof.R2). If none
// does, a new stretch begins.
func (w *writer) openPast(m *manifest) {
	w.past = nil
	if !w.log.set.Past.Get().on() {
		return
	}
	h := w.readPast()
	if w.past = h; h == nil {
		return
	}
	last := -1
	if n := len(h.incrs); n > 0 {
		last = slices.IndexFunc(m.incrs, func(p part) bool { return p.name == h.incrs[n-1].name })
	}
	if last < 0 {
		if h.live() != nil { // the disk was full: the index lacks the last steps
			h.gap = gapAfter(h.end(), m.incrs)
		}
		w.shutPast()
		w.beginPast(m)
	} else {
		h.incrs[len(h.incrs)-1].size = liveSize
		for _, p := range m.incrs[last+1:] {
			w.shutPast()
			h.next(p.name, w.log.parts.Now().UnixMilli())
		}
		first := slices.IndexFunc(h.incrs, func(p pastIncr) bool { return p.name == m.incrs[0].name })
		if first >= 0 && m.base != nil && !h.has(m.base.name) {
			size, _ := w.folder.size(*m.base)
			h.bases = append(h.bases, pastBase{m.base.name, size, h.incrs[first].offset, h.incrs[first].fromMs})
		}
	}
	w.keepPast()
	w.measure()
}

// readPast reads the index. It renames a damaged one. If the disk does not give the index, readPast returns nil, and
// lostPast says so: the index and its files must stay as they are.
func (w *writer) readPast() *history {
	f, log := w.folder, w.log.parts.Log
	h, err := f.readHistory()
	if errors.Is(err, errHistory) {
		log.Warning("%s. It is renamed to %s, and a new history begins.", err, f.name+historySuffix+damagedSuffix)
		h, err = &history{}, f.disk.Rename(f.historyPath(), f.historyPath()+damagedSuffix)
	}
	w.pastLost.Store(err != nil)
	if err != nil {
		log.Warning("Can't read the AOF's history, which stays as it is: %s", reason.Of(err))
		return nil
	}
	return h
}

// findPast reads the index again, if the disk did not give it before.
func (w *writer) findPast() {
	if w.past == nil && w.pastLost.Load() && w.file.File != nil && !w.file.temp && len(w.manifest.incrs) > 0 {
		w.openPast(w.manifest)
		w.removeHistory() // of rewrites meanwhile
	}
}

// beginPast adds the files of the manifest as a new stretch.
func (w *writer) beginPast(m *manifest) {
	if m.base == nil || len(m.incrs) == 0 {
		return
	}
	now := w.log.parts.Now().UnixMilli()
	size, _ := w.folder.size(*m.base)
	for i, p := range m.incrs {
		length := int64(liveSize)
		if i < len(m.incrs)-1 {
			length, _ = w.folder.size(p)
		}
		if i == 0 {
			w.past.begin(pastBase{name: m.base.name, size: size, atMs: now}, p.name, length)
			continue
		}
		w.past.next(p.name, now)
		w.past.incrs[len(w.past.incrs)-1].size = length
	}
}

// shutPast notes the size of the increment that the log leaves. It asks the disk, because the file's damaged end may
// have been cut off.
func (w *writer) shutPast() {
	if p := w.past.live(); p != nil {
		size, err := w.folder.disk.Size(w.folder.path(p.name))
		if err != nil {
			size = 0 // the file is missing: no moment in it can be restored
		}
		w.past.shut(size)
	}
}

// pastChanged updates the history after the log has switched to the increment of j, at the cut. The old increment is
// complete.
func (w *writer) pastChanged(j *rewriting, oldSize int64) {
	if w.past == nil || !w.startPast() {
		return // a history begins with a base
	}
	w.past.shut(oldSize)
	w.past.next(j.name, j.cutMs)
	w.pastAt.Store(w.past.live().offset - j.cut)
	w.keepPast()
}

// pastAdopted updates the history after the manifest has named the base of j.
func (w *writer) pastAdopted(j *rewriting) {
	if !w.startPast() || j.idle {
		return
	}
	base := pastBase{name: j.base.name, size: j.size, atMs: j.cutMs}
	live := w.past.live()
	if live != nil && live.name == w.manifest.incrs[len(w.manifest.incrs)-1].name && !j.first && !j.full {
		base.offset = live.offset
		w.past.bases = append(w.past.bases, base)
	} else {
		w.shutPast()
		w.past.begin(base, w.manifest.incrs[len(w.manifest.incrs)-1].name, liveSize)
		w.pastAt.Store(w.past.live().offset - j.cut)
	}
	w.keepPast()
}

// startPast reports whether a history is kept. If the setting was turned on after the start, the history begins with
// the files of the manifest.
func (w *writer) startPast() bool {
	switch on := w.log.set.Past.Get().on(); {
	case !on && w.past != nil:
		w.shutPast()
		w.keepPast()
		w.past = nil
		w.pastOn.Store(false)
	case on && w.past == nil:
		if w.past = w.readPast(); w.past != nil {
			w.shutPast()
		}
	}
	return w.past != nil
}

// keepPast removes files that are too old or too much, and writes the index. If the write fails, the next change tries
// again. No file is removed before the index on disk marks it.
func (w *writer) keepPast() {
	if w.past == nil {
		return
	}
	w.pastOn.Store(true)
	if k := w.log.set.Past.Get(); k.on() {
		w.past.prune(k, w.log.parts.Now().UnixMilli())
	}
	for _, name := range w.past.gone {
		w.log.parts.Log.Notice("Removing %s: the AOF's history is kept for %s", name, formatKeep(w.log.set.Past.Get()))
	}
	if err := w.folder.writeHistory(w.past, w.manifest); err != nil {
		w.log.parts.Log.Warning("Can't write the index of the AOF's history: %s", reason.Of(err))
	}
	w.pastSize.Store(w.past.size())
	if len(w.past.bases) > 0 {
		w.pastFrom.Store(w.past.bases[0].atMs)
	}
}
